"""``colret.open`` and what it returns, as a program uses it."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import colret
import colret.encoders
from colret.best_of_documents import best_of_documents
from colret.encoders.text import TextEncoder
from colret.errors import DocumentError, FilterError
from colret.search import Ranking
from colret.types import Hit as RankedHit
from colret.types import PageRef
from tests.conftest import TOPICS, write_pdf


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder: a PDF for each of two topics, and one of three pages, the second of them blank."""
    path = tmp_path_factory.mktemp("documents")
    for name in ("revenue", "sourdough"):
        write_pdf(path / f"{name}.pdf", TOPICS[name])
    write_pdf(path / "heron.pdf", TOPICS["heron"], "", "A heron waits for fish and stands in shallow water")
    return path


@pytest.fixture(scope="module")
def made(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "index"
    with colret.create(path, model="embedded", device="cpu") as index:
        report = index.ingest(documents)
        assert (report.n_added, report.n_pages, report.n_blank) == (3, 4, 1)
    return path


@pytest.fixture
def index(made: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> colret.Index:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    return colret.open(made)


def found(results: colret.Results) -> list[tuple[str, int]]:
    return [(Path(hit.file).stem, hit.page) for hit in results]


def red(image: Image.Image) -> float:
    """Return the largest excess of red over blue: how hot the hottest pixel is drawn."""
    pixels = np.asarray(image, np.int64)
    return float((pixels[..., 0] - pixels[..., 2]).max())


def test_importing_colret_imports_nothing_heavy() -> None:
    heavy = ["lancedb", "torch", "transformers", "numpy", "PIL", "colret.api"]
    code = f"import sys, colret; print([name for name in {heavy} if name in sys.modules], colret.open.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] open_index\n"
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = colret.opne


def test_a_search_returns_pages_best_first(index: colret.Index, documents: Path) -> None:
    results = index.search("bread with salt", k=2)
    assert (len(results), results.n_pages, results.n_scored, results.lane) == (2, 4, 4, "both")
    assert results.query == "bread with salt"
    best = results[0]
    assert (best.rank, best.file, best.page) == (1, str(documents / "sourdough.pdf"), 1)
    assert best.paths == (best.file,)
    assert best.score > results[1].score
    assert best.snippet == best.text == TOPICS["sourdough"]
    assert "bread" in [best.snippet[start:end].split()[-1] for start, end in best.highlights]
    assert best.size == (612, 792)


def test_hits_tell_regions_and_tokens_in_points(index: colret.Index) -> None:
    [hit] = index.search("fish in shallow water", k=1)
    left, top, right, bottom = hit.regions[0].box
    assert (36 < left < right < 612, 70 < top < bottom < 110) == (True, True)
    assert [each.token for each in hit.tokens] == ["fish", "in", "shallow", "water"]
    assert min(each.similarity for each in hit.tokens) > 0.5


def test_images_show_what_matched_and_less_of_it_on_worse_pages(index: colret.Index) -> None:
    results = index.search("net revenue by segment", k=4)
    plain, first, last = (
        results[0].image(overlay=False, size=300),
        results[0].image(size=300),
        results[3].image(size=300),
    )
    assert max(plain.size) == max(first.size) == 300
    assert red(plain) == 0
    assert red(first) > 90 > red(last)
    token = next(i for i, each in enumerate(results[0].tokens) if each.token == "revenue")
    assert red(results[0].image(token=token, size=300)) > 60
    for size, wrong in ((1, None), (10**6, None), (300, 99), (300, -1)):
        with pytest.raises(ValueError, match=r"size is from|there are 4 tokens"):
            results[0].image(size=size, token=wrong)


def test_an_image_needs_the_file_as_it_was(tmp_path: Path, embedded: TextEncoder) -> None:
    path = write_pdf(tmp_path / "heron.pdf", TOPICS["heron"])
    with colret.create(tmp_path / "index", model="embedded", device="cpu") as index:
        index.ingest(path)
        [hit], [unseen] = index.search("a bird"), index.search("a bird")
        write_pdf(path, TOPICS["orbit"])
        with pytest.raises(DocumentError, match="has changed since it was ingested"):
            hit.image()
        assert hit.regions  # these come from the index
        assert index.ingest(path).n_replaced == 1  # and what is new is seen at once
        assert index.search("a bird")[0].text == TOPICS["orbit"]
        with pytest.raises(colret.ColretError, match="search again"):
            _ = unseen.text


def test_filters_and_lanes_narrow_a_search(index: colret.Index) -> None:
    assert found(index.search("bread", docs=["heron*"], where="page > 1")) == [("heron", 3)]
    assert found(index.search("bread", docs=["heron*"], per_document=True)) == [("heron", 3)]
    assert index.search("bread", k=1, prefilter="binary", n_candidates=2).n_scored == 2
    with pytest.raises(FilterError, match="names no document"):
        index.search("bread", docs=["nothing.pdf"])
    for wrong in ({"k": 0}, {"prefilter": "magic"}, {"lane": "fast"}, {"n_candidates": 0}):
        with pytest.raises(ValueError, match=r"."):
            index.search("bread", **wrong)
    with pytest.raises(ValueError, match="no tokens"):
        index.search("")


def test_only_the_best_page_of_each_document_is_kept(index: colret.Index) -> None:
    assert found(index.search("a heron and fish", k=2))[:2] == [("heron", 3), ("heron", 1)]
    best = found(index.search("a heron and fish", k=2, per_document=True))
    assert best[0] == ("heron", 3)
    assert len({name for name, _ in best}) == len(best) == 2
    assert len(index.search("a heron and fish", k=9, per_document=True)) == 3


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 7))
def test_best_pages_are_those_of_the_whole_ranking(documents: list[int], k: int) -> None:
    """Asking for a few pages first, and for more where too few documents are among them, changes nothing."""
    hits = [RankedHit(PageRef(f"{document}", i + 1), -float(i), 0.0, i) for i, document in enumerate(documents)]
    first = [hit for i, hit in enumerate(hits) if documents.index(documents[i]) == i][:k]
    asked: list[int] = []

    def rank(n: int) -> Ranking:
        asked.append(n)
        return Ranking(hits[:n], len(hits), len(hits))

    assert best_of_documents(rank, k).hits == first
    assert asked == sorted(asked)
    assert len(asked) == 1 or asked[-2] <= len(hits)


