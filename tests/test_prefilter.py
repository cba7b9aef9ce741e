"""Prefilters: names, what each stage keeps, and that keeping everything is exact search."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import colret.prefilter
from colret.prefilter import NARROWING, NO_PREFILTER, Prefilter, Prefiltering, best, prepare
from colret.scoring import mean_direction
from colret.search import Scope, rank
from colret.signatures import FOLDER, open_signatures
from colret.store import PageStore
from colret.types import Float32, Int64, PageRef
from tests.test_search import N, index, random_query
from tests.test_store import SETTINGS, encoded, record

__all__ = ["index"]  # the fixture


@pytest.mark.parametrize(
    ("name", "stages", "text"),
    [
        ("none", (), False),
        ("binary", ("binary",), False),
        ("single+binary", ("single", "binary"), False),
        ("text", (), True),
        ("text+sketch", ("sketch",), True),
    ],
)
def test_names_say_the_stages(name: str, stages: tuple[str, ...], text: bool) -> None:
    assert Prefilter.parse(name) == Prefilter(stages, text)


@pytest.mark.parametrize("name", ["", "+", "binary+", "Binary", "none+binary", "bm25", "single+single"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"prefilter|twice"):
        Prefilter.parse(name)


@given(
    hnp.arrays(np.float32, st.integers(1, 40), elements=st.sampled_from([-1.0, 0.0, 0.5, 0.5000001, 2.0])),
    st.integers(1, 45),
)
def test_the_best_are_the_highest_and_of_equals_the_first(scores: Float32, n: int) -> None:
    places = np.arange(len(scores)) * 3
    by_hand = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:n]
    assert best(places, scores, n).tolist() == sorted(places[by_hand].tolist())


@pytest.mark.parametrize("name", [*NARROWING, "single+binary", "sketch+binary", "single+sketch+binary"])
def test_keeping_every_page_is_exact_search(index: PageStore, name: str) -> None:
    queries = [random_query(seed) for seed in range(4)]
    assert rank(index, queries, k=9, prefilter=name, n_candidates=N) == rank(index, queries, k=9, prefilter="none")


@pytest.mark.parametrize("name", ["binary", "sketch"])
def test_a_stage_keeps_the_best_of_its_scan(index: PageStore, name: str) -> None:
    query, everything = random_query(4), np.arange(N)
    kept = Prefiltering(index, Prefilter.parse(name), 9).candidates(query, everything)
    kind = NARROWING[name]
    assert kind is not None
    scores = open_signatures(index, kind).scan(query.vectors, everything)
    assert kept.tolist() == best(everything, scores, 9).tolist()


def test_the_signs_of_the_query_choose_first_where_there_are_many(
    index: PageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.prefilter, "_SIGNS_FIRST", 3)
    query, everything = random_query(4), np.arange(N)
    kept = Prefiltering(index, Prefilter.parse("binary"), 5).candidates(query, everything)
    signatures = open_signatures(index, "bits")
    first = best(everything, signatures.scan(query.vectors, everything, signs_only=True), 15)
    assert kept.tolist() == best(first, signatures.scan(query.vectors, first), 5).tolist()


def test_a_later_stage_chooses_from_what_the_earlier_kept(index: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.prefilter, "WIDER", 1)
    monkeypatch.setattr(colret.prefilter, "EARLY_SHARE", 12 / N)
    query, everything = random_query(6), np.arange(N)
    first = Prefiltering(index, Prefilter.parse("single"), 12).candidates(query, everything)
    both = Prefiltering(index, Prefilter.parse("single+binary"), 4).candidates(query, everything)
    assert both.tolist() == Prefiltering(index, Prefilter.parse("binary"), 4).candidates(query, first).tolist()


def test_single_vectors_agree_wherever_they_are_compared(index: PageStore) -> None:
    """The database ranks all pages; a part of them is ranked here."""
    query = random_query(2)
    single = Prefiltering(index, Prefilter.parse("single"), 7)
    everything = np.arange(N)
    similarities = index.singles(everything) @ mean_direction(query.vectors)
    assert single.candidates(query, everything).tolist() == best(everything, similarities, 7).tolist()
    part: Int64 = everything[::2]
    assert single.candidates(query, part).tolist() == best(part, similarities[::2], 7).tolist()


def test_only_pages_in_scope_are_kept(index: PageStore) -> None:
    for name in ("none", "single", "binary", "sketch"):
        [ranking] = rank(
            index, [random_query(1)], k=4, prefilter=name, n_candidates=4, scope=Scope(docs=("/folder/d1.pdf",))
        )
        assert {hit.ref.doc_id for hit in ranking.hits} == {"d1"}
        assert (ranking.n_pages, ranking.n_scored) == (20, 20 if name == "none" else 4)


def test_what_the_default_scans_is_made_ready_only_where_it_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PageStore.create(tmp_path / "index", SETTINGS)
    store.add_pages([encoded("a", number) for number in range(1, 5)])
    store.put_documents([record("a", 4)])
    folder = store.path / FOLDER
    prepare(store)
    assert list(folder.glob("*")) == []
    monkeypatch.setattr(colret.prefilter, "SMALL", 3)
    prepare(store)
    assert [each.name[:5] for each in folder.iterdir()] == ["bits-"]


def test_words_are_looked_for_in_scope(tmp_path: Path) -> None:
    """Elsewhere there are better pages than are kept."""
    store = PageStore.create(tmp_path / "index", SETTINGS)
    for doc_id in ("large", "small"):
        store.add_pages([encoded(doc_id, number) for number in range(1, 21)])  # each holds the word "page"
        store.put_documents([record(doc_id, 20)])
    query = dataclasses.replace(random_query(1), text="page")
    for prefilter in ("text", "binary+text"):
        scope = Scope(docs=("/folder/small.pdf",))
        [ranking] = rank(store, [query], k=5, prefilter=prefilter, n_candidates=5, scope=scope)
        assert len(ranking.hits) == 5
        assert {hit.ref.doc_id for hit in ranking.hits} == {"small"}
        scope = Scope(where="doc_id = 'small' AND page > 15")
        [ranking] = rank(store, [query], k=3, prefilter=prefilter, n_candidates=3, scope=scope)
        assert {hit.ref for hit in ranking.hits} <= {PageRef("small", number) for number in range(16, 21)}
        assert len(ranking.hits) == 3


def test_words_need_the_text_of_the_query(index: PageStore) -> None:
    with pytest.raises(ValueError, match="needs queries with their text"):
        rank(index, [random_query(1)], prefilter="binary+text")


def test_no_prefilter_scans_nothing() -> None:
    assert NO_PREFILTER.kinds == ()
    assert Prefilter.parse("sketch+binary").kinds == ("sketch", "bits")
