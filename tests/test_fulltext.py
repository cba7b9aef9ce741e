"""The text lane over a real index: BM25 as the formula says, whatever was added, removed or typed."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import colret.compaction
import colret.text_lane
from colret.encoders.text import TextEncoder
from colret.errors import StoreError
from colret.ingest import ingest
from colret.search import Ranking, explain, rank, words_only
from colret.store import PageStore
from colret.terms import page_terms, query_terms
from colret.text_lane import TextIndexError, TextLane, check_text_index, drop_damaged_text_index, phrases, unquoted
from colret.types import EncodedPage, Page, PageRef, Words
from tests.conftest import TOPICS, write_pdf
from tests.test_store import SETTINGS, encoded, record

VOCABULARY = ("zorp", "quux", "blarf", "wibble", "NX-2000", "straße", "日本")  # no two share a term


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
    return [ref.number for ref in found(store, text, k)]


def found(store: PageStore, text: str, k: int = 10) -> list[PageRef]:
    [ranking] = rank(store, words_only([text]), k=k, lane="text")
    return [hit.ref for hit in ranking.hits]


@pytest.fixture(params=[False, True], ids=["unindexed", "indexed"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> PageStore:
    """Pages of invented words, before and after their index is built."""
    store = fill(tmp_path / "index", ["zorp quux", "zorp quux", "zorp zorp", "blarf", "quux blarf NX-2000", "", "日本"])
    if request.param:
        with store.writing():
            store.update_indexes()
        assert store.column_indexes()["terms"].n_indexed == 7
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
    [" ", '"', '"zorp', "(zorp", "zorp AND", "NOT zorp", "+zorp -quux", "text:zorp", "zorp~1", "*", "\\", "';--"],
)
def test_operators_are_words_or_nothing(index: PageStore, text: str) -> None:
    named = any(word in text for word in ("zorp", "quux"))
    assert bool(numbers(index, text)) == named


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_any_text_can_be_asked(index: PageStore, text: str) -> None:
    assert len(numbers(index, text or "-", 3)) <= 3


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
    assert set(found(store, " ".join(query), 99)) == sharing
    every = np.arange(store.n_pages())
    assert set(store.candidates()[i].ref for i in TextLane(store).candidates(" ".join(query), every, 99)) == sharing


def test_pages_added_later_and_those_after_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fill(tmp_path / "index", ["zorp", "quux"])
    with store.writing():
        store.update_indexes()
        store.add_pages([page("late", 1, "zorp zorp")])
        store.put_documents([record("late")])
        store.update_indexes()
    assert store.column_indexes()["terms"].n_unindexed == 1
    assert {ref.doc_id for ref in found(store, "zorp", 5)} == {"a", "late"}
    monkeypatch.setattr(colret.compaction, "MANY_FRAGMENTS", 0)
    with store.writing():
        store.compact()
    assert store.column_indexes()["terms"].n_unindexed == 0
    assert {ref.doc_id for ref in found(store, "zorp", 5)} == {"a", "late"}


def test_many_pages_added_later_make_the_index_anew(tmp_path: Path) -> None:
    store = fill(tmp_path / "index", ["zorp"])
    with store.writing():
        store.update_indexes()
        store.add_pages([page("late", number, "zorp") for number in range(1, 100)])
        store.update_indexes()
    assert store.column_indexes()["terms"].n_unindexed == 0


def test_pages_in_the_middle_of_being_written_are_not_found(index: PageStore) -> None:
    with index.writing():
        index.add_pages([page("half", number, "zorp zorp zorp") for number in range(1, 30)])
    assert [ref.doc_id for ref in found(index, "zorp", 3)] == ["a", "a", "a"]


def test_ingest_makes_the_index(tmp_path: Path, store: PageStore, embedded: TextEncoder) -> None:
    for name, topic in TOPICS.items():
        write_pdf(tmp_path / f"{name}.pdf", topic)
    ingest([tmp_path], store, embedded)
    assert store.column_indexes()["terms"].n_indexed == len(TOPICS)
    [ref] = found(store, "Were the violins tuned?", 3)  # a plural, and stop words
    [path] = store.paths([ref.doc_id])[ref.doc_id]
    assert Path(path).name == "violin.pdf"


def test_an_empty_index_has_nothing_to_find(store: PageStore) -> None:
    with store.writing():
        store.update_indexes()
    assert store.column_indexes() == {}
    assert store.matching_terms(["zorp"], 3) == []
    assert store.places_with_term("zorp").tolist() == []


def by_formula(texts: dict[PageRef, str], query: str) -> dict[PageRef, float]:
    """Return BM25 over its least upper bound, by loops."""
    pages = {ref: page_terms(text) for ref, text in texts.items()}
    mean = sum(page.length for page in pages.values()) / len(pages) or 1.0
    total = dict.fromkeys(pages, 0.0)
    bound = 0.0
    for term in query_terms(query):
        n_having = sum(term in page.terms for page in pages.values())
        idf = math.log(1 + (len(pages) - n_having + 0.5) / (n_having + 0.5))
        bound += idf * (1.5 + 1)
        for ref, page in pages.items():
            n = page.terms.count(term)
            total[ref] += idf * n * (1.5 + 1) / (n + 1.5 * (1 - 0.75 + 0.75 * page.length / mean))
    return {ref: score / bound for ref, score in total.items() if score}


TEXTS = st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=7).map(" ".join), min_size=1, max_size=8)


@settings(max_examples=15, deadline=None)
@given(first=TEXTS, removed=TEXTS, late=TEXTS, query=st.lists(st.sampled_from([*VOCABULARY, "unheard"]), min_size=1))
def test_scores_are_the_formulas_whatever_happened_to_the_index(
    tmp_path_factory: pytest.TempPathFactory, first: list[str], removed: list[str], late: list[str], query: list[str]
) -> None:
    """LanceDB's own scores count pages that were removed, and those that came later apart."""
    store = fill(tmp_path_factory.mktemp("text") / "index", first)
    with store.writing():
        store.add_pages([page("removed", number, text) for number, text in enumerate(removed, start=1)])
        store.put_documents([record("removed", len(removed))])
        store.update_indexes()
        store.remove_documents(["removed"])
        store.add_pages([page("late", number, text) for number, text in enumerate(late, start=1)])
        store.put_documents([record("late", len(late))])
    texts = {PageRef("a", i): text for i, text in enumerate(first, start=1)}
    texts |= {PageRef("late", i): text for i, text in enumerate(late, start=1)}
    expected = by_formula(texts, " ".join(query))
    [ranking] = rank(store, words_only([" ".join(query)]), k=99, lane="text")
    assert {hit.ref: hit.bm25 for hit in ranking.hits} == pytest.approx(expected, rel=1e-5)
    scores = [hit.score for hit in ranking.hits]
    assert scores == sorted(scores, reverse=True)
    for one, other in itertools.pairwise(ranking.hits):
        assert one.score > other.score or one.ref < other.ref


