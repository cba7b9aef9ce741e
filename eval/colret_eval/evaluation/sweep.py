"""``colret eval sweep``: quality against bytes and milliseconds, over ways to store and to prefilter."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

import colret
from colret.codecs import bytes_per_vector
from colret.encoders import Encoder
from colret.prefilter import Prefilter
from colret.report import Progress
from colret.search import rank
from colret.settings import settings_for
from colret.signatures import FOLDER
from colret.types import Float32, QueryEmbedding
from colret_eval.bench import machine
from colret_eval.evaluation.comparison import Judge, chance, run_of, values_of
from colret_eval.evaluation.corpus import Corpus, open_corpus
from colret_eval.evaluation.headline import MEASURE
from colret_eval.evaluation.one_set import SEED
from colret_eval.evaluation.recorder import RecordingEncoder
from colret_eval.evaluation.run import Checked
from colret_eval.evaluation.storings import Storing, Tried, default_storings, try_storings
from colret_eval.evaluation.systems import searched_scores
from colret_eval.measures import Float64

SCHEMA: Final = "colret-eval-sweep"
SCHEMA_VERSION: Final = 1
CODECS: Final = ("float32", "float16", "int8", "int4", "binary", "pq")
PREFILTERS: Final = ("single", "sketch", "binary", "single+binary")

MEASURES: Final = (MEASURE, "nDCG@5", "Success@1", "Recall@10")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """What is tried; each factor on its own around the defaults."""

    codecs: tuple[str, ...] = CODECS
    dims: tuple[int, ...] = ()  # by default a half, a third and a sixth of D
    pools: tuple[int, ...] = (2, 4, 8)
    prefilters: tuple[str, ...] = PREFILTERS
    candidates: tuple[int, ...] = (20, 50, 100, 200)


def sweep(
    checked: Checked,
    encoder: Encoder,
    scratch: Path,
    grid: Grid = Grid(),
    say: Callable[[str], None] = lambda text: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Try every setting of ``grid`` on a set; pages are encoded once.

    Args:
        checked: The set.
        encoder: The model.
        scratch: Folder for an index and for float32 vectors, 4 P D bytes a page.
        grid: What is tried.
        say: Told what is being done.
        on_progress: As for ``ingest``.

    Returns:
        sweep.json: see its schema.

    Raises:
        ColretError: The set or the index cannot be used.
        ValueError: A number of dimensions is not below the encoder's.
    """
    started = time.monotonic()
    dim = encoder.info.dim
    dims = grid.dims or tuple(dict.fromkeys(max(dim // part, 1) for part in (2, 3, 6)))
    if any(not 1 <= fewer < dim for fewer in dims):
        raise ValueError(f"{encoder.info.name} has {dim} dimensions: keep fewer, and at least 1")
    dataset = checked.dataset
    vectors = scratch / "vectors"
    vectors.mkdir(parents=True)
    recorder = RecordingEncoder(encoder, list(dict.fromkeys(dataset.queries.values())), vectors)
    say("indexing")
    corpus, _ = open_corpus(dataset, scratch / "index", settings_for(encoder.info), recorder, on_progress)
    queries = recorder.queries([dataset.queries[query_id] for query_id in corpus.query_ids])
    storings = default_storings(encoder.info, grid.codecs, dims, grid.pools)
    say(f"{len(storings)} ways to store")
    tried = try_storings(corpus, recorder, storings, [query.vectors for query in queries])
    rows = [_storing_row(storing, each) for storing, each in zip(storings, tried, strict=True)]
    values = [_values(corpus, each.scores) for each in tried]
    say("prefilters")
    for row, of in _prefilter_rows(corpus, queries, grid):
        rows.append(row)
        values.append(of)
    _judge(rows, values, Judge(corpus.sources, SEED))
    _mark_pareto(rows)
    info = encoder.info
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "tool_version": colret.__version__,
        "seed": SEED,
        "seconds": time.monotonic() - started,
        "machine": machine.facts(),
        "model": {name: getattr(info, name) for name in ("name", "revision", "family", "dim", "reads")},
        "set": {
            "name": dataset.name,
            "n_pages": corpus.n_pages,
            "n_queries": len(corpus.query_ids),
            "synthetic": dataset.synthetic,
        },
        "random": {name: value for name, value in chance(corpus)[0].items() if name in MEASURES},
        "rows": rows,
    }


def _values(corpus: Corpus, scores: Float32) -> dict[str, Float64]:
    found = values_of(corpus.qrels, run_of(corpus, scores))
    return {name: found[name] for name in MEASURES}


def _storing_row(storing: Storing, tried: Tried) -> Row:
    name = f"pq, {storing.n_bytes} bytes" if storing.codec == "pq" else storing.codec
    return {
        "codec": name,
        "dim": storing.dim,
        "projection": storing.projection,
        "pool": storing.pool,
        "prefilter": "none",
        "n_candidates": None,
        "bytes_per_page": tried.bytes_per_page,
        "latency_ms": _percentiles(tried.milliseconds),
        "latency_kind": "MaxSim with every page, in memory",
    }


def _prefilter_rows(
    corpus: Corpus, queries: Sequence[QueryEmbedding], grid: Grid
) -> list[tuple[Row, dict[str, Float64]]]:
    """Search the index with each prefilter and number of candidates, queries one at a time."""
    settings, n = corpus.store.settings, corpus.n_pages
    asked = [("none", n), *((p, c) for p in grid.prefilters for c in grid.candidates if c < n)]
    base = corpus.store.page_table().n_vectors.sum() / n
    codes = float(base) * bytes_per_vector(settings.stored_dim, settings.codec)
    found = []
    for prefilter, n_candidates in asked:
        scores = searched_scores(corpus, queries, prefilter, n_candidates)
        times = [_timed(corpus, query, prefilter, n_candidates) for query in queries]
        row = {
            "codec": settings.codec,
            "dim": settings.stored_dim,
            "projection": "rotation" if settings.projected else "none",
            "pool": settings.pool,
            "prefilter": prefilter,
            "n_candidates": n_candidates,
            "bytes_per_page": codes + _prefilter_bytes(corpus, prefilter),
            "latency_ms": _percentiles(np.array(times)),
            "latency_kind": "search of the index, without encoding the query",
        }
        found.append((row, _values(corpus, scores)))
    return found


def _prefilter_bytes(corpus: Corpus, prefilter: str) -> float:
    plan = Prefilter.parse(prefilter)
    files = [file for kind in plan.kinds for file in (corpus.store.side_files / FOLDER).glob(f"{kind}-*/*")]
    single = 4 * corpus.store.settings.stored_dim if "single" in plan.stages else 0
    return sum(file.stat().st_size for file in files) / corpus.n_pages + single


def _timed(corpus: Corpus, query: QueryEmbedding, prefilter: str, n_candidates: int) -> float:
    started = time.perf_counter()
    rank(corpus.store, [query], prefilter=prefilter, n_candidates=n_candidates)
    return (time.perf_counter() - started) * 1000


def _percentiles(milliseconds: Float64) -> dict[str, float]:
    return {"p50": float(np.percentile(milliseconds, 50)), "p95": float(np.percentile(milliseconds, 95))}


def _judge(rows: list[Row], values: Sequence[Mapping[str, Float64]], judge: Judge) -> None:
    """Add to each row its measures, and its difference to the first: float32."""
    intervals = judge.intervals({(i, m): v for i, row in enumerate(values) for m, v in row.items()})
    others = {i: {MEASURE: row[MEASURE]} for i, row in enumerate(values) if i}
    first = {MEASURE: values[0][MEASURE]}
    differences = judge.differences(others, dict.fromkeys(others, first))
    for i, row in enumerate(rows):
        row["measures"] = {name: intervals[i, name] for name in values[i]}
        row["difference"] = differences[i][MEASURE] if i else None


def _mark_pareto(rows: list[Row]) -> None:
    """Mark rows that no other beats in quality at no more cost: bytes of storings, milliseconds within each kind."""
    storings = [row for row in rows if row["latency_kind"] == rows[0]["latency_kind"]]
    searches = [row for row in rows if row["latency_kind"] != rows[0]["latency_kind"]]
    for row in rows:
        peers = storings if row in storings else searches
        row["pareto"] = row in storings and _unbeaten(row, storings, lambda each: float(each["bytes_per_page"]))
        row["pareto_latency"] = _unbeaten(row, peers, lambda each: float(each["latency_ms"]["p50"]))


def _unbeaten(row: Row, others: Sequence[Row], cost: Callable[[Row], float]) -> bool:
    mine = quality(row), -cost(row)
    return not any(
        (theirs := (quality(other), -cost(other))) != mine and theirs[0] >= mine[0] and theirs[1] >= mine[1]
        for other in others
    )


def quality(row: Row) -> float:
    """Return what rows are compared by."""
    return float(row["measures"][MEASURE]["mean"])
