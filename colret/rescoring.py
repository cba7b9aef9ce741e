"""MaxSim of queries with pages as an index stores them, read in blocks while others are scored."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from colret.codecs import bytes_per_vector
from colret.scoring import maxsim
from colret.store import PageStore
from colret.types import Float32, Int64, Multivectors, QueryEmbedding

_AT_ONCE_BYTES = 30_000_000  # of codes that are read in one go: a thread would cost more than it saves
_BLOCK_BYTES = 8_000_000  # of more, read together: larger buffers go back to the system after each read
_READS_AHEAD = 2  # blocks read while another is scored


@dataclass(slots=True)
class StageSeconds:
    """Where the time of a search went, in wall-clock seconds."""

    prefilter: float = 0.0
    fetch: float = 0.0  # waiting for stored vectors that were not there yet
    rescore: float = 0.0

    @contextmanager
    def adding(self, stage: str) -> Iterator[None]:
        """Add the time of a block to ``stage``."""
        started = time.perf_counter()
        yield
        setattr(self, stage, getattr(self, stage) + time.perf_counter() - started)


def score_pages(
    store: PageStore, queries: Sequence[QueryEmbedding], kept: Sequence[Int64], device: str, spent: StageSeconds
) -> list[Float32]:
    """Return the MaxSim of each query with each page kept for it; a page is read once for all queries.

    A page's score does not depend on what else is scored, so sharing the reads changes nothing.
    """
    places = np.unique(np.concatenate(kept))
    if not len(places):
        return [np.empty(0, np.float32) for _ in queries]
    own = [np.searchsorted(places, each) for each in kept]  # ascending, as kept is
    scores = [np.empty(len(each), np.float32) for each in kept]
    blocks = _read_ahead(store, places)
    start = 0
    while start < len(places):
        with spent.adding("fetch"):
            block = next(blocks)
        with spent.adding("rescore"):
            for query, mine, row in zip(queries, own, scores, strict=True):
                first, last = np.searchsorted(mine, [start, start + len(block)])
                if first < last:
                    rows = mine[first:last] - start
                    row[first:last] = maxsim(query.vectors, block, rows=rows, device=device)
        start += len(block)
    return scores


def _read_ahead(store: PageStore, places: Int64) -> Iterator[Multivectors]:
    """Yield the vectors of pages block by block, reading the next ones meanwhile."""
    width = bytes_per_vector(store.settings.stored_dim, store.settings.codec)
    ends = np.cumsum(store.page_table().n_vectors[places] * width)
    if ends[-1] <= _AT_ONCE_BYTES:
        yield store.vectors(places)
        return
    chunks = np.split(places, np.flatnonzero(np.diff(ends // _BLOCK_BYTES)) + 1)
    with ThreadPoolExecutor(_READS_AHEAD) as readers:
        coming = deque(readers.submit(store.vectors, chunk) for chunk in chunks[:_READS_AHEAD])
        for chunk in chunks[_READS_AHEAD:]:
            ready = coming.popleft().result()
            coming.append(readers.submit(store.vectors, chunk))
            yield ready
        while coming:
            yield coming.popleft().result()
