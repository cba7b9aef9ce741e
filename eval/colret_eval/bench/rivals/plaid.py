"""fast-plaid: PLAID (centroids and 4-bit residuals) in Rust over torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from colret.types import Float32
from colret_eval.bench.rivals import Variant

_FIRST_PAGES = 2000  # that its centroids are fitted on; the others are added to them
_MORE_PAGES = 500


class FastPlaid:
    """It asks for one exact version of torch, so it runs in an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder)
        self._plaid: Any = None

    def build(self, pages: Iterator[Float32], n_pages: int) -> None:
        """Fit centroids, and code the pages."""
        import torch

        self.open()
        tensors = map(torch.from_numpy, pages)
        self._plaid.create(documents_embeddings=list(itertools.islice(tensors, _FIRST_PAGES)))
        while more := list(itertools.islice(tensors, _MORE_PAGES)):
            self._plaid.update(documents_embeddings=more)

    def index(self) -> None:
        """Building did it."""

    def variants(self, n_pages: int) -> list[Variant]:
        """Return a sweep of how many clusters are probed and how many pages scored in full."""
        swept = itertools.product((4, 8, 32), (256, 4096))
        return [Variant(f"probes {n}, full scores {full}", {"probes": n, "full": full}) for n, full in swept]

    def open(self) -> None:
        """Load the index, or make an empty one."""
        from fast_plaid.search import FastPlaid as Engine

        self._plaid = Engine(index=self._path, device="cpu")

    def search(self, query: Float32, k: int, **parameters: Any) -> list[int]:
        """Return the best pages."""
        import torch

        [found] = self._plaid.search(
            queries_embeddings=torch.from_numpy(query)[None],
            top_k=k,
            n_ivf_probe=parameters["probes"],
            n_full_scores=parameters["full"],
            show_progress=False,
        )
        return [int(page) for page, _ in found]

    def stages(self) -> dict[str, float]:
        """Not told."""
        return {}
