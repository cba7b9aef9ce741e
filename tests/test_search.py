"""Search over a real index: exact against a naive loop, two-stage against exact, ties, limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import colret.compaction
import colret.rescoring
import colret.search
import colret.store
from colret.encoders.text import TextEncoder
from colret.errors import StoreError
from colret.ingest import ingest
from colret.page_table import PageTable
from colret.scoring import float_vectors, normalize_rows
from colret.search import explain, rank, search, single_vector_rank
from colret.store import PageStore
from colret.types import PageRef, QueryEmbedding
from tests.checkpoints import tiny_encoder
from tests.conftest import TOPICS, write_pdf
from tests.test_store import DIM, SETTINGS, encoded, record

N = 60


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> PageStore:
    """Sixty pages of random directions in three documents, among them two that are equal."""
    store = PageStore.create(tmp_path_factory.mktemp("search") / "index", SETTINGS)
    pages = [encoded(f"d{i % 3}", i // 3 + 1, 1 + i % 5) for i in range(N)]
    store.add_pages([page for page in pages if page.page.ref != PageRef("d2", 7)])
    twin = encoded("d0", 2, 4)  # the page d0:2 again, as d2:7
    store.add_pages([twin._replace(page=encoded("d2", 7).page)])
    store.put_documents([record(f"d{i}", N // 3) for i in range(3)])
    return store


def random_query(seed: int, n_tokens: int = 4) -> QueryEmbedding:
    vectors = np.random.default_rng(seed).normal(size=(n_tokens, DIM)).astype(np.float32)
    return QueryEmbedding(normalize_rows(vectors), tuple(map(str, range(n_tokens))))


def naive(store: PageStore, query: QueryEmbedding) -> list[tuple[float, PageRef]]:
    """Rank every page by loops over the stored vectors."""
    scores = []
    candidates = store.candidates()
    vectors = store.vectors(np.arange(len(candidates)))
    for i, candidate in enumerate(candidates):
        page = float_vectors(vectors, i).astype(np.float64)
        total = sum(max(float(token @ vector) for vector in page) for token in query.vectors.astype(np.float64))
        scores.append((-total, candidate.ref))
    return sorted(scores)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), n_tokens=st.integers(1, 9), k=st.integers(1, 80))
def test_exact_search_is_the_naive_loop(index: PageStore, seed: int, n_tokens: int, k: int) -> None:
    query = random_query(seed, n_tokens)
    [ranking] = rank(index, [query], k=k, prefilter="none")
    expected = naive(index, query)[:k]
    assert len(ranking.hits) == min(k, N)
    assert (ranking.n_pages, ranking.n_scored) == (N, N)
    # int8 queries move scores by less than half a step a token; the order may differ only by that.
    got = [hit.maxsim for hit in ranking.hits]
    assert got == pytest.approx([-score for score, _ in expected], abs=0.02 * n_tokens)
    assert got == sorted(got, reverse=True)
    assert [hit.score for hit in ranking.hits] == pytest.approx([score / n_tokens for score in got])
    assert len({hit.ref for hit in ranking.hits}) == len(ranking.hits)


def test_equal_pages_are_ordered_by_page(index: PageStore) -> None:
    for seed in range(20):
        [ranking] = rank(index, [random_query(seed)], k=N, prefilter="none")
        order = [hit.ref for hit in ranking.hits]
        first, second = order.index(PageRef("d0", 2)), order.index(PageRef("d2", 7))
        assert second == first + 1
        assert ranking.hits[first].maxsim == ranking.hits[second].maxsim


def test_two_stage_with_every_page_a_candidate_is_exact(index: PageStore) -> None:
    queries = [random_query(seed) for seed in range(5)]
    assert rank(index, queries, k=9, prefilter="single", n_candidates=N) == rank(index, queries, k=9, prefilter="none")


def test_two_stage_ranks_what_the_prefilter_keeps(index: PageStore) -> None:
    queries = [random_query(seed) for seed in range(8)]
    kept = single_vector_rank(index, queries, k=15)
    exact = rank(index, queries, k=N, prefilter="none")
    two_stage = rank(index, queries, k=10, prefilter="single", n_candidates=15)
    for ranking, candidates, all_pages in zip(two_stage, kept, exact, strict=True):
        assert (ranking.n_pages, ranking.n_scored) == (N, 15)
        refs = {candidate.ref for candidate in candidates}
        assert ranking.hits == [hit for hit in all_pages.hits if hit.ref in refs][:10]


def test_k_above_the_candidates_still_gets_k_pages(index: PageStore) -> None:
    [ranking] = rank(index, [random_query(0)], k=20, prefilter="single", n_candidates=5)
    assert len(ranking.hits) == 20


def test_queries_together_rank_as_alone(index: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [random_query(seed, 1 + seed) for seed in range(6)]
    together = rank(index, queries, k=N, prefilter="none")
    monkeypatch.setattr(colret.rescoring, "_AT_ONCE_BYTES", 0)
    monkeypatch.setattr(colret.rescoring, "_BLOCK_BYTES", 7 * DIM)
    assert [rank(index, [query], k=N, prefilter="none")[0] for query in queries] == together


def test_queries_with_other_candidates_rank_together_as_alone(
    index: PageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [random_query(seed, 1 + seed % 5) for seed in range(9)]
    alone = [rank(index, [query], k=8, prefilter="single", n_candidates=11)[0] for query in queries]
    assert len({tuple(hit.ref for hit in ranking.hits) for ranking in alone}) > 1
    monkeypatch.setattr(colret.rescoring, "_AT_ONCE_BYTES", 0)
    for block, together in ((7, 4), (10_000, 64), (1, 9)):
        monkeypatch.setattr(colret.rescoring, "_BLOCK_BYTES", block * DIM)
        monkeypatch.setattr(colret.search, "_QUERIES_TOGETHER", together)
        assert rank(index, queries, k=8, prefilter="single", n_candidates=11) == alone


def test_what_is_being_written_is_not_found(index: PageStore, tmp_path: Path) -> None:
    store = PageStore.create(tmp_path / "index", SETTINGS)
    store.add_pages([encoded("done", number) for number in range(1, 5)])
    store.put_documents([record("done", 4)])
    store.add_pages([encoded("half", number) for number in range(1, 5)])
    for prefilter in ("none", "single", "binary", "sketch"):
        [ranking] = rank(store, [random_query(1)], k=2, prefilter=prefilter, n_candidates=2)
        assert {hit.ref.doc_id for hit in ranking.hits} == {"done"}
        assert ranking.n_pages == 4


def test_a_search_sees_what_another_process_committed(tmp_path: Path) -> None:
    writer = PageStore.create(tmp_path / "index", SETTINGS)
    reader = PageStore.open(writer.path)
    with pytest.raises(StoreError, match="holds no pages; add some with: colret ingest"):
        rank(reader, [random_query(0)])
    writer.add_pages([encoded("a")])
    writer.put_documents([record("a")])
    assert len(rank(reader, [random_query(0)])[0].hits) == 1


@pytest.mark.parametrize(("k", "n_candidates"), [(0, 5), (-1, 1), (3, 0)])
def test_numbers_below_one_are_the_callers_mistake(index: PageStore, k: int, n_candidates: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        rank(index, [random_query(0)], k=k, n_candidates=n_candidates)


def test_search_refuses_another_encoder(store: PageStore) -> None:
    with pytest.raises(StoreError, match="was made by embedded"):
        search(store, tiny_encoder("colpali"), ["anything"])


def test_hits_are_explained_by_paths_and_a_snippet(tmp_path: Path, store: PageStore, embedded: TextEncoder) -> None:
    filler = "Other matters were discussed at length without result. " * 3
    lines = f"{filler} {TOPICS['heron']} {filler}"
    path = write_pdf(tmp_path / "a.pdf", lines)
    write_pdf(tmp_path / "b.pdf", TOPICS["orbit"])
    ingest([tmp_path], store, embedded)
    [query] = embedded.encode_queries(["a bird hunting fish"])
    [ranking] = rank(store, [query], k=2)
    explained = explain(store, query, ranking.hits)
    assert explained[0].paths == [str(path)]
    assert "fish in shallow water" in explained[0].snippet
    assert explained[1].snippet == TOPICS["orbit"]


def test_a_search_survives_compaction_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that a search is about to read are merged into others and deleted."""
    store = PageStore.create(tmp_path / "index", SETTINGS)
    for number in range(1, 8):
        store.add_pages([encoded("a", number, 200)])
    store.put_documents([record("a", 7)])
    expected = rank(store, [random_query(3)], k=7, prefilter="none")
    reader = PageStore.open(store.path)
    monkeypatch.setattr(colret.compaction, "MANY_FRAGMENTS", 0)
    real = PageStore.page_table
    compacted: list[bool] = []

    def page_table(self: PageStore) -> PageTable:
        found = real(self)
        if self is reader and not compacted:
            compacted.append(True)
            store.compact()
        return found

    monkeypatch.setattr(PageStore, "page_table", page_table)
    assert rank(reader, [random_query(3)], k=7, prefilter="none") == expected
    assert compacted


def test_each_page_has_its_own_score(index: PageStore) -> None:
    query = random_query(5)
    own = {ref: -score for score, ref in naive(index, query)}
    [ranking] = rank(index, [query], k=N, prefilter="none")
    for hit in ranking.hits:
        assert hit.maxsim == pytest.approx(own[hit.ref], abs=0.02 * 4)