@pytest.mark.parametrize("indexed", [False, True])
def test_identifiers_are_found_whole_and_in_parts(tmp_path: Path, indexed: bool) -> None:
    texts = ["set sshd_config now", "run cp --no-clobber a b", "see ISO 27001", "per SP 800-53", "order AB-1234/5, two"]
    store = fill(tmp_path / "index", [*texts, "RFC2119 says it's so", "cafe's CamelCase", "plain words"])
    if indexed:
        with store.writing():
            store.update_indexes()
    asked = {
        1: ("sshd_config", "sshd", "SSHD_CONFIG"),
        2: ("--no-clobber", "no-clobber", "clobber"),
        3: ("iso 27001", "27001"),
        4: ("SP800-53", "800-53"),
        5: ("AB-1234/5", "ab-1234", "1234"),
        6: ("rfc 2119", "RFC2119"),
        7: ("camelcase", "Café", "camel case"),
    }
    for number, queries in asked.items():
        for query in queries:
            assert numbers(store, query)[0] == number, query


PHRASED = [
    "net zero by 2050",
    "zero of the net",
    "Net-zero (2050)",
    "the net. Zero",
    "of the",
    "日 本 語",
    "other words",
]


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"net zero"', {1, 3, 4}),
        ('"Net Zero" 2050', {1, 3, 4}),
        ('"net zero by 2050"', {1}),
        ('"net zero" "2050"', {1, 3}),
        ('zero "of the net"', {2}),
        ("\u201cnet zero\u201d", {1, 3, 4}),
        ('"net zeros"', set()),
        ('"unheard"', set()),
        ('"日本" 語', {6}),
        ("net zero", {1, 2, 3, 4}),
        ('net zero "', {1, 2, 3, 4}),
        ('"" net zero', {1, 2, 3, 4}),
    ],
)
def test_quoted_words_stand_in_a_row(tmp_path: Path, indexed: bool, query: str, expected: set[int]) -> None:
    store = fill(tmp_path / "index", PHRASED)
    if indexed:
        with store.writing():
            store.update_indexes()
    assert set(numbers(store, query)) == expected


