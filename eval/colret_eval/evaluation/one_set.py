"""All figures of one labelled set, from its index and its queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from colret.types import Codec
from colret_eval.evaluation.baselines import Baselines
from colret_eval.evaluation.comparison import Judge, chance, compare, ranks_of, run_of, values_of
from colret_eval.evaluation.corpus import Corpus, Ingested
from colret_eval.evaluation.costs import Bytes, Latency, count_bytes, ingest_rate, rebuild_indexes, time_queries
from colret_eval.evaluation.duplicates import leakage, page_groups, split_groups
from colret_eval.evaluation.floors import score_floors
from colret_eval.evaluation.headline import headline
from colret_eval.evaluation.hubs import hubs
from colret_eval.evaluation.losses import stage_losses
from colret_eval.evaluation.queries import pictured, query_rows, shown_queries
from colret_eval.evaluation.recorder import RecordingEncoder
from colret_eval.evaluation.sizes import both_directions, collection_sizes
from colret_eval.evaluation.systems import (
    BI,
    BM25,
    BOTH,
    CHUNK,
    FLOAT32,
    MEAN,
    POOLED,
    REFERENCE,
    SYSTEMS,
    TEXT,
    TWO_STAGE,
    Scored,
    query_tokens,
    score_systems,
)
from colret_eval.evaluation.thumbnails import thumbnails
from colret_eval.matrices import Float32
from colret_eval.trec import write_qrels, write_run

SEED: Final = 0

_CHUNK_DIM = 384  # of MiniLM's vectors


@dataclass(frozen=True, slots=True)
class Options:
    """How an evaluation is run; the defaults are what ``colret ingest`` and ``colret query`` do."""

    systems: tuple[str, ...] = tuple(system.id for system in SYSTEMS)
    codec: Codec | None = None
    dim: int | None = None
    pool: int = 1
    bi_model: str | None = None  # folder or hub name of a single-vector vision model
    device: str = "auto"  # that it runs on
    trec: Path | None = None  # folder for runs and qrels as TREC files


def evaluate_set(
    corpus: Corpus,
    ingested: Ingested,
    recorder: RecordingEncoder,
    options: Options,
    baselines: Baselines,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return a set's part of the report, but for what its check found."""
    name, n = corpus.dataset.name, len(corpus.query_ids)
    judge = Judge(corpus.sources, SEED)
    n_tokens = query_tokens(recorder, corpus.texts)
    scored = score_systems(corpus, recorder, options.systems, baselines, lambda text: say(f"{name}: {text}"))
    # Float32 is always scored, for what the codec costs, but is a row only where it is wanted.
    rows = [system.id for system in SYSTEMS if system.id in (REFERENCE, *options.systems)]
    matrices = {system: scored.matrices[system] for system in rows if system in scored.matrices}
    if options.trec is not None:
        _export(options.trec / name, corpus, matrices)
    say(f"{name}: measures and their intervals")
    values = {system: values_of(corpus.qrels, run_of(corpus, scores)) for system, scores in matrices.items()}
    ranks = {system: ranks_of(scores, corpus.relevant) for system, scores in matrices.items()}
    compared = compare(values, ranks, REFERENCE, judge, corpus.n_pages)
    random, random_ranks = chance(corpus)
    say(f"{name}: stages, duplicates, hubs, score floor, collection size")
    stages, lost = stage_losses(corpus, scored.matrices, recorder.queries(corpus.texts[:n]), judge)
    groups, groupings = page_groups(corpus)
    split = split_groups(corpus, groups)
    reference = matrices[REFERENCE]
    hubness = hubs(corpus, reference[:n], n_tokens[:n], split, judge)
    queries = query_rows(corpus, reference, n_tokens, values, ranks, lost)
    shown = shown_queries(corpus, values, ranks)
    report = {
        **_sizes(corpus, ingested),
        "random": random,
        "random_ranks": random_ranks,
        "reference": REFERENCE,
        "directions": both_directions(corpus, matrices, n_tokens[:n], judge),
        "collection_size": collection_sizes(corpus, matrices, judge),
        "stages": stages,
        "leakage": leakage(corpus, matrices, values, groups, groupings, split, judge),
        "hubness": hubness,
        "score_floor": score_floors(corpus, reference, n_tokens, split, groups, SEED),
        "queries": queries,
        **shown._asdict(),
    }
    say(f"{name}: cost")
    n_bytes = count_bytes(corpus)
    index_seconds = rebuild_indexes(corpus.store)
    latency = time_queries(corpus.store.location, recorder, corpus.texts[:n])
    report["cost"] = {
        "bytes": n_bytes._asdict(),
        "ingest": ingest_rate(ingested, corpus.n_pages),
        "index_seconds": index_seconds,
        "latency": latency._asdict(),
    }
    cost = _costs_of_systems(n_bytes, latency, scored, recorder.info.dim)
    report["systems"] = [
        {
            "id": system.id,
            "label": system.label,
            "what": system.what + (f" Here {scored.n_blocks}." if system.id == POOLED and scored.n_blocks else ""),
            "available": system.id in matrices,
            "reason": scored.missing.get(system.id, ""),
            **compared.get(system.id, {"measures": {}, "ranks": None, "differences": None}),
            **cost.get(system.id, {"bytes_per_page": None, "bytes_kind": "", "latency_ms": None}),
        }
        for system in SYSTEMS
        if system.id in rows
    ]
    report["thumbnails"] = thumbnails(
        corpus.dataset, [*pictured(queries, shown), *(hub["key"] for hub in hubness["hubs"])]
    )
    return report


