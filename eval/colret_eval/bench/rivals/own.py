"""colret itself: an index written through its store, asked through its search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from colret.types import WHOLE_PAGE, Codec, EncoderInfo, Float32, PageEmbedding
from colret_eval.bench.rivals import Variant

EXACT = "exact"
_SWEEP = {
    "binary": (10, 20, 50, 100, 200, 500, 1000),
    "sketch": (100, 500),
    "single+binary": (20, 100),
    "single": (100, 500, 2000),
}


class Colret:
    """Exact search, and each prefilter with several numbers of candidates."""

    def __init__(self, folder: Path, codec: Codec | None = None) -> None:
        self._path = folder / "index"
        self._codec = codec
        self._store: Any = None
        self._seconds: Any = None
        self._n_asked = 0

    def build(self, pages: Iterator[Float32], n_pages: int) -> None:
        """Write the index, sign bits for the default prefilter included."""
        from colret_eval.bench.indexes import write_index

        first = next(pages)
        info = EncoderInfo("bench", "bench", "0", first.shape[1], "{}", "words", 0)
        self._store = write_index(self._path, _embeddings(first, pages), n_pages, info, self._codec)

    def index(self) -> None:
        """Make the sketches, and past its size the ANN index over single vectors."""
        from colret.ann import build, choose_kind
        from colret.signatures import KINDS, open_signatures

        self._store.refresh()
        for kind in KINDS:
            open_signatures(self._store, kind)
        settings = self._store.settings
        if ann := choose_kind(self._store.n_pages(), settings.stored_dim):
            build(self._store, ann)

    def variants(self, n_pages: int) -> list[Variant]:
        """Return exact search and the sweep of prefilters."""
        swept = ((name, n) for name, sizes in _SWEEP.items() for n in sizes if n < n_pages)
        return [Variant(EXACT, {"prefilter": "none", "n_candidates": n_pages})] + [
            Variant(f"{name}, C = {n}", {"prefilter": name, "n_candidates": n}) for name, n in swept
        ]

    def open(self) -> None:
        """Open the index."""
        from colret.search import StageSeconds
        from colret.store import PageStore

        self._store, self._seconds = PageStore.open(self._path), StageSeconds()

    def search(self, query: Float32, k: int, **parameters: Any) -> list[int]:
        """Return the best pages."""
        from colret.search import rank
        from colret_eval.bench.indexes import as_query, page_number

        self._n_asked += 1
        [ranking] = rank(self._store, [as_query(query)], k=k, seconds=self._seconds, **parameters)
        return [page_number(hit.ref) for hit in ranking.hits]

    def exact_answers(self, queries: Float32) -> list[list[int]]:
        """Return what exact search finds for queries (Q, T, D), all asked together: what prefilters are judged by."""
        from colret.search import rank
        from colret_eval.bench.indexes import as_query, page_number
        from colret_eval.bench.reference import DEPTH

        rankings = rank(self._store, [as_query(query) for query in queries], k=DEPTH, prefilter="none")
        return [[page_number(hit.ref) for hit in ranking.hits] for ranking in rankings]

    def stages(self) -> dict[str, float]:
        """Return the mean time of each stage."""
        from colret.search import StageSeconds

        spent, n_asked = self._seconds, max(self._n_asked, 1)
        self._seconds, self._n_asked = StageSeconds(), 0
        return {f"{stage}_ms": getattr(spent, stage) / n_asked * 1000 for stage in ("prefilter", "fetch", "rescore")}


def _embeddings(first: Float32, pages: Iterator[Float32]) -> Iterator[PageEmbedding]:
    boxes = np.tile(np.array(WHOLE_PAGE, np.uint16), (len(first), 1))
    yield PageEmbedding(first, boxes)
    for page in pages:
        yield PageEmbedding(page, boxes)