def test_a_phrase_of_stop_words_is_looked_for_on_every_page(tmp_path: Path) -> None:
    store = fill(tmp_path / "index", PHRASED)
    assert TextLane(store).with_phrases('"of the"', np.arange(7)).tolist() == [1, 4]
    assert numbers(store, '"of the"') == [2, 5]
    assert numbers(store, "of the") == []


def test_marks_of_phrases_are_no_words() -> None:
    assert unquoted('a "b c" d"e" "" \u201cf\u201d \u00abg\u00bb "i') == 'a b c d e f g "i'
    assert unquoted('a 5" pipe') == 'a 5" pipe'


def test_phrases_of_a_query() -> None:
    assert phrases('a "b c" d "e" "" "," \u201cf\u201d \u00abg h\u00bb "i') == ["b c", "e", "f", "g h"]


def test_contents_pages_come_after_pages_that_say_it(tmp_path: Path) -> None:
    contents = " ".join(f"Chapter {i} zorp ...... {i}" for i in range(1, 9))
    store = fill(tmp_path / "index", [contents, "zorp is this chapter", *["other words"] * 3])
    [ranking] = rank(store, words_only(["zorp chapter"]), lane="text")
    assert [(hit.ref.number, hit.contents) for hit in ranking.hits] == [(2, False), (1, True)]
    assert ranking.hits[1].score == pytest.approx(ranking.hits[1].bm25 - 0.2)


def test_many_queries_are_ranked_as_one_by_one(index: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def ranked(texts: list[str]) -> list[Ranking]:
        return rank(index, words_only(texts), k=3, lane="text")

    texts = ["zorp quux", "blarf", '"quux blarf"', "unheard", "日本 zorp", "NX 2000"]
    together = ranked(texts)
    monkeypatch.setattr(colret.text_lane, "_BLOCK_PAGES", 2)
    assert [ranked([text])[0] for text in texts] == together == ranked(texts)


def test_few_candidates_leave_the_best_where_they_are(tmp_path: Path) -> None:
    store = fill(tmp_path / "index", [f"zorp {'quux ' * (i % 9)}" for i in range(1, 60)])
    with store.writing():
        store.update_indexes()
    [exact] = rank(store, words_only(["zorp quux"]), k=5, prefilter="none", lane="text")
    [fast] = rank(store, words_only(["zorp quux"]), k=5, n_candidates=20, lane="text")
    assert (exact.n_scored, fast.n_scored) == (59, 20)
    assert fast.hits == exact.hits


def test_words_of_scripts_without_spaces_are_shown_where_they_were_found(tmp_path: Path) -> None:
    """Their pairs of characters reach from one word of the page, a letter, into the next."""
    text = " ".join(["other"] * 40 + list("世界人权宣言第一条"))
    store = fill(tmp_path / "index", [text])
    [query] = words_only(["人权宣言"])
    [ranking] = rank(store, [query], lane="text")
    [shown] = explain(store, query, ranking.hits)
    assert [shown.snippet[start:end] for start, end in shown.highlights] == ["人权宣言"]


# Damage

DAMAGE: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "overwritten": lambda file: file.write_bytes(bytes(file.stat().st_size)),
}


