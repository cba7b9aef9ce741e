"""How sure a figure is: bootstrap intervals, the randomisation test, Holm's correction.

Queries about one document rise and fall together, so intervals resample whole documents
where there are enough of them. Every function takes its randomness as a generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colret_eval.measures import Float64

MIN_CLUSTERS = 10
"""Fewest documents that are resampled whole; with fewer, their spread cannot be told."""

EXACT_FLIPS = 16
"""Most non-zero differences whose 2^n sign patterns are all tried."""

_BLOCK = 1 << 21  # resampled counts held at once: bounds memory whatever the number of queries


class Interval(NamedTuple):
    """A mean over queries and the interval around it."""

    mean: float
    low: float
    high: float
    unit: Literal["documents", "queries"]  # what was resampled
    n_units: int


def bootstrap_interval(
    values: Float64,
    sources: Sequence[str],
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    n_resamples: int = 10_000,
) -> Interval:
    """Return the bootstrap interval of the mean over queries, clustered by source document.

    Documents are drawn with replacement, each bringing its queries: resampling queries within
    a drawn document too would count their spread twice (Davison and Hinkley, "Bootstrap Methods
    and their Application", 1997, section 3.8). With fewer than ``MIN_CLUSTERS`` documents, single
    queries are drawn, as ``unit`` says: it then speaks of more queries on these documents only.

    The percentiles are Hesterberg's expanded ones ("What Teachers Should Know About the
    Bootstrap", The American Statistician 2015), since plain ones are too narrow for small n.
    Equal values, or a single one, have no spread: the interval is that value, whatever it hides.

    Args:
        values: (Q,) a measure's value per query.
        sources: Source document of each query, length Q.
        rng: Randomness.
        level: Share of such intervals that shall hold the true mean.
        n_resamples: Number of bootstrap resamples.

    Raises:
        ValueError: If there are no values, or not one source per value.
    """
    [interval] = bootstrap_intervals(values[:, None], sources, rng, level=level, n_resamples=n_resamples)
    return interval


def bootstrap_intervals(
    values: Float64,
    sources: Sequence[str],
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    n_resamples: int = 10_000,
) -> list[Interval]:
    """Return ``bootstrap_interval`` of each column of (Q, M) values, all from the same resamples: drawn once."""
    if len(values) == 0 or len(values) != len(sources):
        raise ValueError(f"{len(values)} values need as many sources, not {len(sources)}, and at least one")
    totals, clustered = _unit_sums(np.column_stack([values, np.ones(len(values))]), sources)
    means = _resampled_means(totals, rng, n_resamples)
    tail = _expanded_tail(len(totals), (1 - level) / 2)
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    unit: Literal["documents", "queries"] = "documents" if clustered else "queries"
    columns = zip(values.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True)
    return [Interval(*column, unit, len(totals)) for column in columns]


def paired_interval(
    first: Float64,
    second: Float64,
    sources: Sequence[str],
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    n_resamples: int = 10_000,
) -> Interval:
    """Return the interval of the mean of ``first - second``, two systems on the same queries.

    See ``bootstrap_interval``; both arrays are (Q,).

    Raises:
        ValueError: If the arrays differ in length, or as ``bootstrap_interval``.
    """
    differences = _differences(first, second)
    return bootstrap_interval(differences, sources, rng, level=level, n_resamples=n_resamples)


def randomisation_test(
    first: Float64, second: Float64, sources: Sequence[str], rng: np.random.Generator, *, n_flips: int = 10_000
) -> float:
    """Return the two-sided p-value of the paired difference of means under random sign flips.

    Under the null either system may have produced either value of a query, so each
    difference is as likely with the other sign (Fisher's randomisation test; for retrieval
    see Smucker, Allan and Carterette, CIKM 2007). Differences of one document's queries rise and
    fall together, so their sum is flipped, wherever ``bootstrap_interval`` draws documents whole:
    single flips would find a difference where there is none several times too often. Up to ``EXACT_FLIPS`` non-zero
    differences, all patterns are tried; beyond, ``n_flips`` random ones, the observed
    pattern counted among them so that p is never 0 (Phipson and Smyth 2010).

    Args:
        first: (Q,) values of one system.
        second: (Q,) values of the other.
        sources: Source document of each query, length Q.
        rng: Source of randomness, unused where all patterns are tried.
        n_flips: Number of random sign patterns.

    Raises:
        ValueError: If the arrays and sources differ in length.
    """
    differences = _differences(first, second)
    if len(differences) != len(sources):
        raise ValueError(f"{len(differences)} values need as many sources, not {len(sources)}")
    differences = _unit_sums(differences[:, None], sources)[0][:, 0]
    differences = differences[differences != 0]  # their sign changes nothing
    n = len(differences)
    # Sums of the same numbers in another order may differ in the last digits.
    least = abs(differences.sum()) - 1e-9 * np.abs(differences).sum()
    if n <= EXACT_FLIPS:
        patterns = (np.arange(2**n)[:, None] >> np.arange(n)) & 1  # (2^n, n)
        return float(np.mean(_flipped_sums(differences, patterns) >= least))
    step = max(1, _BLOCK // n)
    sizes = [min(step, n_flips - done) for done in range(0, n_flips, step)]
    blocks = (rng.integers(0, 2, (size, n)) for size in sizes)
    reached = sum(int(np.count_nonzero(_flipped_sums(differences, block) >= least)) for block in blocks)
    return (1 + reached) / (1 + n_flips)


def holm(p_values: Sequence[float]) -> Float64:
    """Return p-values adjusted for testing all of them, (M,) in the given order.

    Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (Scandinavian Journal of
    Statistics 1979): the i-th smallest is multiplied by M - i + 1, and none falls below one before it.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def midranks(values: Float64) -> Float64:
    """Return the rank from 1 of each value in ascending order, equal values sharing the mean of theirs: (n,)."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]


def spearman(first: Float64, second: Float64) -> float:
    """Return Spearman's rank correlation of two (n,) arrays, with midranks for ties; NaN where either is constant.

    Raises:
        ValueError: If the arrays differ in length.
    """
    if first.shape != second.shape:
        raise ValueError(f"paired values need one shape, not {first.shape} and {second.shape}")
    centred = [ranks - ranks.mean() for ranks in (midranks(first), midranks(second))]
    spread = float(np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum()))
    return float(centred[0] @ centred[1]) / spread if spread else float("nan")


def auroc(positive: Float64, negative: Float64) -> float:
    """Return the probability that a positive scores above a negative, ties counting one half.

    The area under the ROC curve as Mann and Whitney's statistic (Hanley and McNeil, "The meaning
    and use of the area under a receiver operating characteristic curve", Radiology 1982).

    Raises:
        ValueError: If either is empty.
    """
    if not len(positive) or not len(negative):
        raise ValueError("an AUROC needs positives and negatives")
    n = len(positive)
    ranks = midranks(np.concatenate([positive, negative]))[:n]
    return float(ranks.sum() - n * (n + 1) / 2) / (n * len(negative))


def _differences(first: Float64, second: Float64) -> Float64:
    if first.shape != second.shape:
        raise ValueError(f"paired values need one shape, not {first.shape} and {second.shape}")
    return first - second


def _unit_sums(values: Float64, sources: Sequence[str]) -> tuple[Float64, bool]:
    """Return the sums of (Q, M) values over what varies as one, (G, M), and whether that is documents, or queries."""
    names, labels = np.unique(np.asarray(sources), return_inverse=True)
    if len(names) < MIN_CLUSTERS:
        return values, False
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, labels, values)
    return sums, True


def _flipped_sums(differences: Float64, patterns: NDArray[np.int64]) -> Float64:
    """Return |sum| of the differences under each (n,) row of 0/1 sign patterns."""
    sums: Float64 = np.abs((2 * patterns - 1) @ differences)
    return sums


def _resampled_means(totals: Float64, rng: np.random.Generator, n_resamples: int) -> Float64:
    """Return each resample's means over queries, (n_resamples, M); ``totals`` is (G, M + 1), sums and then a count."""
    n = len(totals)
    step = max(1, _BLOCK // n)
    means = []
    for done in range(0, n_resamples, step):
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=min(step, n_resamples - done))
        sums = drawn @ totals
        means.append(sums[:, :-1] / sums[:, -1:])
    return np.concatenate(means)


def _expanded_tail(n: int, tail: float) -> float:
    """Return the tail to cut so that a percentile interval of n units reaches as far as Student's t."""
    if n < 2:
        return 0.0
    t = _t_quantile(1 - tail, n - 1)
    return NormalDist().cdf(-t * (n / (n - 1)) ** 0.5)


def _t_quantile(p: float, freedom: int) -> float:
    """Return Student's t quantile by Abramowitz and Stegun 26.7.5; within 0.1 % at p = .975 from 5 on."""
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, start=1))
