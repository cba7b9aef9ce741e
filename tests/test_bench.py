"""The benchmark, on corpora of a few pages: what it measures is true, and what it lacks it says."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from colret.encoders.text import TextEncoder
from colret.index_folder import bytes_below
from colret.scoring import normalize_rows
from colret.types import Boxes, Float32
from colret_eval.bench import engines, kernels, report, storage
from colret_eval.bench.__main__ import main
from colret_eval.bench.clock import Elapsed, TimedIterator, milliseconds, peak_memory
from colret_eval.bench.comparators import Muvera
from colret_eval.bench.comparison import Row, against, frontier
from colret_eval.bench.corpora import COPIES, DIM, KINDS, N_TOKENS, N_VECTORS, Kind, corpus, load_queries, prepare
from colret_eval.bench.engines import Limits
from colret_eval.bench.real import RealVectors, real_vectors
from colret_eval.bench.reference import DEPTH, Reference, kept_at, references, top
from colret_eval.bench.storage import Storing
from colret_eval.datasets import DatasetError
from tests.evaluation_sets import write_small_set as make_set

N_PAGES = 30
LIMITS = Limits(minutes=3, seconds=0)


def unit_rows(rng: np.random.Generator, n: int, dim: int) -> Float32:
    return normalize_rows(rng.standard_normal((n, dim)).astype(np.float32))


def real(n_pages: int = 12, dim: int = 160) -> RealVectors:
    """Vectors as of a model: pages of 60 to 200, five questions of 4 to 40, the i-th about page i."""
    rng = np.random.default_rng(1)
    lengths, asked = rng.integers(60, 200, n_pages), rng.integers(4, 40, 5)
    pages = unit_rows(rng, lengths.sum(), dim)
    offsets, query_offsets = (np.cumsum([0, *each], dtype=np.int64) for each in (lengths, asked))
    queries = np.concatenate([pages[offsets[i] :][:n] for i, n in enumerate(asked)])
    boxes: Boxes = np.zeros((len(pages), 4), np.uint16)
    keys, names = [f"p:{i + 1}" for i in range(n_pages)], [f"q{i}" for i in range(5)]
    qrels = {name: {key: 1} for name, key in zip(names, keys, strict=False)}
    return RealVectors(pages, boxes, offsets, queries, query_offsets, keys, names, names, qrels, "random", 1.0)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with corpora of random vectors."""
    folder = tmp_path_factory.mktemp("work")
    vectors = real()
    prepare(folder, vectors.pages, vectors.offsets, vectors.queries, 6)
    return folder


def exact(work: Path, n_pages: int = N_PAGES) -> Reference:
    return references(corpus(work, "separated"), load_queries(work), [n_pages])[n_pages]


# Real vectors


def test_real_vectors_are_those_of_the_encoder_and_are_kept(tmp_path: Path, embedded: TextEncoder) -> None:
    data = make_set(tmp_path / "one")
    found = real_vectors(tmp_path / "kept", [data], tmp_path)
    assert found.keys == ["a%20b.pdf:1", "a%20b.pdf:2", "c.pdf:1", "c.pdf:2"]  # the blank pages have no vectors
    assert set(found.qrels["q2"]) == {"c.pdf:1"}
    [asked] = embedded.encode_queries([found.texts[1]])
    np.testing.assert_allclose(found.query(1), asked.vectors, atol=1e-5)
    assert all(found.page(i).shape[1] == 384 and len(found.page(i)) for i in range(found.n_pages))
    shutil.rmtree(data / "pdfs")
    again = real_vectors(tmp_path / "kept", [data], tmp_path)
    np.testing.assert_array_equal(again.pages, found.pages)


def test_examples_stand_in_for_labelled_sets(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="name labelled sets"):
        real_vectors(tmp_path / "kept", [], folder)
    (folder / "questions.txt").write_text("Which bird?\n\nWhat bread?\n")
    found = real_vectors(tmp_path / "kept", [], folder)
    assert (found.n_pages, found.texts, found.qrels) == (3, ["Which bird?", "What bread?"], {})


# Corpora


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_the_same_alone_and_in_a_row(work: Path, kind: Kind) -> None:
    made = corpus(work, kind)
    pages = list(made.pages(5))
    assert all(page.shape == (N_VECTORS, DIM) and page.dtype == np.float32 for page in pages)
    np.testing.assert_allclose(np.linalg.norm(pages[3], axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(corpus(work, kind).page(3), pages[3])
    np.testing.assert_array_equal(next(made.pages(5, start=4)), pages[4])
    assert not np.array_equal(pages[3], pages[4])


def test_copies_of_a_page_are_near_ties(work: Path) -> None:
    near = corpus(work, "near-tie")
    first, copy, other = near.page(0), near.page(1), near.page(COPIES)
    assert (first * copy).sum(axis=1).min() > 0.8  # vector by vector
    assert np.abs((first * other).sum(axis=1)).mean() < 0.5
    sizes = [2 * COPIES]
    gaps = [references(corpus(work, kind), load_queries(work), sizes)[sizes[0]].spread() for kind in KINDS]
    assert gaps[1] < gaps[0] / 4


def test_queries_are_questions_one_after_the_other(work: Path) -> None:
    queries = load_queries(work)
    assert queries.shape == (6, N_TOKENS, DIM)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=2), 1, atol=1e-5)


