"""``colret eval sweep``: ways to store tried in one pass agree with storing and scoring for real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import colret.encoders
from colret.encoders.text import TextEncoder
from colret.scoring import normalize_rows
from colret.settings import settings_for
from colret_cli.main import cli
from colret_eval.evaluation.corpus import Corpus, open_corpus
from colret_eval.evaluation.quantisation import fit_quantiser
from colret_eval.evaluation.recorder import RecordingEncoder
from colret_eval.evaluation.run import load_checked
from colret_eval.evaluation.storings import Storing, default_storings, try_storings
from colret_eval.evaluation.sweep import Grid, sweep
from colret_eval.evaluation.systems import FLOAT32, recorded_scores, stored_scores
from tests.evaluation_sets import TOPICS, write_set

DIM = 384


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> tuple[Corpus, RecordingEncoder]:
    work = tmp_path_factory.mktemp("sweep")
    dataset = load_checked(write_set(work / "set", TOPICS[:12])).dataset
    (work / "vectors").mkdir()
    recorder = RecordingEncoder(embedded, list(dataset.queries.values()), work / "vectors")
    corpus, _ = open_corpus(dataset, work / "index", settings_for(embedded.info, "int4"), recorder)
    return corpus, recorder


def test_storings_score_as_the_index_does(ingested: tuple[Corpus, RecordingEncoder]) -> None:
    corpus, recorder = ingested
    queries = recorder.queries(corpus.texts)
    storings = [Storing("float32", DIM), Storing("int4", DIM), Storing("int8", 96, "truncation")]
    float32, int4, short = try_storings(corpus, recorder, storings, [query.vectors for query in queries])
    exact, _ = recorded_scores(corpus, recorder.places(corpus.texts))
    np.testing.assert_allclose(float32.scores, exact, rtol=1e-5)
    np.testing.assert_array_equal(int4.scores, stored_scores(corpus, queries))
    n_vectors = sum(recorder.records[page].n_vectors for page in corpus.page_ids) / len(corpus.keys)
    assert float32.bytes_per_page == pytest.approx(n_vectors * 4 * DIM)
    assert int4.bytes_per_page == pytest.approx(n_vectors * DIM / 2)
    assert short.bytes_per_page == pytest.approx(n_vectors * 96)
    assert FLOAT32 == "late_interaction_float32"


def test_truncation_keeps_the_first_dimensions(ingested: tuple[Corpus, RecordingEncoder]) -> None:
    corpus, recorder = ingested
    queries = [query.vectors for query in recorder.queries(corpus.texts)]
    [found] = try_storings(corpus, recorder, [Storing("float32", 64, "truncation")], queries)
    for column, page in enumerate(corpus.page_ids):
        vectors = normalize_rows(recorder.kept_vectors(page)[:, :64])
        for row, query in enumerate(queries):
            expected = (normalize_rows(query[:, :64]) @ vectors.T).max(axis=1).sum()
            assert found.scores[row, column] == pytest.approx(float(expected), rel=1e-5, abs=1e-5)


def test_pooled_pages_have_fewer_vectors_and_all_dimensions_rotated_score_the_same(
    ingested: tuple[Corpus, RecordingEncoder],
) -> None:
    corpus, recorder = ingested
    queries = [query.vectors for query in recorder.queries(corpus.texts)]
    storings = [Storing("float32", DIM), Storing("float32", DIM, "rotation"), Storing("float32", DIM, pool=2)]
    plain, turned, pooled = try_storings(corpus, recorder, storings, queries)
    np.testing.assert_allclose(turned.scores, plain.scores, rtol=1e-4)
    assert pooled.bytes_per_page < 0.6 * plain.bytes_per_page


def test_one_factor_at_a_time(embedded: TextEncoder) -> None:
    found = default_storings(embedded.info, ("float32", "int8", "binary", "pq"), (128,), (2,))
    assert found == [
        Storing("float32", 384),
        Storing("pq", 384, n_bytes=96),
        Storing("pq", 384, n_bytes=48),
        Storing("int8", 384),
        Storing("binary", 384),
        Storing("binary", 384, "rotation"),
        Storing("int8", 128, "rotation"),
        Storing("int8", 128, "truncation"),
        Storing("int8", 384, pool=2),
    ]


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]))
def test_codewords_are_the_nearest(seed: int, n_bytes: int) -> None:
    rng = np.random.default_rng(seed)
    sample = normalize_rows(rng.standard_normal((300, 8)).astype(np.float32))
    quantiser = fit_quantiser(sample, n_bytes)
    codes = quantiser.nearest(sample[:5])
    for vector, row in zip(sample[:5], codes, strict=True):
        for part, words, code in zip(np.split(vector, n_bytes), quantiser.codewords, row, strict=True):
            distances = ((words - part) ** 2).sum(axis=1)
            assert distances[code] <= distances.min() + 1e-5
    np.testing.assert_allclose(np.linalg.norm(quantiser.approximate(sample[:5]), axis=1), 1, rtol=1e-5)


def test_too_few_vectors_have_no_codewords() -> None:
    with pytest.raises(ValueError, match="256 vectors"):
        fit_quantiser(np.eye(8, dtype=np.float32), 2)
    with pytest.raises(ValueError, match="divide"):
        fit_quantiser(np.ones((300, 8), np.float32), 3)


def test_a_sweep_gives_quality_bytes_and_time_of_every_setting(tmp_path: Path, embedded: TextEncoder) -> None:
    checked = load_checked(write_set(tmp_path / "set"))
    grid = Grid(codecs=("float32", "int8", "binary"), dims=(96,), pools=(2,), prefilters=("binary",), candidates=(12,))
    report = json.loads(json.dumps(sweep(checked, embedded, tmp_path / "scratch", grid), allow_nan=False))
    assert (report["set"]["n_pages"], report["set"]["n_queries"]) == (24, 24)
    rows: list[dict[str, Any]] = report["rows"]
    settings = [(row["codec"], row["dim"], row["projection"], row["pool"], row["prefilter"]) for row in rows]
    assert settings == [
        ("float32", 384, "none", 1, "none"),
        ("int8", 384, "none", 1, "none"),
        ("binary", 384, "none", 1, "none"),
        ("binary", 384, "rotation", 1, "none"),
        ("int8", 96, "rotation", 1, "none"),
        ("int8", 96, "truncation", 1, "none"),
        ("int8", 384, "none", 2, "none"),
        ("int4", 384, "none", 1, "none"),
        ("int4", 384, "none", 1, "binary"),
    ]
    assert rows[0]["difference"] is None
    assert rows[1]["difference"]["verdict"] == "tie"
    assert rows[0]["bytes_per_page"] == pytest.approx(4 * rows[1]["bytes_per_page"])
    assert rows[1]["bytes_per_page"] == pytest.approx(8 * rows[2]["bytes_per_page"])
    for row in rows:
        beaten = any(
            other["measures"]["nDCG@10"]["mean"] > row["measures"]["nDCG@10"]["mean"]
            and other["bytes_per_page"] <= row["bytes_per_page"]
            for other in rows[:7]
        )
        assert not (beaten and row["pareto"])
    assert any(row["pareto"] for row in rows)


def test_the_command_writes_figures_and_table(
    tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    folder, out = write_set(tmp_path / "set", TOPICS[:4]), tmp_path / "out"
    asked = ["eval", "sweep", str(folder), "--out", str(out), "--model", "embedded", "--codecs", "int8"]
    result = CliRunner().invoke(cli, [*asked, "--dims", "96", "--pools", "2", "--candidates", "2"])
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {"sweep.html", "sweep.json", "sweep.md"}
    assert "N = 4 pages" in (out / "sweep.md").read_text()
    assert json.loads((out / "sweep.json").read_text())["schema"] == "colret-eval-sweep"
    page = (out / "sweep.html").read_text()
    assert "N = 4 pages" in page
    assert page.count('class="chart"') == 2
    refused = CliRunner().invoke(cli, [*asked, "--dims", "400"])
    assert (refused.exit_code, "has 384 dimensions" in refused.stderr) == (2, True)
    refused = CliRunner().invoke(cli, [*asked, "--pools", "two"])
    assert (refused.exit_code, "not a list of numbers" in refused.stderr) == (2, True)
