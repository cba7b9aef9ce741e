"""Bytes against quality on real vectors: codecs, pool factors and dimensions of a real index."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from colret.codecs import bytes_per_vector
from colret.compaction import BOX_BYTES
from colret.index_folder import bytes_below
from colret.search import rank
from colret.types import Codec, EncoderInfo, Float32, PageEmbedding, PageRef
from colret_eval.bench.indexes import as_query, page_number, write_index
from colret_eval.bench.real import RealVectors
from colret_eval.bench.reference import DEPTH, Reference, kept_at, top
from colret_eval.measures import Float64, evaluate, ndcg
from colret_eval.statistics import paired_interval


class Storing(NamedTuple):
    """How an index keeps vectors."""

    codec: Codec
    pool: int = 1
    dim: int | None = None  # all


STORINGS = (
    Storing("float16"),
    Storing("int8"),
    Storing("int4"),
    Storing("binary"),
    Storing("int8", pool=2),
    Storing("int8", pool=4),
    Storing("int4", pool=2),
    Storing("int4", pool=4),
    Storing("binary", pool=2),
    Storing("int8", dim=256),
    Storing("int4", dim=256),
    Storing("int8", dim=128),
    Storing("int4", dim=128),
)


def exact_reference(real: RealVectors) -> Reference:
    """Return the float32 ranking of all real pages, none of them encoded or pooled."""
    tokens = np.asarray(real.queries).T  # (D, m)
    scores = np.empty((len(real.texts), real.n_pages), np.float32)
    for i in range(real.n_pages):
        best = (real.page(i) @ tokens).max(axis=0)  # (m,)
        scores[:, i] = np.add.reduceat(best, real.query_offsets[:-1])
    return top(scores)


def measure(real: RealVectors, reference: Reference, storing: Storing, work: Path) -> dict[str, Any]:
    """Return bytes a page, predicted and read from disk, and what is kept of the float32 ranking."""
    path = work / "storage-index"
    shutil.rmtree(path, ignore_errors=True)
    dim = real.pages.shape[1]
    sample = np.asarray(real.pages[:: len(real.pages) // 50_000 + 1])
    store = write_index(
        path,
        embeddings(real),
        real.n_pages,
        EncoderInfo("real", "bench", "0", dim, "{}", "words", 0),
        storing.codec,
        dim=storing.dim,
        pool=storing.pool,
        sample=sample,
    )
    n_bytes = sum(bytes_below(table) for table in path.glob("pages.lance")) / real.n_pages
    rankings = rank(store, [as_query(real.query(i)) for i in range(len(real.texts))], k=DEPTH, prefilter="none")
    found = [[page_number(hit.ref) for hit in ranking.hits] for ranking in rankings]
    shutil.rmtree(path)
    return {
        "codec": storing.codec,
        "pool": storing.pool,
        "dim": storing.dim or dim,
        "vectors_a_page": _n_vectors(real, storing.pool) / real.n_pages,
        "bytes_a_page_predicted": predicted_bytes(real, storing),
        "bytes_a_page": n_bytes,
        **{f"top{k}": share for k, share in kept_at(reference.ids, found).items()},
        **quality(real, found, reference.ids.tolist()),
    }


def predicted_bytes(real: RealVectors, storing: Storing) -> float:
    """Return the bytes that a page's codes, boxes and mean vector take."""
    dim = storing.dim or real.pages.shape[1]
    each = bytes_per_vector(dim, storing.codec) + BOX_BYTES
    return _n_vectors(real, storing.pool) * each / real.n_pages + 4 * dim


def quality(real: RealVectors, found: list[list[int]], float32: list[list[int]] | None = None) -> dict[str, Any]:
    """Return nDCG@10 of the pages found for each question; nothing where nothing is labelled.

    With the pages that float32 finds, the difference to theirs too, and its 95 % interval over documents.
    """
    if not real.qrels:
        return {}
    measure = ndcg(DEPTH)
    values = _by_question(real, found)
    told: dict[str, Any] = {measure.name: float(values.mean())}
    if float32 is not None:
        rng = np.random.default_rng(0)
        interval = paired_interval(values, _by_question(real, float32), _sources(real), rng)
        told["difference"] = [interval.mean, interval.low, interval.high]
    return told


def _by_question(real: RealVectors, found: list[list[int]]) -> Float64:
    run = {
        query_id: {real.keys[page]: -float(place) for place, page in enumerate(pages)}
        for query_id, pages in zip(real.query_ids, found, strict=True)
    }
    measure = ndcg(DEPTH)
    return evaluate(real.qrels, run, [measure])[measure.name]


def _sources(real: RealVectors) -> list[str]:
    """Return the document of each question's first relevant page."""
    return [PageRef.parse(next(iter(grades), ":0")).doc_id for grades in real.qrels.values()]


def _n_vectors(real: RealVectors, pool: int) -> int:
    return int((-(-np.diff(real.offsets) // pool)).sum())


def embeddings(real: RealVectors) -> Iterator[PageEmbedding]:
    """Yield the vectors and boxes of each real page."""
    for i in range(real.n_pages):
        start, end = real.offsets[i], real.offsets[i + 1]
        vectors: Float32 = np.asarray(real.pages[start:end])
        yield PageEmbedding(vectors, np.asarray(real.boxes[start:end]))
