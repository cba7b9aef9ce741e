"""The exact ranking in float32, streamed: what every engine's answer is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colret.types import Float32, Int64
from colret_eval.bench.corpora import Corpus

DEPTH = 10
_BLOCK = 8  # pages a matrix product


class Reference(NamedTuple):
    """The best pages of one corpus for each query."""

    ids: Int64  # (Q, DEPTH), best first
    scores: Float32  # (Q, DEPTH + 1): the next one too, which tells how near a tie is

    def gap(self) -> float:
        """Return how far rank 10 is above rank 11 in MaxSim, in the median over queries."""
        return float(np.median(self.scores[:, -2] - self.scores[:, -1])) if self.scores.shape[1] > DEPTH else 0.0

    def spread(self) -> float:
        """Return how far rank 1 is above rank 10 in MaxSim, in the median over queries."""
        return float(np.median(self.scores[:, 0] - self.scores[:, self.ids.shape[1] - 1]))


def references(corpus: Corpus, queries: Float32, sizes: Sequence[int]) -> dict[int, Reference]:
    """Return the exact top of the corpus' first n pages for each n of ``sizes``, in one pass.

    Args:
        corpus: Pages, never more than a few in memory.
        queries: (Q, T, D) float32.
        sizes: Numbers of pages, each at least 1.
    """
    n_queries, n_tokens, dim = queries.shape
    tokens = queries.reshape(-1, dim).T  # (D, Q * T)
    scores = np.empty((n_queries, max(sizes)), np.float32)
    for start in range(0, max(sizes), _BLOCK):
        block = np.stack(list(corpus.pages(min(start + _BLOCK, max(sizes)), start)))  # (B, P, D)
        best = (block.reshape(-1, dim) @ tokens).reshape(*block.shape[:2], -1).max(axis=1)  # (B, Q * T)
        scores[:, start : start + len(block)] = best.reshape(len(block), n_queries, n_tokens).sum(axis=2).T
    return {size: top(scores[:, :size]) for size in sizes}


def top(scores: Float32) -> Reference:
    """Return the best pages of (Q, N) scores; the lower page wins a tie."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, : DEPTH + 1]
    return Reference(order[:, :DEPTH], np.take_along_axis(scores, order, axis=1))


def kept_at(exact: Int64, found: Sequence[Sequence[int]], cutoffs: Sequence[int] = (1, 5, 10)) -> dict[int, float]:
    """Return, for each cutoff k, the mean share of the exact top-k among the first k found.

    Args:
        exact: (Q, DEPTH) page numbers, best first; only its first ``len(found)`` queries count.
        found: What an engine answered, best first.
        cutoffs: Values of k.
    """
    asked = [exact_one.tolist() for exact_one in exact[: len(found)]]
    return {
        k: float(np.mean([len({*e[:k]} & {*f[:k]}) / len(e[:k]) for e, f in zip(asked, found, strict=True)]))
        for k in cutoffs
    }
