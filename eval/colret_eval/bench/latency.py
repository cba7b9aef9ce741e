"""Where the time of a query goes, and what prefilters keep, on an index of real vectors."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

from colret.encoders import load_encoder
from colret.search import StageSeconds, embed, rank
from colret.store import PageStore
from colret.types import Codec
from colret_eval.bench.clock import Stopwatch
from colret_eval.bench.indexes import write_index
from colret_eval.bench.prefilters import measure_prefilters
from colret_eval.bench.real import RealVectors
from colret_eval.bench.storage import embeddings

BATCH = 100
"""Queries asked together, as by ``colret query --queries``."""


def measure(real: RealVectors, work: Path, codec: Codec | None = None) -> dict[str, Any]:
    """Return the split of a warm batch of queries, and the table of prefilters, on one real index."""
    encoder = load_encoder("embedded", device="cpu")
    path = work / "real-index"
    shutil.rmtree(path, ignore_errors=True)
    try:
        store = write_index(path, embeddings(real), real.n_pages, encoder.info, codec)
        texts = list(itertools.islice(itertools.cycle(real.texts), BATCH))
        batch = {name: split(store, encoder, texts, name) for name in ("none", "binary")}
        queries = embed(store, encoder, real.texts)
        return {"codec": store.settings.codec, "n_pages": real.n_pages, "n_queries": BATCH, "batch": batch} | {
            "prefilters": measure_prefilters(store, queries)
        }
    finally:
        shutil.rmtree(path, ignore_errors=True)


def split(store: PageStore, encoder: Any, texts: list[str], prefilter: str) -> dict[str, float]:
    """Return the mean milliseconds a query of each stage, all queries asked together, once to warm up."""
    rank(store, embed(store, encoder, texts), prefilter=prefilter)
    spent = StageSeconds()
    watch = Stopwatch()
    queries = embed(store, encoder, texts)
    encoding = watch.elapsed().wall
    rank(store, queries, prefilter=prefilter, seconds=spent)
    stages = {"encode": encoding, "prefilter": spent.prefilter, "fetch": spent.fetch, "rescore": spent.rescore}
    stages["total"] = watch.elapsed().wall
    return {f"{stage}_ms": seconds / len(texts) * 1000 for stage, seconds in stages.items()}
