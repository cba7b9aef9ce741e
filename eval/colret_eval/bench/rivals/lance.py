"""LanceDB's own multivector search: flat, and through the index that suits it best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from colret.types import Float32
from colret_eval.bench.rivals import Variant

_WRITE_PAGES = 256

FLAT = "flat"
_SWEEP: list[tuple[int, int | None, int]] = [  # (limit, refine_factor, nprobes), the answer cut to k
    (10, None, 20),
    (10, 1, 20),
    (10, 2, 20),
    (10, 5, 20),
    (10, 5, 100),
    (10, 10, 20),
    (50, 1, 20),
    (50, 5, 20),
]
_GRAPH_SWEEP: list[tuple[int, int | None, int]] = [(10, None, 20), (10, 1, 20), (10, 5, 20), (50, 1, 20), (50, 5, 20)]
_OVERFETCH = ("10", "50")  # of LANCE_XTR_OVERFETCH; 10 is its default


class LanceDB:
    """A table of float32 multivectors under cosine, the only distance its index takes.

    The index is IVF_RQ with about as many partitions as the square root of the number of
    vectors: by default it counts rows, and so takes a single partition up to some 8,000 pages.
    With ``graph`` it is IVF_HNSW_SQ in one partition, faster and a quarter of a second a page to
    build: for small corpora.
    """

    def __init__(self, folder: Path, graph: bool = False) -> None:
        self._folder = folder
        self._graph = graph
        self._table: Any = None
        self._n_vectors = 0

    def build(self, pages: Iterator[Float32], n_pages: int) -> None:
        """Write the table."""
        import lancedb

        first = next(pages)
        vector = pa.list_(pa.list_(pa.float32(), first.shape[1]))
        schema = pa.schema([("id", pa.int32()), ("pages", vector)])
        self._table = lancedb.connect(str(self._folder)).create_table("pages", schema=schema)
        every = itertools.chain([first], pages)
        for start in range(0, n_pages, _WRITE_PAGES):
            some = list(itertools.islice(every, _WRITE_PAGES))
            self._n_vectors += sum(map(len, some))
            self._table.add(_rows(start, some, schema))

    def index(self) -> None:
        """Build the index."""
        from lancedb.index import HnswSq, IvfRq

        n_partitions = 2 ** round(math.log2(math.sqrt(self._n_vectors)))
        graph = HnswSq(distance_type="cosine", num_partitions=1, m=16, ef_construction=100)
        config = graph if self._graph else IvfRq(distance_type="cosine", num_partitions=n_partitions)
        self._table.create_index("pages", config=config)

    def variants(self, n_pages: int) -> list[Variant]:
        """Return flat search and the sweep of the index's parameters."""
        kind, sweep = ("IVF_HNSW_SQ", _GRAPH_SWEEP) if self._graph else ("IVF_RQ", _SWEEP)
        return [Variant(FLAT, {"flat": True})] + [
            Variant(
                f"{kind} limit {limit} refine {refine or 'none'} nprobes {nprobes} overfetch {overfetch}",
                {"limit": limit, "refine": refine, "nprobes": nprobes},
                {"LANCE_XTR_OVERFETCH": overfetch},
            )
            for overfetch, (limit, refine, nprobes) in itertools.product(_OVERFETCH, sweep)
        ]

    def open(self) -> None:
        """Open the table."""
        import lancedb

        self._table = lancedb.connect(str(self._folder)).open_table("pages")

    def search(self, query: Float32, k: int, **parameters: Any) -> list[int]:
        """Return the best pages."""
        search = self._table.search(query, vector_column_name="pages").distance_type("cosine")
        if parameters.get("flat"):
            search = search.bypass_vector_index().limit(k)
        else:
            search = search.limit(max(k, parameters["limit"])).nprobes(parameters["nprobes"])
            search = search.refine_factor(parameters["refine"]) if parameters["refine"] else search
        found = search.select(["id", "_distance"]).to_arrow()
        order = np.argsort(found["_distance"].to_numpy(), kind="stable")[:k]
        ids: list[int] = found["id"].to_numpy()[order].tolist()
        return ids

    def stages(self) -> dict[str, float]:
        """Not told."""
        return {}


def _rows(start: int, pages: list[Float32], schema: pa.Schema) -> pa.Table:
    values = pa.array(np.concatenate(pages).ravel())
    vectors = pa.FixedSizeListArray.from_arrays(values, pages[0].shape[1])
    offsets = pa.array(np.cumsum([0, *map(len, pages)], dtype=np.int32))
    ids = pa.array(np.arange(start, start + len(pages), dtype=np.int32))
    return pa.table([ids, pa.ListArray.from_arrays(offsets, vectors)], schema=schema)
