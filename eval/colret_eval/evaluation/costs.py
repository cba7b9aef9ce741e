"""What a search takes: bytes on disk, seconds to ingest, milliseconds a query."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from colret.compaction import BOX_BYTES
from colret.encoders import Encoder
from colret.index_folder import bytes_below
from colret.location import Location
from colret.prefilter import DEFAULT_PREFILTER, Prefilter
from colret.search import DEFAULT_CANDIDATES, StageSeconds, embed, rank, single_vector_rank
from colret.signatures import FOLDER, open_signatures
from colret.store import PageStore
from colret_eval.bench.clock import Elapsed, Stopwatch, milliseconds
from colret_eval.evaluation.corpus import Corpus, Ingested
from colret_eval.storage import predicted_bytes

TIMED: Final = 100
"""Queries that are timed, one at a time."""

_STAGES = ("encode", "prefilter", "fetch", "rescore", "total")
_FEW_PAGES = 20  # encoded, below which a rate says nothing


class Bytes(NamedTuple):
    """Bytes a page."""

    on_disk_per_page: float  # the whole index
    pages_table_per_page: float
    side_files_per_page: float  # sign bits and sketches
    predicted_vectors_per_page: float  # the codec's codes and their boxes
    predicted_float32_per_page: float  # 4 P D, before pooling and projection
    single_vector_per_page: float
    ratio_to_single: float  # of the predicted codes, without boxes
    vectors_per_page: float
    text_per_page: float  # of the page's words, which BM25 needs


def count_bytes(corpus: Corpus) -> Bytes:
    """Return what the index takes for each page that can be found, beside what its vectors should take."""
    store, n = corpus.store, corpus.n_pages
    settings = store.settings
    n_vectors = int(store.page_table().n_vectors.sum())
    n_before = sum(corpus.records[page].n_vectors for page in corpus.page_ids if page)
    codes = predicted_bytes(n_vectors, settings.stored_dim, settings.codec)
    single = 4 * settings.stored_dim
    return Bytes(
        on_disk_per_page=store.folder.n_bytes() / n,
        pages_table_per_page=store.folder.n_bytes("pages.lance") / n,
        side_files_per_page=bytes_below(store.side_files / FOLDER) / n,
        predicted_vectors_per_page=(codes + n_vectors * BOX_BYTES) / n,
        predicted_float32_per_page=predicted_bytes(n_before, settings.dim) / n,
        single_vector_per_page=single,
        ratio_to_single=codes / n / single,
        vectors_per_page=n_vectors / n,
        text_per_page=sum(len(text.encode("utf-8", "replace")) for text in corpus.page_texts().values()) / n,
    )


def ingest_rate(ingested: Ingested, n_pages: int) -> dict[str, Any]:
    """Return the pages a second of an ingest, where it encoded all of them."""
    if ingested.n_encoded < max(n_pages, _FEW_PAGES):
        what = "few pages" if n_pages < _FEW_PAGES else "pages were there, or had been encoded before"
        return {"pages_per_second": None, "seconds": None, "note": f"not measured: {what}"}
    note = "reading, encoding, storing and indexing, without loading the model"
    return {"pages_per_second": n_pages / ingested.seconds, "seconds": ingested.seconds, "note": note}


def rebuild_indexes(store: PageStore) -> float:
    """Build the text index and the sign bits anew; return the seconds."""
    shutil.rmtree(store.side_files / FOLDER, ignore_errors=True)
    fresh = PageStore.open(store.location)
    started = time.perf_counter()
    with fresh.writing():
        fresh.build_text_index()
        for kind in Prefilter.parse(DEFAULT_PREFILTER).kinds:
            open_signatures(fresh, kind)
    return time.perf_counter() - started


class Latency(NamedTuple):
    """Milliseconds a query, by stage, of two-stage and of exact search, and of the single vector."""

    n_queries: int
    cold_first_ms: float  # open the index, encode and answer the first query
    stages: list[dict[str, Any]]
    exact: list[dict[str, Any]]
    single: dict[str, float]  # encoding included


def time_queries(index: Location, encoder: Encoder, texts: Sequence[str]) -> Latency:
    """Ask queries one at a time, the same of each kind of search, in one process."""
    texts = list(texts[:TIMED])
    watch = Stopwatch()
    store = PageStore.open(index)
    rank(store, embed(store, encoder, texts[:1]), prefilter=DEFAULT_PREFILTER)
    cold = watch.elapsed().wall
    singles = []
    single_vector_rank(store, embed(store, encoder, texts[:1]))
    for text in texts:
        watch = Stopwatch()
        single_vector_rank(store, embed(store, encoder, [text]))
        singles.append(watch.elapsed())
    two_stage, exact = (_stages(store, encoder, texts, name) for name in (DEFAULT_PREFILTER, "none"))
    return Latency(len(texts), cold * 1000, two_stage, exact, _percentiles(singles))


def _stages(store: PageStore, encoder: Encoder, texts: Sequence[str], prefilter: str) -> list[dict[str, Any]]:
    times: dict[str, list[Elapsed]] = {stage: [] for stage in _STAGES}
    for text in [texts[0], *texts]:
        spent = StageSeconds()
        watch = Stopwatch()
        queries = embed(store, encoder, [text])
        times["encode"].append(watch.elapsed())
        rank(store, queries, prefilter=prefilter, n_candidates=DEFAULT_CANDIDATES, seconds=spent)
        times["total"].append(watch.elapsed())
        for stage in ("prefilter", "fetch", "rescore"):
            times[stage].append(Elapsed(getattr(spent, stage), 0.0))
    return [{"stage": stage, **_percentiles(found[1:])} for stage, found in times.items()]


def _percentiles(times: Sequence[Elapsed]) -> dict[str, float]:
    found = milliseconds(times)
    return {name: found[name] for name in ("p50_ms", "p95_ms")}
