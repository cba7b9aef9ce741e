"""Synthetic corpora of any size, cut from real vectors: pages of 1,030 x 128, made when asked for.

Real vectors are projected to 128 dimensions by their principal components (a vision model's
size) and cut into runs of neighbours, as a page's vectors are not independent. Page ``i``
depends on the seed and ``i`` alone, so any process makes the same page, and the first 1,000
pages of a corpus of 10,000 are the corpus of 1,000.

* ``separated``: a page is runs of many real pages, blurred by noise of its own strength, so
  that the best pages of a query are well apart.
* ``near-tie``: groups of 40 pages are copies of one such page, under equal noise, so that the
  best ten pages of a query have many almost as good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from colret.types import Float32, Int64

Kind = Literal["separated", "near-tie"]
KINDS: tuple[Kind, ...] = get_args(Kind)

N_VECTORS, DIM, N_TOKENS = 1030, 128, 24
COPIES = 40
"""Pages of a group of ``near-tie``."""

_RUN = (20, 100)  # neighbours that stay together
_BLUR = {"separated": (0.1, 0.8), "near-tie": (0.2, 0.2)}  # length of the noise beside a unit vector
_NOISE_ROWS = 4096
_SAMPLE = 50_000  # vectors that the projection is fitted on


@dataclass(frozen=True, slots=True)
class Corpus:
    """An endless corpus; ``source`` holds unit rows, ``offsets`` says where its pages start."""

    kind: Kind
    source: Float32  # (n, DIM)
    offsets: Int64
    noise: Float32  # (_NOISE_ROWS, DIM), about unit length
    seed: int = 0

    def page(self, i: int) -> Float32:
        """Return page ``i``: (N_VECTORS, DIM) float32, unit rows."""
        rng = np.random.default_rng((self.seed, i, 0))
        content = i // COPIES if self.kind == "near-tie" else i
        rows = self._rows(np.random.default_rng((self.seed, content, 1)))
        blur = np.float32(rng.uniform(*_BLUR[self.kind]))
        vectors = self.source[rows] + blur * self.noise[rng.integers(len(self.noise), size=N_VECTORS)]
        vectors /= np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
        return vectors

    def pages(self, n_pages: int, start: int = 0) -> Iterator[Float32]:
        """Yield pages ``start`` to ``n_pages``, one at a time."""
        return map(self.page, range(start, n_pages))

    def _rows(self, rng: np.random.Generator) -> Int64:
        """Return N_VECTORS rows of the source: runs of real pages drawn at random."""
        n_runs = N_VECTORS // _RUN[0] + 1
        pages = rng.integers(len(self.offsets) - 1, size=n_runs)
        lengths = rng.integers(*_RUN, size=n_runs)
        first, last = self.offsets[pages], self.offsets[pages + 1]
        starts = rng.integers(first, last)
        runs = [np.arange(s, min(s + n, e)) for s, n, e in zip(starts, lengths, last, strict=True)]
        return np.resize(np.concatenate(runs), N_VECTORS)


def prepare(folder: Path, pages: Float32, offsets: Int64, queries: Float32, n_queries: int) -> None:
    """Write the source of all corpora into ``folder``, and their queries.

    A query is the vectors of real questions one after the other, cut at ``N_TOKENS``: few
    questions have so many of their own.

    Args:
        folder: Where ``corpus`` and ``load_queries`` look.
        pages: (n, D) float32 unit rows of real pages, D at least ``DIM``.
        offsets: Where each page starts in them.
        queries: (m, D) float32 unit rows of real questions.
        n_queries: How many queries to make, of N_TOKENS vectors each.
    """
    from colret.projection import fit, project

    folder.mkdir(parents=True, exist_ok=True)
    matrix = fit(np.asarray(pages[:: len(pages) // _SAMPLE + 1]), DIM)
    projected = np.concatenate(
        [project(np.asarray(pages[i : i + 50_000]), matrix) for i in range(0, len(pages), 50_000)]
    )
    np.save(folder / "source.npy", projected)
    np.save(folder / "source_offsets.npy", offsets)
    asked = np.resize(project(np.asarray(queries), matrix), (n_queries * N_TOKENS, DIM))
    np.save(folder / "bench_queries.npy", asked.reshape(n_queries, N_TOKENS, DIM))


def corpus(folder: Path, kind: Kind, seed: int = 0) -> Corpus:
    """Return the corpus whose source ``prepare`` wrote."""
    source = np.load(folder / "source.npy", mmap_mode="r")
    noise = np.random.default_rng(seed).standard_normal((_NOISE_ROWS, DIM), np.float32) / np.float32(np.sqrt(DIM))
    return Corpus(kind, source, np.load(folder / "source_offsets.npy"), noise, seed)


def load_queries(folder: Path) -> Float32:
    """Return the queries that ``prepare`` wrote: (Q, N_TOKENS, DIM) float32, unit rows."""
    return np.asarray(np.load(folder / "bench_queries.npy"))