def with_headline(report: dict[str, Any]) -> dict[str, Any]:
    """Return a set's complete report with its first sentences."""
    return report | {"headline": headline(report)}


def _sizes(corpus: Corpus, ingested: Ingested) -> dict[str, Any]:
    dataset = corpus.dataset
    labelled = corpus.relevant.any(axis=0)
    n_documents = len(dataset.documents) + len(dataset.page_documents)
    return {
        "name": dataset.name,
        "folder": str(dataset.folder),
        "synthetic": dataset.synthetic,
        "n_pages": corpus.n_pages,
        "n_documents": n_documents,
        "n_queries": len(corpus.query_ids),
        "n_no_answer": len(dataset.no_answer),
        "n_sources": len(set(corpus.sources)),
        "n_relevant_unsearchable": int((labelled & ~corpus.findable).sum()),
        "n_blank": ingested.n_blank,
        "n_identical_files": ingested.n_identical,
        "skipped": [
            {"file": each.path, "page": each.page, "reason": each.reason, "message": each.message}
            for each in ingested.skipped
        ],
    }


def _costs_of_systems(n_bytes: Bytes, latency: Latency, scored: Scored, dim: int) -> dict[str, dict[str, Any]]:
    """Return what each system keeps of a page and how long a query takes, where that is known.

    ``dim`` is the encoder's D, which the index may have cut.
    """

    def row(n: float, kind: str, times: Mapping[str, Any] | None) -> dict[str, Any]:
        ms = {name.removesuffix("_ms"): times[f"{name}"] for name in ("p50_ms", "p95_ms")} if times else None
        return {"bytes_per_page": n, "bytes_kind": kind, "latency_ms": ms}

    on_disk, single = n_bytes.on_disk_per_page, n_bytes.single_vector_per_page
    block = 4 * dim  # a mean of float32 vectors as the encoder gives them, whatever the index keeps
    chunks = scored.chunks_per_page
    return {
        REFERENCE: row(on_disk, "on disk", latency.exact[-1]),
        TWO_STAGE: row(on_disk, "on disk", latency.stages[-1]),
        BOTH: row(on_disk, "on disk", None),
        TEXT: row(n_bytes.text_per_page, "predicted", None),
        FLOAT32: row(n_bytes.predicted_float32_per_page, "predicted", None),
        MEAN: row(single, "predicted", latency.single),
        **({POOLED: row(block * scored.n_blocks, "predicted", None)} if scored.n_blocks else {}),
        **({CHUNK: row(4 * _CHUNK_DIM * chunks, "predicted", None)} if chunks else {}),
        **({BI: row(4 * scored.bi_dim, "predicted", None)} if scored.bi_dim else {}),
        BM25: row(n_bytes.text_per_page, "predicted", None),
    }


def _export(folder: Path, corpus: Corpus, matrices: Mapping[str, Float32]) -> None:
    """Write the qrels and every system's run as TREC files."""
    folder.mkdir(parents=True, exist_ok=True)
    write_qrels(folder / "qrels.trec", corpus.qrels)
    for system, scores in matrices.items():
        write_run(folder / f"{system}.trec", run_of(corpus, scores), tag=system)