def damage_text_index(index: Path, name: str, how: str) -> None:
    for file in (index / "pages.lance" / "_indices").glob(f"*/{name}.lance"):
        DAMAGE[how](file)


@pytest.mark.parametrize("name", ["metadata", "part_0_tokens", "part_0_docs", "part_0_invert"])
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_index_is_told_with_the_remedy_which_mends_it(
    name: str, how: str, folder: Path, store: PageStore, embedded: TextEncoder
) -> None:
    ingest([folder], store, embedded)
    damage_text_index(store.path, name, how)
    damaged = PageStore.open(store.path)
    for query in ("heron", '"grey heron"'):
        with pytest.raises(TextIndexError, match="its full-text index is damaged; make it anew"):
            found(damaged, query)
    assert ingest([folder], PageStore.open(store.path), embedded).n_unchanged == 3
    mended = PageStore.open(store.path)
    check_text_index(mended)
    assert len(found(mended, '"grey heron"')) == 1
    assert mended.column_indexes()["terms"].n_indexed == 3


def test_a_damaged_index_is_made_anew_where_pages_are_added_and_compacted(
    folder: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest([folder], store, embedded)
    damage_text_index(store.path, "metadata", "empty")
    monkeypatch.setattr(colret.compaction, "MANY_FRAGMENTS", 0)
    write_pdf(folder / "violin.pdf", TOPICS["violin"])
    again = PageStore.open(store.path)
    assert ingest([folder], again, embedded).n_added == 1
    assert len(found(again, "violin")) == 1


def test_an_index_that_finds_nothing_is_damaged(tmp_path: Path) -> None:
    store = fill(tmp_path / "one", ["zorp"])
    with store.writing():
        store.update_indexes()
    assert not drop_damaged_text_index(store)
    other = fill(tmp_path / "other", ["quux"])
    with other.writing():
        other.update_indexes()
    [mine], [others] = ([*(each.path / "pages.lance" / "_indices").iterdir()] for each in (store, other))
    shutil.rmtree(mine)
    shutil.copytree(others, mine)
    again = PageStore.open(store.path)
    with pytest.raises(TextIndexError):
        check_text_index(again)
    with again.writing():
        assert drop_damaged_text_index(again)
    assert numbers(again, "zorp") == [1]


def test_pages_that_cannot_be_read_are_not_the_indexs_fault(tmp_path: Path) -> None:
    store = fill(tmp_path / "index", ["zorp"])
    with store.writing():
        store.update_indexes()
    again = PageStore.open(store.path)
    assert again.n_pages() == 1
    shutil.rmtree(store.path / "pages.lance")
    with pytest.raises(StoreError) as caught:
        TextLane(again).candidates("zorp", np.arange(1), 1)
    assert not isinstance(caught.value, TextIndexError)


@pytest.mark.parametrize("texts", [[], ["", ""], ["the", ""]])
def test_where_there_is_no_term_the_index_is_whole(texts: list[str], tmp_path: Path) -> None:
    store = fill(tmp_path / "index", texts)
    with store.writing():
        store.update_indexes()
        assert not drop_damaged_text_index(store)


def test_lancedb_does_not_warn_of_what_it_raises(tmp_path: Path) -> None:
    store = fill(tmp_path / "index", ["zorp"])
    with store.writing():
        store.update_indexes()
    damage_text_index(store.path, "metadata", "deleted")
    run = subprocess.run(
        [sys.executable, "-m", "colret_cli", "query", "zorp", "--lane", "text", "--index", str(store.path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "LANCEDB_LOG"},
    )
    assert run.returncode == 1
    assert run.stderr.startswith("colret: ")
    assert len(run.stderr.splitlines()) == 1