# The exact ranking


@settings(deadline=None, max_examples=15)
@given(sizes=st.lists(st.integers(1, 20), min_size=1, max_size=3), n_queries=st.integers(1, 4))
def test_references_are_those_of_a_naive_loop(work: Path, sizes: list[int], n_queries: int) -> None:
    made, queries = corpus(work, "separated"), load_queries(work)[:n_queries]
    found = references(made, queries, sizes)
    for size in sizes:
        pages = list(made.pages(size))
        scores = np.array([[(page @ query.T).max(axis=0).sum() for page in pages] for query in queries])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
        np.testing.assert_allclose(np.take_along_axis(scores, found[size].ids, 1), np.take_along_axis(scores, order, 1))


def test_ties_go_to_the_lower_page_and_gaps_are_medians() -> None:
    scores = np.zeros((1, 12), np.float32)
    scores[0, [4, 7]] = 3, 5
    found = top(scores)
    assert found.ids.tolist() == [[7, 4, 0, 1, 2, 3, 5, 6, 8, 9]]
    assert (found.spread(), found.gap()) == (5, 0)


def test_shares_are_of_the_exact_top() -> None:
    exact_ids = np.arange(20).reshape(2, 10)
    assert kept_at(exact_ids, [list(range(10)), [11, 10, 12, 13, 0]]) == {1: 0.5, 5: 0.9, 10: 0.7}
    assert kept_at(exact_ids, [[0]]) == {1: 1.0, 5: 0.2, 10: 0.1}  # of the queries asked


# Comparison

POINTS = st.lists(
    st.fixed_dictionaries({"p50_ms": st.floats(0.1, 100), "top10": st.floats(0, 1), "label": st.just("x")}), max_size=8
)


@given(points=POINTS)
def test_nothing_beats_the_frontier(points: list[Row]) -> None:
    best = frontier(points)
    for point in points:
        assert any(other["p50_ms"] <= point["p50_ms"] and other["top10"] >= point["top10"] for other in best)
    for one, other in itertools.pairwise(best):
        assert one["p50_ms"] < other["p50_ms"]
        assert one["top10"] < other["top10"]


@given(ours=POINTS, theirs=POINTS)
def test_engines_are_compared_at_no_lower_share(ours: list[Row], theirs: list[Row]) -> None:
    pairs = against(ours, theirs)
    assert [point for _, point in pairs] == frontier(theirs)
    for own, point in pairs:
        good = [each for each in ours if each["top10"] >= point["top10"] - 1e-9]
        assert (own is None) == (not good)
        assert own is None or own["p50_ms"] == min(each["p50_ms"] for each in good)


# Clock


def test_the_clock_counts_what_is_asked() -> None:
    timed = TimedIterator(iter([1, 2, 3]))
    assert (list(timed), timed.wall > 0) == ([1, 2, 3], True)
    assert milliseconds([Elapsed(0.001, 0.002), Elapsed(0.003, 0.004), Elapsed(0.002, 0.0)]) == {
        "p50_ms": 2.0,
        "p95_ms": pytest.approx(2.9),
        "cpu_ms": 2.0,
    }
    before = peak_memory()
    held = np.ones(80_000_000, np.uint8)
    assert peak_memory() >= max(before, held.nbytes)


def test_bytes_of_a_folder_are_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_bytes(b"123")
    (tmp_path / "c").write_bytes(b"4")
    assert bytes_below(tmp_path) == 4


# Engines, each in processes of its own


@pytest.mark.parametrize(
    ("name", "module"), [("colret-float16", "colret"), ("lancedb", "lancedb"), ("qdrant-edge", "qdrant_edge")]
)
def test_flat_search_of_an_engine_is_exact(work: Path, name: str, module: str) -> None:
    pytest.importorskip(module)
    row = engines.measure(name, "separated", N_PAGES, exact(work), work, LIMITS)
    assert row["status"] == "done"
    flat = row["points"][0]
    assert flat["label"] in ("exact", "flat")
    assert (flat["top1"], flat["top10"]) == (1.0, 1.0)
    assert row["bytes"] >= N_PAGES * N_VECTORS * DIM * 2
    assert flat["p95_ms"] >= flat["p50_ms"] > 0
    assert min(row["build_peak_bytes"], flat["peak_bytes"]) > 20_000_000
    assert not list(work.glob("engine-*"))


