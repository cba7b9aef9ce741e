"""The ANN index over single vectors: what it finds, how it is asked, and that it outlives changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import colret.ann
import colret.compaction
from colret.ann import GOOD_RECALL, WORTH_PAGES, build, choose_kind, kept_report, suitable_partitions, update
from colret.ann_recall import CUTOFFS, corpus_queries, measure
from colret.column_indexes import ANN_KINDS, AnnKind, AnnSettings
from colret.encoders.text import TextEncoder
from colret.errors import StoreError
from colret.ingest import ingest
from colret.location import Location
from colret.scoring import float_vectors, normalize_rows
from colret.search import rank
from colret.store import PageStore
from colret.types import Candidate, Float32
from colret_cli.main import cli
from tests.object_store import Bucket
from tests.test_search import random_query
from tests.test_store import DIM, SETTINGS, encoded, record

N_DOCUMENTS, N_EACH = 6, 100
N = N_DOCUMENTS * N_EACH
SOME = AnnSettings("ivf_flat", n_partitions=16, n_probes=4)


def fill(place: Path | Location) -> PageStore:
    store = PageStore.create(place, SETTINGS)
    for i in range(N_DOCUMENTS):
        store.add_pages([encoded(f"d{i}", number, 1 + number % 4) for number in range(1, N_EACH + 1)])
    store.put_documents([record(f"d{i}", N_EACH) for i in range(N_DOCUMENTS)])
    return store


def add(store: PageStore, doc_id: str, n_pages: int) -> None:
    store.add_pages([encoded(doc_id, number) for number in range(1, n_pages + 1)])
    store.put_documents([record(doc_id, n_pages)])


@pytest.fixture
def index(tmp_path: Path) -> PageStore:
    """Six hundred pages in six documents."""
    return fill(tmp_path / "index")


@pytest.fixture(scope="module")
def all_probed(tmp_path_factory: pytest.TempPathFactory) -> PageStore:
    """The same, with an index all of whose partitions are probed."""
    store = fill(tmp_path_factory.mktemp("ann") / "index")
    with store.writing():
        store.build_ann_index(SOME._replace(n_probes=SOME.n_partitions))
    return store


def directions(n: int, seed: int = 0) -> Float32:
    return normalize_rows(np.random.default_rng(seed).normal(size=(n, DIM)).astype(np.float32))


def naive(store: PageStore, query: Float32) -> list[tuple[float, Candidate]]:
    singles = store.singles(np.arange(store.n_pages()))
    return sorted((-float(single @ query), page) for single, page in zip(singles, store.candidates(), strict=True))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, N + 50))
def test_with_all_partitions_probed_it_is_the_flat_search(all_probed: PageStore, seed: int, k: int) -> None:
    [query] = directions(1, seed)
    found = all_probed.nearest(query, k)
    assert found == all_probed.nearest(query, k, exact=True)
    by_hand = naive(all_probed, query)
    assert len(found) == min(k, N)
    distance = {page: value for value, page in by_hand}
    assert np.allclose([distance[page] for page in found], [value for value, _ in by_hand[:k]], atol=1e-6)


@pytest.mark.parametrize("kind", ANN_KINDS)
def test_every_kind_gives_as_many_pages_as_were_asked_for(index: PageStore, kind: AnnKind) -> None:
    with index.writing():
        index.build_ann_index(AnnSettings(kind, n_partitions=16, n_probes=1, refine=0 if kind == "ivf_flat" else 1))
    assert index.column_indexes()["single"].n_indexed == N
    [query] = directions(1)
    for k in (1, 10, N - 1, N, N + 1):
        found = index.nearest(query, k)
        assert len(found) == len(set(found)) == min(k, N)


@pytest.mark.parametrize("kind", ANN_KINDS)
def test_keeping_every_page_ranks_as_without_an_index(index: PageStore, kind: AnnKind) -> None:
    queries = [random_query(seed) for seed in range(4)]
    without = rank(index, queries, k=9, prefilter="single", n_candidates=N)
    build(index, kind, queries=directions(4))
    assert rank(index, queries, k=9, prefilter="single", n_candidates=N) == without


def test_the_settings_are_kept_with_the_index_and_used(index: PageStore) -> None:
    with index.writing():
        index.build_ann_index(SOME._replace(n_probes=1))
    reopened = PageStore.open(index.path)
    assert reopened.ann_settings() == SOME._replace(n_probes=1)
    queries = directions(20)
    coarse = measure(reopened, queries, 30)
    assert coarse.recall < 1  # 30 of 600 pages are seldom all in one of 16 partitions
    shares = []
    for query in queries:
        flat = {page for _, page in naive(reopened, query)[:30]}
        shares.append(len(flat & set(reopened.nearest(query, 30))) / 30)
    assert coarse.recall == pytest.approx(np.mean(shares), abs=1e-9)
    with index.writing():
        index.put_ann_settings(SOME._replace(n_probes=16))
    reopened.refresh()
    assert measure(reopened, queries, 30).recall == 1.0


def test_pages_added_later_are_found_and_counted(index: PageStore) -> None:
    with index.writing():
        index.build_ann_index(SOME._replace(n_partitions=suitable_partitions(SOME.kind, N)))
        index.add_pages([encoded("new", number) for number in (1, 2)])
        index.put_documents([record("new", 2)])
        update(index)
    found = index.column_indexes()["single"]
    assert (found.n_indexed, found.n_unindexed) == (N, 2)
    [page] = [page for page in index.candidates() if page.ref.doc_id == "new" and page.ref.number == 2]
    own = index.singles(index.page_table().places([page.row_id]))[0]
    assert index.nearest(own, 1) == [page]


def test_many_pages_added_later_make_it_anew(index: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.ann, "LAG", 10)
    build(index, "ivf_flat", n_partitions=16, n_probes=16)
    with index.writing():
        add(index, "new", 60)
        update(index)
    found = index.column_indexes()["single"]
    assert (found.n_indexed, found.n_unindexed) == (N + 60, 0)
    assert index.ann_settings() == SOME._replace(n_probes=16)  # what was asked for still is
    report = kept_report(index)
    assert report is not None
    assert (report.n_pages, report.made_of) == (N + 60, "made of the pages")
    assert [recall.recall for recall in report.recalls] == [1.0, 1.0]


def test_partitions_grow_with_the_pages_unless_they_were_asked_for(index: PageStore, tmp_path: Path) -> None:
    asked = PageStore.open(shutil.copytree(index.path, tmp_path / "asked"))
    assert build(index, "ivf_flat").settings.n_partitions == suitable_partitions("ivf_flat", N)
    build(asked, "ivf_flat", n_partitions=3)
    for store in (index, asked):
        with store.writing():
            for i in range(2):
                add(store, f"new{i}", N)
            store.compact()
            update(store)
    settings, given = index.ann_settings(), asked.ann_settings()
    assert settings is not None
    assert given is not None
    assert settings.n_partitions == suitable_partitions("ivf_flat", 3 * N)
    assert given.n_partitions == 3
    assert index.column_indexes()["single"].n_unindexed == 0


def test_an_index_that_fits_is_left_alone(index: PageStore) -> None:
    built = build(index, "ivf_flat")
    with index.writing():
        add(index, "new", N // 2)
        update(index)
    assert index.column_indexes()["single"].n_unindexed == N // 2
    assert kept_report(index) == built


def test_an_index_without_a_report_is_kept_up_too(index: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.ann, "LAG", 10)
    with index.writing():
        index.build_ann_index(SOME)  # as earlier versions did
        assert kept_report(index) is None
        add(index, "new", 60)
        update(index)
    report = kept_report(index)
    assert report is not None
    assert report.settings.kind == SOME.kind
    assert report.settings.n_partitions == suitable_partitions(SOME.kind, N + 60)


def test_the_report_is_kept_until_the_index_is_another(index: PageStore) -> None:
    report = build(index, "ivf_rq", queries=directions(40))
    assert kept_report(PageStore.open(index.path)) == report
    with index.writing():
        index.put_ann_settings(report.settings._replace(n_probes=1, refine=9))
    assert kept_report(index) is None
    with index.writing():
        index.put_ann_settings(report.settings)
        assert kept_report(index) == report
        index.drop_index("single")
    assert kept_report(index) is None


def test_recall_has_an_interval_over_queries(index: PageStore) -> None:
    with index.writing():
        index.build_ann_index(SOME._replace(n_probes=4))
    coarse = measure(index, directions(60), 30)
    assert 0 < coarse.low < coarse.recall < coarse.high < 1
    wide = measure(index, directions(60)[:6], 30)
    assert wide.high - wide.low > coarse.high - coarse.low


def test_compaction_and_deletion_leave_it_valid(index: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.compaction, "MANY_FRAGMENTS", 0)
    with index.writing():
        index.build_ann_index(SOME._replace(n_probes=SOME.n_partitions))
        index.add_pages([encoded("new", number) for number in range(1, 31)])
        index.put_documents([record("new", 30)])
        index.remove_documents(["d3"])
        before = index.candidates()
        index.compact()
    assert index.candidates() == before
    assert index.column_indexes()["single"].n_unindexed == 0
    for query in directions(10):
        found = index.nearest(query, 50)
        assert found == index.nearest(query, 50, exact=True)
        assert "d3" not in {page.ref.doc_id for page in found}


def test_pages_in_the_middle_of_being_written_are_not_found(index: PageStore) -> None:
    [own] = directions(1)
    with index.writing():
        index.add_pages([encoded("half", number) for number in range(1, 300)])
        index.build_ann_index(SOME._replace(n_probes=1))
    found = index.nearest(own, 200)
    assert len(found) == 200
    assert "half" not in {page.ref.doc_id for page in found}


@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_rq", "hnsw_sq"])
def test_building_chooses_settings_that_are_good_enough(index: PageStore, kind: AnnKind) -> None:
    phases: list[str] = []
    report = build(index, kind, n_partitions=8, queries=directions(40), on_phase=phases.append)
    assert report.settings == index.ann_settings()
    assert report.n_queries == 20
    assert [recall.n_candidates for recall in report.recalls] == list(CUTOFFS)
    assert all(measure(index, directions(40)[::2], n).recall >= GOOD_RECALL for n in CUTOFFS)
    assert kind in phases[0]
    assert len(phases) == 2


def test_building_takes_the_settings_it_is_given(index: PageStore) -> None:
    report = build(index, "ivf_rq", n_partitions=8, n_probes=2, refine=3)
    assert report.settings == AnnSettings("ivf_rq", 8, 2, 3)


def test_too_few_pages_are_refused(tmp_path: Path) -> None:
    store = PageStore.create(tmp_path / "index", SETTINGS)
    with pytest.raises(StoreError, match="holds 0 pages"):
        build(store, "ivf_flat")
    store.add_pages([encoded("a", number) for number in range(1, 256)])
    store.put_documents([record("a", 255)])
    with pytest.raises(StoreError, match="holds 255 pages, ivf_pq needs 256"):
        build(store, "ivf_pq")
    assert "single" not in store.column_indexes()
    assert build(store, "ivf_flat").n_pages == 255


def test_another_writer_is_waited_for_by_nobody(index: PageStore) -> None:
    with index.writing(), pytest.raises(StoreError, match="another colret is writing"):
        build(PageStore.open(index.path), "ivf_flat")


def test_queries_made_of_the_index_are_runs_of_its_vectors(index: PageStore) -> None:
    queries = corpus_queries(index, 30)
    assert queries.shape == (30, DIM)
    assert np.allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-6)
    # These pages have at most four vectors, so a run of eight or more is the page.
    pages = index.vectors(np.arange(N))
    means = normalize_rows(np.stack([float_vectors(pages, i).mean(axis=0) for i in range(N)]))
    assert (queries @ means.T).max(axis=1).min() > 1 - 1e-5
    assert np.array_equal(queries, corpus_queries(index, 30))


def test_the_kind_suits_the_number_of_pages() -> None:
    assert choose_kind(WORTH_PAGES - 1, 384) is None
    assert choose_kind(WORTH_PAGES, 384) == "ivf_flat"
    assert choose_kind(10_000_000, 384) == "ivf_rq"


def test_it_is_built_in_place_and_kept_up_in_an_object_store(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLRET_CACHE", str(tmp_path))
    monkeypatch.setattr(colret.ann, "LAG", 10)
    store = fill(Location.of(f"{bucket.address}/index", bucket.options))
    before = set(bucket.keys("index/pages.lance/data"))
    report = build(store, "ivf_flat", queries=directions(20))
    assert set(bucket.keys("index/pages.lance/data")) == before  # no page was written again
    elsewhere = PageStore.open(store.location)
    assert kept_report(elsewhere) == report
    with store.writing():
        add(store, "new", 60)
        update(store)
    assert store.column_indexes()["single"].n_unindexed == 0
    elsewhere.refresh()  # which sees the new one
    kept = kept_report(elsewhere)
    assert kept is not None
    assert kept.n_pages == N + 60
    for query in directions(3):
        assert {page.ref for page in elsewhere.nearest(query, N + 60)} == {page.ref for page in elsewhere.candidates()}


@pytest.fixture
def documents(folder: Path, store: PageStore, embedded: TextEncoder) -> str:
    """A small index of real pages."""
    ingest([folder], store, embedded)
    return str(store.path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["index", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_small_index_is_told_that_it_needs_none(documents: str) -> None:
    assert "fast enough" in run("build", "--index", documents)
    assert json.loads(run("build", "--index", documents, "--json")) == {"type": None, "n_pages": 3}
    assert "nearest single vectors  none" in run("list", "--index", documents)


def test_an_index_is_built_listed_and_dropped(documents: str, tmp_path: Path) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("net revenue\nwhat do herons eat\nbaking bread\n")
    told = run("build", "--type", "ivf_flat", "--index", documents, "--queries", str(questions))
    assert "recall@2 1.000" in told
    assert "recall@2 1.000 [1.000, 1.000] of the flat search's" in told
    assert "measured at 3 pages with 1 question (given; others chose the settings)" in told
    said = run("list", "--index", documents)
    assert "IvfFlat  3 pages (0 more without it)" in said
    assert "recall@2 1.000 [1.000, 1.000] of the flat search's" in said
    listed = json.loads(run("list", "--index", documents, "--json"))
    assert listed["ann"] == {"kind": "ivf_flat", "n_partitions": 2, "n_probes": 2, "refine": 0}
    assert (listed["measured"]["n_pages"], listed["measured"]["n_queries"]) == (3, 1)
    assert listed["measured"]["recalls"][0]["recall"] == 1.0
    assert {each["column"] for each in listed["indexes"]} == {"single", "terms"}
    assert run("drop", "--index", documents) == "dropped the ANN index\n"
    assert run("drop", "--index", documents) == "there is no ANN index\n"


def test_one_query_is_too_few(documents: str, tmp_path: Path) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("net revenue\n")
    result = CliRunner().invoke(cli, ["index", "build", "--index", documents, "--queries", str(questions)])
    assert result.exit_code == 2
    assert "needs two queries" in result.output
