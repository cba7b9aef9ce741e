"""Hubs: pages that turn up for queries they do not answer, and corrections of the scores against them.

Scores are (Q, N) float32, finite, and per query token where they are MaxSim: else long queries,
whose sums are larger, would decide alone what a correction learns of a page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from colret_eval.matrices import Bool, Float32, first_columns
from colret_eval.measures import Float64, Int64
from colret_eval.statistics import spearman

K = 10
"""Neighbours that make an occurrence, as in N_10."""

BETAS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
"""Inverse temperatures that are tried for the inverted softmax."""


class Hubness(NamedTuple):
    """How unevenly the first k places are spread over the pages, beside what chance would give."""

    skewness: float
    chance_skewness: float
    orphans: float  # share of pages among no query's first k
    chance_orphans: float
    expected: float  # mean occurrences of a page, Q k / N


class Fit(NamedTuple):
    """Queries that a correction is fitted on; none of them is tested with it."""

    scores: Float32  # (F, N)
    relevant: Bool  # (F, N)


Correction = Callable[[Fit, Float32], Float32]
"""From queries to fit on and scores (Q, N) of others to corrected scores (Q, N)."""


def occurrences(scores: Float32, k: int = K, *, excluding: Bool | None = None) -> Int64:
    """Return N_k of each page: for how many queries it is among the first k.

    Radovanović, Nanopoulos and Ivanović, "Hubs in Space" (JMLR 2010).

    Args:
        scores: (Q, N) float32.
        k: How far down a ranking counts.
        excluding: (Q, N) bool; places that are not counted, such as those of relevant pages, which leaves
            the paper's "bad" occurrences.

    Returns:
        (N,) int64.
    """
    top = first_columns(scores, k)
    counted = top if excluding is None else top[~np.take_along_axis(excluding, top, axis=1)]
    return np.bincount(counted.ravel(), minlength=scores.shape[1]).astype(np.int64)


def hubness(counts: Int64, n_queries: int, k: int = K) -> Hubness:
    """Return how uneven the occurrences (N,) of pages among the first k of Q queries are.

    The skewness is the third standardised moment of N_k. By chance, N_k is binomial with Q draws
    of probability k/N: skewness (1 - 2p) / sqrt(Q p (1 - p)), and (1 - p)^Q never drawn.

    Raises:
        ValueError: If there are no pages or queries.
    """
    if not len(counts) or n_queries < 1:
        raise ValueError("hubness needs pages and queries")
    p = min(k / len(counts), 1.0)
    centred = counts - counts.mean()
    spread, chance_spread = centred.std(), np.sqrt(n_queries * p * (1 - p))
    return Hubness(
        skewness=float((centred**3).mean() / spread**3) if spread else 0.0,
        chance_skewness=float((1 - 2 * p) / chance_spread) if chance_spread else 0.0,
        orphans=float((counts == 0).mean()),
        chance_orphans=(1 - p) ** n_queries,
        expected=n_queries * p,
    )


def largest_hubs(counts: Int64, n: int = 10) -> Int64:
    """Return the columns of the n pages with the most occurrences, most first, without pages that have none."""
    order = np.argsort(-counts, kind="stable")[:n]
    return order[counts[order] > 0]


def length_correlation(scores: Float32, n_vectors: Int64) -> float:
    """Return Spearman's correlation of a page's mean score over queries with its number of vectors.

    MaxSim takes a maximum over a page's vectors, so that more of them score higher by chance alone.
    ``n_vectors`` is (N,); NaN where all are equal.
    """
    return spearman(scores.mean(axis=0, dtype=np.float64), n_vectors.astype(np.float64))


def csls(fit: Fit, scores: Float32, *, k: int = K) -> Float32:
    """Return cross-domain similarity local scaling: 2 s(q, p) - r(q) - r(p).

    Conneau et al., "Word Translation Without Parallel Data" (ICLR 2018): r(p) is the
    page's mean score with the k nearest of the fitting queries, r(q) the query's with its k nearest pages.
    """
    pages = _mean_of_highest(fit.scores.T, k)
    queries = _mean_of_highest(scores, k)
    return (2 * scores - queries[:, None] - pages).astype(np.float32)


def inverted_softmax(fit: Fit, scores: Float32, *, beta: float | None = None) -> Float32:
    """Return the logarithm of the inverted softmax: beta s(q, p) - log sum over fitting queries of exp(beta s(q', p)).

    Smith et al., "Offline Bilingual Word Vectors, Orthogonal Transformations and the Inverted
    Softmax" (ICLR 2017): a page that is near to many queries is worth less to each.
    As there, beta maximises the likelihood of the fitting queries' labels, among ``BETAS``, where it is not given.
    """
    beta = fitted_beta(fit) if beta is None else beta
    return (beta * scores - _log_sum(beta * fit.scores)).astype(np.float32)


def fitted_beta(fit: Fit) -> float:
    """Return the inverse temperature under which the fitting queries' relevant pages are the most likely.

    The likelihood is the mean logarithm, over labels, of the inverted softmax made to sum to 1 over the pages.

    Raises:
        ValueError: If no fitting query has a relevant page.
    """
    if not fit.relevant.any():
        raise ValueError("no label to fit beta on")

    def likelihood(beta: float) -> float:
        inverted = (beta * fit.scores - _log_sum(beta * fit.scores)).astype(np.float32)
        return float((inverted - _log_sum(inverted.T)[:, None])[fit.relevant].mean())

    return max(BETAS, key=likelihood)


def page_z_score(fit: Fit, scores: Float32) -> Float32:
    """Return scores standardised per page by the mean and standard deviation over the fitting queries.

    A page whose scores do not vary gets the median deviation of the others; nothing is known of its own.

    Raises:
        ValueError: If there are fewer than two fitting queries.
    """
    if len(fit.scores) < 2:
        raise ValueError("a standard deviation needs at least two fitting queries")
    mean = fit.scores.mean(axis=0, dtype=np.float64)
    spread = fit.scores.std(axis=0, ddof=1, dtype=np.float64)
    typical = float(np.median(spread[spread > 0])) if (spread > 0).any() else 1.0
    away = (scores - mean) / np.where(spread > 0, spread, typical)
    return np.asarray(away, np.float32)


CORRECTIONS: dict[str, Correction] = {
    "CSLS": csls,
    "inverted softmax": inverted_softmax,
    "per-page z-score": page_z_score,
}


def cross_fitted(scores: Float32, relevant: Bool, folds: Int64, correction: Correction) -> Float32:
    """Return each query's scores corrected by what the queries of the other folds teach.

    Args:
        scores: (Q, N) float32.
        relevant: (Q, N) bool.
        folds: (Q,) int64 from ``splits.grouped_folds``, so that no query teaches about its own document.
        correction: What is fitted and applied.

    Returns:
        (Q, N) float32; to be compared within a row only, for each fold has its own fit.

    Raises:
        ValueError: If there is only one fold.
    """
    if len(np.unique(folds)) < 2:
        raise ValueError("cross-fitting needs at least two folds")
    corrected = np.empty_like(scores)
    for fold in np.unique(folds):
        tested = folds == fold
        corrected[tested] = correction(Fit(scores[~tested], relevant[~tested]), scores[tested])
    return corrected


def _mean_of_highest(scores: Float32, k: int) -> Float64:
    """Return the mean of each row's k highest scores, of all where there are fewer."""
    n = scores.shape[1]
    k = min(k, n)
    mean: Float64 = np.partition(scores, n - k, axis=1)[:, n - k :].mean(axis=1, dtype=np.float64)
    return mean


def _log_sum(scores: Float32) -> Float64:
    """Return the logarithm of each column's sum of exponentials."""
    highest = scores.max(axis=0)
    total: Float64 = highest + np.log(np.exp(scores - highest).sum(axis=0, dtype=np.float64))
    return total
