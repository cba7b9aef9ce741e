"""Query by example: against all vectors of all pages, itself left out, from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from colret.by_example import EVERYWHERE, evenly, file_vectors, search_vectors, stored_vectors
from colret.encoders.text import TextEncoder
from colret.errors import DocumentError, StoreError
from colret.scoring import maxsim
from colret.search import Ranking, Scope
from colret.store import PageStore
from colret.types import PageRef
from tests.conftest import write_pdf

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def index(example_index: Path) -> PageStore:
    return PageStore.open(example_index)


def doc_id(index: PageStore, name: str) -> str:
    return next(record.doc_id for record in index.documents() if Path(record.files[0].path).stem == name)


def search_like(index: PageStore, ref: PageRef, *, k: int = 10, scope: Scope = EVERYWHERE) -> Ranking:
    return search_vectors(index, stored_vectors(index, ref), k=k, scope=scope, leave_out=ref)


def search_file(index: PageStore, encoder: TextEncoder, path: Path, *, number: int = 1, k: int = 10) -> Ranking:
    return search_vectors(index, file_vectors(index, encoder, path, number=number), k=k)


@pytest.mark.parametrize("place", [0, 7, 14, 28])
def test_it_ranks_as_all_vectors_of_the_page_do(index: PageStore, place: int) -> None:
    pages = index.candidates()
    ref = pages[place].ref
    vectors = stored_vectors(index, ref)
    scores = maxsim(vectors, index.vectors(np.arange(29)))
    expected = [i for i in np.argsort(-scores, kind="stable").tolist() if i != place]
    found = search_like(index, ref, k=5)
    assert [hit.ref for hit in found.hits] == [pages[i].ref for i in expected[:5]]
    assert [hit.maxsim for hit in found.hits] == pytest.approx([scores[i] for i in expected[:5]])
    assert found.hits[0].score == pytest.approx(scores[expected[0]] / len(vectors))
    assert (found.n_pages, found.n_scored, found.lane) == (28, 28, "visual")


def test_a_copy_of_a_page_is_found_first(index: PageStore) -> None:
    """The second pages of three of the examples say the same."""
    found = search_like(index, PageRef(doc_id(index, "PerksPlus"), 2), k=3)
    copies = {(doc_id(index, name), 2) for name in ("Benefit_Options", "employee_handbook")}
    assert {(hit.ref.doc_id, hit.ref.number) for hit in found.hits[:2]} == copies
    assert found.hits[1].score > 0.95 > found.hits[2].score


def test_a_page_of_a_file_finds_itself(index: PageStore, embedded: TextEncoder) -> None:
    found = search_file(index, embedded, EXAMPLES / "quill.pdf", number=4, k=2)
    assert found.hits[0].ref == PageRef(doc_id(index, "quill"), 4)
    assert found.hits[0].score > 0.9 > found.hits[1].score
    assert found.n_pages == 29


def test_a_file_that_is_not_in_the_index(index: PageStore, embedded: TextEncoder, tmp_path: Path) -> None:
    page = write_pdf(tmp_path / "like.pdf", "Reimbursement of gym memberships, yoga and other fitness activities")
    found = search_file(index, embedded, page, k=1)
    assert found.hits[0].ref.doc_id == doc_id(index, "PerksPlus")


def test_scope_and_k(index: PageStore) -> None:
    ref = PageRef(doc_id(index, "quill"), 1)
    inside = search_like(index, ref, k=100, scope=Scope(docs=("*PerksPlus*",)))
    assert sorted(hit.ref.number for hit in inside.hits) == [1, 2, 3, 4]
    assert inside.n_pages == 4
    assert len(search_like(index, ref, k=100).hits) == 28
    with pytest.raises(ValueError, match="at least 1"):
        search_like(index, ref, k=0)


def test_what_cannot_be_an_example(index: PageStore, embedded: TextEncoder, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not hold page nowhere:1"):
        search_like(index, PageRef("nowhere", 1))
    with pytest.raises(StoreError, match="does not hold page"):
        search_like(index, PageRef(doc_id(index, "quill"), 11))
    blank = tmp_path / "blank.png"
    Image.new("RGB", (400, 300), "white").save(blank)
    with pytest.raises(DocumentError, match=r"blank\.png page 1: holds nothing that the model reads"):
        search_file(index, embedded, blank)
    with pytest.raises(DocumentError, match="there are 10 pages"):
        search_file(index, embedded, EXAMPLES / "quill.pdf", number=11)


def test_other_examples_than_pages_are_ranked_by_their_mean_similarity(index: PageStore) -> None:
    vectors = stored_vectors(index, index.candidates()[3].ref)[:1]
    found = search_vectors(index, vectors, k=1)
    assert found.hits[0].maxsim == pytest.approx(1, abs=0.05)
    assert found.hits[0].score == min(found.hits[0].maxsim, 1.0)


def test_evenly_spread_rows() -> None:
    rows = np.arange(10, dtype=np.float32)[:, None]
    assert evenly(rows, 4)[:, 0].tolist() == [0, 3, 6, 9]
    assert evenly(rows, 10) is rows
