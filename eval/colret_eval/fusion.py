"""Two rankings made one: late interaction and BM25, by standardised scores or by ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colret_eval.matrices import Float32
from colret_eval.measures import Run, ranked

TEXT_WEIGHT = 0.5
"""Weight of BM25's standardised score beside late interaction's; tuned to no set."""

RECIPROCAL_CONSTANT = 60
"""What Cormack, Clarke and Büttcher add to each rank."""


def standardised(scores: Float32) -> Float32:
    """Return each query's scores with mean 0 and standard deviation 1 over the pages.

    (Q, N) float32 as given; a row whose scores are all equal says nothing and becomes 0, and
    ``-inf`` stays and is not counted.
    """
    finite = np.isfinite(scores)
    count = np.maximum(finite.sum(axis=1, keepdims=True), 1)
    known = np.where(finite, scores, 0.0).astype(np.float64)
    mean = known.sum(axis=1, keepdims=True) / count
    centred = np.where(finite, known - mean, 0.0)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
    # Rounding gives equal scores a spread that is not quite 0.
    level = 1e-6 * np.abs(known).max(axis=1, keepdims=True, initial=0.0)
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > level)
    return np.where(finite, scaled, scores).astype(np.float32)


def fuse_standardised(first: Float32, second: Float32, weight: float = TEXT_WEIGHT) -> Float32:
    """Return ``standardised(first) + weight * standardised(second)``, (Q, N) float32.

    Scores of different systems have different scales; standardised per query they can be added
    (the z-score fusion of Renda and Straccia, "Web Metasearch: Rank vs. Score Based Rank
    Aggregation Methods", SAC 2003).

    Args:
        first: (Q, N) scores of every page, such as MaxSim.
        second: (Q, N) scores of the same pages, such as BM25 with 0 for pages that share no word.
        weight: Of the second, at least 0.

    Raises:
        ValueError: If the shapes differ or the weight is negative.
    """
    if first.shape != second.shape:
        raise ValueError(f"scores of the same pages have one shape, not {first.shape} and {second.shape}")
    if not weight >= 0:
        raise ValueError(f"a weight is at least 0, not {weight}")
    return standardised(first) + np.float32(weight) * standardised(second)


def fuse_ranks(runs: Sequence[Run], *, constant: int = RECIPROCAL_CONSTANT, k: int | None = None) -> Run:
    """Return the reciprocal rank fusion of runs: a page's score is the sum of 1 / (constant + rank).

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual
    Rank Learning Methods" (SIGIR 2009). A run that lacks a page adds nothing to it.

    Args:
        runs: What is fused; ranks are those of ``measures.ranked``.
        constant: The larger, the less a first place counts.
        k: How many pages of each run are looked at; all by default.
    """
    fused: Run = {}
    for run in runs:
        for query_id, scores in run.items():
            sums = fused.setdefault(query_id, {})
            for rank, key in enumerate(ranked(scores)[:k], start=1):
                sums[key] = sums.get(key, 0.0) + 1.0 / (constant + rank)
    return fused
