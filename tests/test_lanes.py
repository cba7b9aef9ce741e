"""Lanes: what they rank by, that candidates change nothing, and the parts they are made of."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colret import bm25
from colret.contents import is_contents
from colret.encoders.text import TextEncoder
from colret.lanes import CONTENTS_PENALTY, TEXT_WEIGHT, Lane, default_lane, fuse
from colret.search import Scope, embed, rank, search, words_only
from colret.store import PageStore
from colret.types import PageRef, QueryEmbedding
from tests.test_fulltext import page
from tests.test_search import random_query
from tests.test_store import SETTINGS, record

N = 40
ASKED = "zorp NX-2000"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> PageStore:
    """Forty pages of random directions, with more and less of some words; the last is a list of contents."""
    store = PageStore.create(tmp_path_factory.mktemp("lanes") / "index", SETTINGS)
    texts = [f"{'zorp ' * (i % 4)} filler {'NX-2000 ' * (i % 7 == 0)} more {'words ' * (i % 5)}" for i in range(N - 1)]
    contents = " ".join(f"{i} zorp NX-2000 ....... {i}" for i in range(9))
    store.add_pages([page(f"d{i % 3}", i // 3 + 1, text) for i, text in enumerate([*texts, contents])])
    store.put_documents([record(f"d{i}", N // 3 + 1) for i in range(3)])
    with store.writing():
        store.update_indexes()
    return store


def asked(seed: int, text: str = ASKED) -> QueryEmbedding:
    return dataclasses.replace(random_query(seed), text=text)


def test_both_lanes_add_up(index: PageStore) -> None:
    query = asked(1)
    [visual], [text], [both] = (
        rank(index, [query], k=N, prefilter="none", lane=lane) for lane in ("visual", "text", "both")
    )
    maxsims = {hit.ref: hit.maxsim for hit in visual.hits}
    shares = {hit.ref: hit.bm25 for hit in text.hits}
    assert 0 < len(shares) < N
    assert len(both.hits) == N
    for hit in both.hits:
        assert (hit.maxsim, hit.bm25) == (maxsims[hit.ref], shares.get(hit.ref, 0.0))
        lost = CONTENTS_PENALTY if hit.contents else 0.0
        expected = hit.maxsim / len(query.vectors) + TEXT_WEIGHT * hit.bm25 - lost
        assert hit.score == pytest.approx(expected, abs=1e-6)
    assert [hit.score for hit in both.hits] == sorted((hit.score for hit in both.hits), reverse=True)
    assert sum(hit.contents for hit in both.hits) == 1
    assert (visual.lane, text.lane, both.lane) == ("visual", "text", "both")


@pytest.mark.parametrize("lane", ["visual", "both"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000), n_candidates=st.integers(3, N))
def test_scores_do_not_depend_on_which_pages_are_candidates(
    index: PageStore, lane: Lane, seed: int, n_candidates: int
) -> None:
    [exact] = rank(index, [asked(seed)], k=N, prefilter="none", lane=lane)
    [fast] = rank(index, [asked(seed)], k=3, prefilter="binary", n_candidates=n_candidates, lane=lane)
    assert set(fast.hits) <= set(exact.hits)
    assert exact.n_scored == N
    assert fast.n_scored <= (2 if lane == "both" else 1) * n_candidates


def test_candidates_of_both_lanes_are_those_of_each(index: PageStore) -> None:
    """A page that only its words speak for is found among few candidates."""
    [exact] = rank(index, [asked(3)], k=N, prefilter="none", lane="text")
    best = exact.hits[0].ref
    [visual] = rank(index, [asked(3)], k=N, prefilter="none")
    assert best not in [hit.ref for hit in visual.hits[:4]]
    [both] = rank(index, [asked(3)], k=4, prefilter="binary", n_candidates=4, lane="both")
    assert best in [hit.ref for hit in both.hits]


def test_queries_together_rank_as_alone(index: PageStore) -> None:
    queries = [asked(seed, text) for seed, text in enumerate([ASKED, "words", '"filler more"', "unheard", "zorp zorp"])]
    together = rank(index, queries, k=9, n_candidates=10, lane="both")
    assert [rank(index, [query], k=9, n_candidates=10, lane="both")[0] for query in queries] == together


def test_quotes_count_where_words_do(index: PageStore) -> None:
    query = asked(1, '"filler more"')
    [visual], [both] = (rank(index, [query], k=N, prefilter="none", lane=lane) for lane in ("visual", "both"))
    assert (visual.n_pages, len(visual.hits)) == (N, N)
    holding = {PageRef(f"d{i % 3}", i // 3 + 1) for i in range(N - 1) if i % 7}
    assert {hit.ref for hit in both.hits} == holding
    assert both.n_pages == both.n_scored == len(holding)
    [none] = rank(index, [asked(1, '"more filler"')], lane="both")
    assert none.hits == []


def test_quotes_are_not_encoded(store: PageStore, embedded: TextEncoder) -> None:
    [quoted, plain] = embed(store, embedded, ['what the "filler more" does', "what the filler more does"])
    assert quoted.tokens == plain.tokens
    np.testing.assert_array_equal(quoted.vectors, plain.vectors)
    assert quoted.text == 'what the "filler more" does'


def test_only_pages_in_scope_are_found_and_the_others_still_say_how_rare_words_are(index: PageStore) -> None:
    [everywhere] = rank(index, [asked(1)], k=N, prefilter="none", lane="both")
    scope = Scope(docs=("/folder/d1.pdf",))
    [here] = rank(index, [asked(1)], k=N, prefilter="none", lane="both", scope=scope)
    assert here.hits == [hit for hit in everywhere.hits if hit.ref.doc_id == "d1"]


def test_the_default_follows_what_the_encoder_reads() -> None:
    assert default_lane(SETTINGS) == "both"
    assert default_lane(dataclasses.replace(SETTINGS, family="colpali")) == "visual"


def test_a_search_takes_the_default_and_the_text_lane_no_encoder(
    tmp_path: Path, store: PageStore, embedded: TextEncoder
) -> None:
    encoded = page("a", 1, "zorp")
    [embedding] = embedded.encode_pages([encoded.page])
    store.add_pages([encoded._replace(embedding=embedding)])
    store.put_documents([record("a")])
    [ranking] = search(store, embedded, ["zorp"])
    assert (ranking.lane, ranking.hits[0].bm25 > 0, ranking.hits[0].maxsim > 0) == ("both", True, True)
    assert rank(store, embed(store, embedded, ["zorp"]), lane="both") == [ranking]
    [words] = search(store, embedded, ["zorp"], lane="text")
    assert (words.hits[0].bm25, words.hits[0].maxsim) == (ranking.hits[0].bm25, 0.0)


def test_mistakes_of_the_caller(index: PageStore) -> None:
    with pytest.raises(ValueError, match="is no lane: there are visual, text, both"):
        rank(index, [asked(1)], lane="bm25")  # type: ignore[arg-type]
    for lane in ("text", "both"):
        with pytest.raises(ValueError, match="a lane by words needs queries with their text"):
            rank(index, [random_query(1)], lane=lane)


def test_fused_by_hand() -> None:
    similarities, shares = np.array([0.5, 0.4, 0.9], np.float32), np.array([0.0, 1.0, 0.2], np.float32)
    contents = np.array([False, False, True])
    assert fuse(similarities, shares, contents) == pytest.approx([0.5, 0.9, 0.9])
    assert fuse(None, shares, contents) == pytest.approx([0.0, 1.0, 0.0])


TERMS = st.lists(st.sampled_from(["a", "aa", "a.b", "a+", "b", "日"]), max_size=12)


@given(pages=st.lists(TERMS, max_size=5), terms=st.sets(st.sampled_from(["a", "aa", "a.b", "a+", "日", "c"])))
def test_terms_are_counted_whole(pages: list[list[str]], terms: set[str]) -> None:
    asked_for = sorted(terms)
    found = bm25.counts([bm25.joined(page) for page in pages], asked_for)
    assert found.tolist() == [[Counter(page)[term] for term in asked_for] for page in pages]


def test_bm25_by_hand() -> None:
    idf = bm25.inverse_frequencies(np.array([1, 3]), 4)
    assert idf == pytest.approx(np.log([1 + 3.5 / 1.5, 1 + 1.5 / 3.5]))
    shares = bm25.shares(np.array([[2, 0], [1, 5], [0, 0]]), np.array([10, 30, 20]), 20.0, idf)
    first = idf[0] * 2 / (2 + 1.5 * (0.25 + 0.75 * 0.5))
    second = idf[0] / (1 + 1.5 * (0.25 + 0.75 * 1.5)) + idf[1] * 5 / (5 + 1.5 * (0.25 + 0.75 * 1.5))
    assert shares == pytest.approx([first / idf.sum(), second / idf.sum(), 0.0])
    assert bm25.shares(np.zeros((2, 0), np.int64), np.array([1, 2]), 1.5, np.zeros(0)).tolist() == [0.0, 0.0]


@given(counts=st.lists(st.integers(0, 1000), min_size=3, max_size=3), length=st.integers(0, 5000))
def test_a_share_is_a_share(counts: list[int], length: int) -> None:
    idf = bm25.inverse_frequencies(np.array([0, 5, 100]), 100)
    [share] = bm25.shares(np.array([counts]), np.array([length]), 300.0, idf)
    assert 0 <= share <= 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("1 Introduction ........ 5 2 Method ........ 9 " * 4, True),
        ("1 Introduction . . . . . 5 2 Method . . . 9 " * 4, True),
        ("3 Results … 17 " * 8, True),
        ("12.5 14.0 3.25 0.5 17 18 " * 9, False),  # a table
        ("It ends... here, and there. Words follow it in a sentence of some length. " * 4, False),
        ("1 Introduction ........ 5", False),  # a line says too little
        ("", False),
    ],
)
def test_contents_pages_are_told_by_their_leaders(words: str, expected: bool) -> None:
    assert is_contents(words.split()) == expected


def test_a_stored_page_knows_that_it_lists_contents(index: PageStore) -> None:
    listed = [candidate.ref == PageRef("d0", N // 3 + 1) for candidate in index.candidates()]
    assert index.page_table().contents.tolist() == listed
    assert sum(listed) == 1


def test_words_of_the_text_lane_can_be_queries_by_themselves(index: PageStore) -> None:
    assert rank(index, words_only([ASKED]), lane="text") == rank(index, [asked(2)], lane="text")
