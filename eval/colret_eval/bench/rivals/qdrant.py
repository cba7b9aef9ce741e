"""Qdrant Edge: the embedded form of Qdrant, with MaxSim over its multivectors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from colret.types import Float32
from colret_eval.bench.rivals import Variant

_WRITE_PAGES = 64
_CANDIDATES = (100, 500, 2000)


class QdrantEdge:
    """Exact MaxSim over all pages, or over what the page's mean vector finds through HNSW.

    The page's multivector has no HNSW graph of its own (each edge of it would cost a MaxSim of
    two whole pages); a mean vector to prefetch by is what its makers recommend for ColPali.
    """

    def __init__(self, folder: Path) -> None:
        self._path = str(folder)
        self._shard: Any = None

    def build(self, pages: Iterator[Float32], n_pages: int) -> None:
        """Write the shard."""
        import qdrant_edge as qdrant

        first = next(pages)
        self._shard = qdrant.EdgeShard.create(self._path, _config(first.shape[1]))
        every = itertools.chain([first], pages)
        for start in range(0, n_pages, _WRITE_PAGES):
            points = [
                qdrant.Point(start + i, _vectors(page)) for i, page in enumerate(itertools.islice(every, _WRITE_PAGES))
            ]
            self._shard.update(qdrant.UpdateOperation.upsert_points(points))
        self._shard.flush()

    def index(self) -> None:
        """Merge segments and build the mean vectors' graph."""
        self._shard.optimize()
        self._shard.flush()

    def variants(self, n_pages: int) -> list[Variant]:
        """Return exact search, and prefetching by mean vector."""
        prefetches = [n for n in _CANDIDATES if n < n_pages]
        return [Variant("flat", {"candidates": None})] + [
            Variant(f"mean vector, C = {n}", {"candidates": n}) for n in prefetches
        ]

    def open(self) -> None:
        """Load the shard."""
        import qdrant_edge as qdrant

        self._shard = qdrant.EdgeShard.load(self._path)

    def search(self, query: Float32, k: int, **parameters: Any) -> list[int]:
        """Return the best pages."""
        import qdrant_edge as qdrant

        n_candidates = parameters["candidates"]
        by_mean = qdrant.Query.Nearest(query.mean(axis=0).tolist(), using="mean")
        prefetches = [qdrant.Prefetch(limit=n_candidates, query=by_mean)] if n_candidates else None
        request = qdrant.QueryRequest(
            limit=k, query=qdrant.Query.Nearest(query.tolist(), using="pages"), prefetches=prefetches
        )
        return [int(point.id) for point in self._shard.query(request)]

    def stages(self) -> dict[str, float]:
        """Not told."""
        return {}


def _vectors(page: Float32) -> Any:
    """Return what a point holds; arrays go in as they are, though the engine's types know lists only."""
    return {"pages": page, "mean": page.mean(axis=0)}


def _config(dim: int) -> Any:
    import qdrant_edge as qdrant

    by_maxsim = qdrant.MultiVectorConfig(qdrant.MultiVectorComparator.MaxSim)
    no_graph = qdrant.HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=10_000)
    vectors = {
        "pages": qdrant.EdgeVectorParams(
            size=dim, distance=qdrant.Distance.Dot, multivector_config=by_maxsim, hnsw_config=no_graph
        ),
        "mean": qdrant.EdgeVectorParams(size=dim, distance=qdrant.Distance.Cosine),
    }
    return qdrant.EdgeConfig(vectors=vectors, wal_enabled=False)
