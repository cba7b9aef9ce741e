"""When to say that no page answers: signals of a query's scores, how well they tell, and a floor that can be promised.

A signal is a number per query, higher where an answer is likelier. Queries without an answer are
given, or made from answered ones by taking their relevant pages away; made ones are the easier to
mistake, since the rest of the document stays, so the two kinds are reported apart.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from colret.conformal import Promise, conformal_floor
from colret.logistic import Logistic, cross_fitted_probability, fit_logistic
from colret_eval.matrices import Bool, Float32
from colret_eval.measures import Float64, Int64
from colret_eval.statistics import auroc

SIGNALS = ("score", "score per token", "margin to rank 2", "z-score")
"""The columns of ``signals``."""

COMBINATION = "combination"
"""Name of the logistic regression on all signals."""


class OperatingPoint(NamedTuple):
    """What a floor does on the queries it was read from."""

    floor: float  # queries whose signal is at least this are answered
    answered: float  # share of the queries with an answer
    false_answers: float  # share of the queries without


class ChosenFloor(NamedTuple):
    """The signal that tells best, its floor, and what that lets through on queries that chose neither."""

    signal: str  # of SIGNALS, or COMBINATION
    combination: Logistic | None
    floor: Promise
    false_answers: float  # share of the calibrating queries without an answer that is answered all the same
    n_without: int  # number of these


def without_answers(scores: Float32, relevant: Bool, groups: Int64) -> Float32:
    """Return scores in which each query has lost its relevant pages and their near-duplicates, at ``-inf``.

    Args:
        scores: (Q, N) float32.
        relevant: (Q, N) bool.
        groups: (N,) int64 groups of near-duplicate pages, as in ``leakage``, or of documents: pages
            beside an answer often tell as much, so that taking whole documents makes clearer cases.

    Returns:
        (Q, N) float32.
    """
    _, labels = np.unique(groups, return_inverse=True)
    taken = np.zeros((len(scores), labels.max(initial=-1) + 1), np.bool_)
    rows, columns = np.nonzero(relevant)
    taken[rows, labels[columns]] = True
    return np.where(taken[:, labels], np.float32(-np.inf), scores)


def background_pages(n_pages: int, rng: np.random.Generator, n: int = 200) -> Int64:
    """Return columns of n random pages, or all: what scores of pages without an answer look like."""
    return np.sort(rng.permutation(n_pages)[:n]).astype(np.int64)


def signals(scores: Float32, n_tokens: Int64, background: Int64) -> Float64:
    """Return the signals of each query, (Q, 4) float64 in the order of ``SIGNALS``.

    Score and score per token are those of the best page; the margin is its lead over the second,
    per token; the z-score is its distance from the mean of the background, of which it is no part,
    in standard deviations.

    Args:
        scores: (Q, N) float32 MaxSim; pages at ``-inf`` are not there.
        n_tokens: (Q,) tokens of each query.
        background: (B,) columns.

    Raises:
        ValueError: If a query has fewer than two pages, or fewer than two in the background beside its best.
    """
    present = np.isfinite(scores)
    best = scores.argmax(axis=1)
    rows = np.arange(len(scores))
    behind = present[:, background] & (background != best[:, None])
    if (present.sum(axis=1) < 2).any() or (behind.sum(axis=1) < 2).any():
        raise ValueError("a query needs two pages, and two in the background beside its best")
    first = scores[rows, best].astype(np.float64)
    others = scores.copy()
    others[rows, best] = -np.inf
    values = np.ma.masked_array(scores[:, background].astype(np.float64), ~behind)
    mean, spread = values.mean(axis=1).filled(0.0), values.std(axis=1, ddof=1).filled(0.0)
    away = np.divide(first - mean, spread, out=np.zeros_like(first), where=spread > 0)
    return np.stack([first, first / n_tokens, (first - others.max(axis=1)) / n_tokens, away], axis=1)


def false_answers(with_answer: Float64, without: Float64, answered: float = 0.95) -> OperatingPoint:
    """Return the highest floor that answers at least a share of the queries with an answer, and what it lets through.

    Args:
        with_answer: (n,) signal of queries that have an answer.
        without: (m,) signal of queries that have none.
        answered: The share.

    Raises:
        ValueError: If either is empty.
    """
    if not len(with_answer) or not len(without):
        raise ValueError("false answers need queries with and without an answer")
    n = len(with_answer)
    least = np.sort(with_answer)[n - max(ceil(round(answered * n, 9)), 1)]
    return OperatingPoint(float(least), float(np.mean(with_answer >= least)), float(np.mean(without >= least)))


def choose_floor(
    features: Float64, has_answer: Bool, folds: Int64, calibrating: Bool, answered: float = 0.95
) -> ChosenFloor | None:
    """Return the floor of the signal with the highest AUROC, chosen and fitted on some queries, calibrated on others.

    Args:
        features: (n, F) float64 ``signals``.
        has_answer: (n,) bool.
        folds: (n,) int64 from ``splits.grouped_folds``; those not calibrating cross-fit the combination.
        calibrating: (n,) bool, whole folds: the queries behind the guarantee.
        answered: As for ``conformal_floor``.

    Returns:
        None where the calibrating queries with an answer are too few to promise anything.

    Raises:
        ValueError: If the queries not calibrating are of one fold or of one kind, or none
            calibrating is without an answer.
    """
    if not (calibrating & ~has_answer).any() or len(np.unique(folds[~calibrating])) < 2:
        raise ValueError("a floor needs two folds to fit on, and queries without an answer to calibrate beside")
    fitted, kind = features[~calibrating], has_answer[~calibrating]
    combined = cross_fitted_probability(fitted, kind, folds[~calibrating])
    candidates = dict(zip((*SIGNALS, COMBINATION), np.column_stack([fitted, combined]).T, strict=True))
    signal = max(candidates, key=lambda name: auroc(candidates[name][kind], candidates[name][~kind]))
    combination = fit_logistic(fitted, kind) if signal == COMBINATION else None
    rest = features[calibrating]
    values = combination.probability(rest) if combination else rest[:, SIGNALS.index(signal)]
    found = conformal_floor(values[has_answer[calibrating]], answered)
    if found is None:
        return None
    without = values[~has_answer[calibrating]]
    return ChosenFloor(signal, combination, found, float(np.mean(without >= found.floor)), len(without))