def test_what_is_missing_or_slow_is_told(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = exact(work)
    monkeypatch.setenv("FAST_PLAID_PYTHON", str(work / "nowhere"))
    row = engines.measure("fast-plaid", "separated", N_PAGES, reference, work, LIMITS)
    assert "cannot be run" in row["status"]
    row = engines.measure("lancedb", "separated", 3000, reference, work, Limits(minutes=1 / 600, seconds=1))
    assert row["status"].startswith("building stopped after")
    assert row["points"] == []
    row = engines.measure("colret", "separated", 10**9, reference, work, LIMITS)
    assert row["status"].startswith("not tried: it needs ")


# Kernels


def test_kernels_are_compared_on_the_same_pages(work: Path) -> None:
    rows = kernels.measure(work, exact(work, 12), 12, 3, ["numpy float32", "colret int8"])
    assert [row["scorer"] for row in rows] == ["numpy float32", "colret int8"]
    assert all(row["rounds"] == 3 and row["pages_per_core_s"] > 0 for row in rows)
    assert rows[0]["top10"] == rows[0]["to_best_rival"] == 1.0
    assert rows[1]["top1"] >= 0.8


# Storage


@pytest.mark.parametrize("storing", [Storing("float16"), Storing("int4", pool=2), Storing("int8", dim=64)])
def test_bytes_are_as_predicted(tmp_path: Path, storing: Storing) -> None:
    vectors = real()
    row = storage.measure(vectors, storage.exact_reference(vectors), storing, tmp_path)
    assert row["bytes_a_page_predicted"] == storage.predicted_bytes(vectors, storing)
    overhead = row["bytes_a_page"] - row["bytes_a_page_predicted"]
    assert 0 < overhead < 2000  # manifests and column statistics, shared by few pages here
    assert row["top1"] == row["nDCG@10"] == 1.0
    assert row["top10"] == 1.0 or storing.codec != "float16"


def test_pooling_halves_the_vectors_and_rounds_up() -> None:
    vectors = real()
    lengths = np.diff(vectors.offsets)
    assert storage.predicted_bytes(vectors, Storing("int8")) == pytest.approx(lengths.mean() * (160 + 8) + 4 * 160)
    assert storage.predicted_bytes(vectors, Storing("binary", pool=2)) == pytest.approx(
        np.ceil(lengths / 2).mean() * (20 + 8) + 4 * 160
    )


# Report


def test_a_table_aligns_numbers() -> None:
    assert report.table(["a", "b"], [["x", "1.5"], ["y", "-"]]) == "| a | b |\n| --- | ---: |\n| x | 1.5 |\n| y | - |"


def test_one_run_writes_the_whole_report(tmp_path: Path) -> None:
    data, out = make_set(tmp_path / "labelled"), tmp_path / "out"
    arguments = ["--data", str(data), "--sizes", f"{N_PAGES}", "--near-tie", "0", "--rivals", "colret,fast-plaid"]
    arguments += [
        "--scorers",
        "maxsim-cpu float32,colret int8,colret Hamming",
        "--queries",
        "3",
        "--kernel-pages",
        "11",
        "--rounds",
        "1",
        "--out",
        str(out),
    ]
    assert main(arguments) == 0
    result = json.loads((out / "bench.json").read_text())
    assert [row["rival"] for row in result["engines"]] == ["colret", "fast-plaid"]
    assert result["engines"][0]["points"][0]["top1"] == 1.0
    assert {row["status"] for row in result["kernels"]["rows"] if row["scorer"].startswith("colret")} == {"done"}
    assert [row["codec"] for row in result["storage"][:4]] == ["float16", "int8", "int4", "binary"]
    assert set(result["latency"]["batch"]["none"]) >= {"encode_ms", "fetch_ms", "rescore_ms"}
    text = (out / "bench.md").read_text()
    for name in ("In short", "Kernels", "separated, 30 synthetic pages", "How cost grows", "Bytes and what they keep"):
        assert f"## {name}" in text
    assert "| fast-plaid |" in text


def test_a_bad_set_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 1
    assert "is not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--rivals", "nobody"], ["--sizes", "few"], ["--sizes", ","], ["--rounds", "0"]])
def test_a_bad_option_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    capsys.readouterr()


def test_muveras_dot_product_is_its_definition() -> None:
    """Written out cell by cell, for one repetition."""
    rng = np.random.default_rng(5)
    page, query = (rng.normal(size=(n, 6)).astype(np.float32) for n in (9, 4))
    muvera = Muvera(1, 2, 3)
    draw = np.random.default_rng(0)
    planes = draw.standard_normal((6, 2)).astype(np.float32)
    signs = (draw.integers(0, 2, (6, 3)) * 2 - 1).astype(np.float32) / np.float32(np.sqrt(3))

    def cell(vector: NDArray[np.float32]) -> tuple[bool, bool]:
        left, right = (vector @ planes > 0).tolist()
        return left, right

    total = 0.0
    for token in query:
        here = [vector for vector in page if cell(vector) == cell(token)]
        apart = [sum(a != b for a, b in zip(cell(vector), cell(token), strict=True)) for vector in page]
        nearest = np.mean(here, axis=0) if here else page[int(np.argmin(apart))]
        total += float((token @ signs) @ (nearest @ signs))
    encoded = float(muvera.encode(query, page=False) @ muvera.encode(page, page=True))
    assert encoded == pytest.approx(total, rel=1e-4)
    assert muvera.encode(page, page=True).shape == (muvera.size,)