def test_words_alone_need_no_model_until_regions_are_asked_for(
    made: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(name: str, **options: Any) -> TextEncoder:
        loaded.append(name)
        return embedded

    monkeypatch.setattr(colret.encoders, "load_encoder", load)
    with colret.open(made) as index:
        results = index.search("heron", lane="text")
        assert found(results) == [("heron", 1), ("heron", 3)]
        assert not loaded
        assert results[0].regions
        assert loaded == ["embedded"]


def test_many_texts_are_answered_as_one_by_one(index: colret.Index) -> None:
    texts = ["bread with salt", "a bird that eats fish", "sales of the company"]
    assert index.search_many(texts, k=3) == [index.search(text, k=3) for text in texts]


def test_threads_may_share_an_index(index: colret.Index) -> None:
    texts = ["bread with salt", "a bird that eats fish", "sales of the company"] * 3
    expected = [index.search(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(index.search, texts))
        regions = list(pool.map(lambda results: results[0].regions, answers))
    assert answers == expected
    assert regions == [results[0].regions for results in expected]


def test_pages_like_a_page_are_found_without_it(index: colret.Index, documents: Path) -> None:
    results = index.like(documents / "heron.pdf", 3, k=3)
    assert results.verdict is None
    assert found(results)[0] == ("heron", 1)
    assert ("heron", 3) not in found(results)
    assert results[0].regions
    with pytest.raises(colret.ColretError, match="names 2 documents"):
        index.like("[rs]*.pdf")
    with pytest.raises(colret.ColretError, match="does not hold page"):
        index.like("heron*", 2)


def test_pages_like_another_file_are_found(index: colret.Index, documents: Path, tmp_path: Path) -> None:
    same = index.search_image(documents / "heron.pdf", 3, k=1)
    assert (found(same), round(same[0].score, 2)) == ([("heron", 3)], 0.99 if same[0].score < 0.995 else 1.0)
    other = write_pdf(tmp_path / "other.pdf", "Bread and salt, flour and water, and a sourdough")
    assert found(index.search_image(other, k=1, per_document=True)) == [("sourdough", 1)]
    with pytest.raises(DocumentError, match="no such file"):
        index.search_image(tmp_path / "none.png")


def test_an_index_tells_what_it_holds(index: colret.Index, made: Path) -> None:
    assert index.path == made
    assert index.info().n_pages == 4
    assert [Path(record.files[0].path).stem for record in index.documents()] == ["heron", "revenue", "sourdough"]


def test_one_document_may_be_named_by_itself(index: colret.Index) -> None:
    assert {name for name, _ in found(index.search("fish", docs="heron.pdf"))} == {"heron"}


def test_a_closed_index_says_so(made: Path) -> None:
    with colret.open(made) as closed:
        pass
    with pytest.raises(ValueError, match="is closed: open it again"):
        closed.search("fish")
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        closed.serch  # type: ignore[attr-defined]  # noqa: B018


def test_what_is_no_index_is_refused(tmp_path: Path, made: Path) -> None:
    with pytest.raises(colret.ColretError, match="no index here"):
        colret.open(tmp_path / "none")
    with pytest.raises(colret.ColretError, match=re.escape(str(made))):
        colret.create(made, model="embedded", device="cpu")
    wrong: dict[str, Any] = {"dim": 10**4}
    with pytest.raises(ValueError, match="384 dimensions"):
        colret.create(tmp_path / "new", model="embedded", device="cpu", **wrong)
