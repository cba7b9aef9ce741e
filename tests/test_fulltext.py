"""Text candidates: BM25 over the pages' words, whatever a person types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import colret.compaction
import colret.store
from colret.encoders.text import TextEncoder
from colret.ingest import ingest
from colret.store import PageStore
from colret.types import EncodedPage, Page, PageRef, Words
from tests.conftest import TOPICS, write_pdf
from tests.test_store import SETTINGS, encoded, record

VOCABULARY = ("zorp", "quux", "blarf", "wibble", "NX-2000", "straße", "日本")  # no stop words, no two of one stem


def page(doc_id: str, number: int, text: str) -> EncodedPage:
    """Return a page with these words."""
    made = encoded(doc_id, number)
    texts = tuple(text.split())
    words = Words(texts, np.zeros((len(texts), 4), np.uint16))
    return EncodedPage(Page(PageRef(doc_id, number), 612.0, 792.0, words, None, 0), made.embedding)


def fill(path: Path, texts: list[str], doc_id: str = "a") -> PageStore:
    store = PageStore.create(path, SETTINGS)
    store.add_pages([page(doc_id, number, text) for number, text in enumerate(texts, start=1)])
    store.put_documents([record(doc_id, len(texts))])
    return store


def numbers(store: PageStore, text: str, k: int = 10) -> list[int]:
    return [candidate.ref.number for candidate in store.matching_text(text, k)]


@pytest.fixture(params=[False, True], ids=["unindexed", "indexed"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> PageStore:
    """Pages of invented words, before and after their index is built."""
    store = fill(tmp_path / "index", ["zorp quux", "zorp quux", "zorp zorp", "blarf", "quux blarf NX-2000", "", "日本"])
    if request.param:
        with store.writing():
            store.update_indexes()
        assert store.column_indexes()["text"].n_indexed == 7
    return store


def test_best_first_and_equal_scores_by_page(index: PageStore) -> None:
    assert numbers(index, "zorp") == [3, 1, 2]
    assert numbers(index, "zorp", 1) == [3]
    assert numbers(index, "NX-2000 quux")[0] == 5  # the rarer word counts more
    assert numbers(index, "日本") == [7]


def test_no_word_in_common_is_no_page(index: PageStore) -> None:
    assert numbers(index, "unheard") == []


@pytest.mark.parametrize(
    "text",
    ["", " ", '"', '"zorp', "(zorp", "zorp AND", "NOT zorp", "+zorp -quux", "text:zorp", "zorp~1", "*", "\\", "';--"],
)
def test_operators_are_words_or_nothing(index: PageStore, text: str) -> None:
    named = any(word in text for word in ("zorp", "quux"))
    assert bool(numbers(index, text)) == named


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_any_text_can_be_asked(index: PageStore, text: str) -> None:
    found = index.matching_text(text, 3)
    assert len(found) <= 3


def test_half_a_character_can_be_asked(index: PageStore) -> None:
    assert numbers(index, "zorp \ud800") == [3, 1, 2]


@settings(max_examples=20, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=6).map(" ".join), min_size=1, max_size=12),
    query=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=3, unique=True),
    n_late=st.integers(0, 4),
)
def test_the_pages_that_share_a_word_are_found(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: list[str], n_late: int
) -> None:
    store = fill(tmp_path_factory.mktemp("text") / "index", texts)
    with store.writing():
        store.update_indexes()
        store.add_pages([page("late", number, text) for number, text in enumerate(texts[:n_late], start=1)])
        store.put_documents([record("late", len(texts[:n_late]))])
    everything = [("a", i, text) for i, text in enumerate(texts, start=1)]
    everything += [("late", i, text) for i, text in enumerate(texts[:n_late], start=1)]
    sharing = {PageRef(doc_id, i) for doc_id, i, text in everything if set(text.split()) & set(query)}
    assert {found.ref for found in store.matching_text(" ".join(query), 99)} == sharing


def test_pages_added_later_and_those_after_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fill(tmp_path / "index", ["zorp", "quux"])
    with store.writing():
        store.update_indexes()
        store.add_pages([page("late", 1, "zorp zorp")])
        store.put_documents([record("late")])
        store.update_indexes()
    assert store.column_indexes()["text"].n_unindexed == 1
    assert {found.ref.doc_id for found in store.matching_text("zorp", 5)} == {"a", "late"}
    monkeypatch.setattr(colret.compaction, "MANY_FRAGMENTS", 0)
    with store.writing():
        store.compact()
    assert store.column_indexes()["text"].n_unindexed == 0
    assert {found.ref.doc_id for found in store.matching_text("zorp", 5)} == {"a", "late"}


def test_many_pages_added_later_make_the_index_anew(tmp_path: Path) -> None:
    store = fill(tmp_path / "index", ["zorp"])
    with store.writing():
        store.update_indexes()
        store.add_pages([page("late", number, "zorp") for number in range(1, 100)])
        store.update_indexes()
    assert store.column_indexes()["text"].n_unindexed == 0


def test_pages_in_the_middle_of_being_written_are_not_found(index: PageStore) -> None:
    with index.writing():
        index.add_pages([page("half", number, "zorp zorp zorp") for number in range(1, 30)])
    assert [found.ref.doc_id for found in index.matching_text("zorp", 3)] == ["a", "a", "a"]


def test_ingest_makes_the_index(tmp_path: Path, store: PageStore, embedded: TextEncoder) -> None:
    for name, topic in TOPICS.items():
        write_pdf(tmp_path / f"{name}.pdf", topic)
    ingest([tmp_path], store, embedded)
    assert store.column_indexes()["text"].n_indexed == len(TOPICS)
    [found] = store.matching_text("Who tuned the violins?", 3)  # stemmed, and without its stop words
    [path] = store.paths([found.ref.doc_id])[found.ref.doc_id]
    assert Path(path).name == "violin.pdf"


def test_an_empty_index_has_nothing_to_find(store: PageStore) -> None:
    with store.writing():
        store.update_indexes()
    assert store.column_indexes() == {}
    assert store.matching_text("zorp", 3) == []
