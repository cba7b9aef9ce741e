"""Logistic regression on a few signals of a query: the probability that it has an answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colret.types import Int64

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Logistic:
    """Logistic regression on standardised signals: the probability that there is an answer."""

    mean: Float64  # (F,)
    scale: Float64  # (F,)
    weights: Float64  # (F,)
    bias: float

    def probability(self, features: Float64) -> Float64:
        """Return the probability of an answer for (n, F) signals: (n,)."""
        return _sigmoid((features - self.mean) / self.scale @ self.weights + self.bias)


def fit_logistic(features: Float64, has_answer: Bool, *, ridge: float = 1.0) -> Logistic:
    """Return the logistic regression that maximises likelihood less ``ridge / 2`` times the squared weights.

    Newton's method on standardised signals; the bias is not penalised.

    Args:
        features: (n, F) float64.
        has_answer: (n,) bool.
        ridge: Above 0, so that a perfect separation has finite weights.

    Raises:
        ValueError: If all queries have an answer, or none has.
    """
    if has_answer.all() or not has_answer.any():
        raise ValueError("a combination needs queries with and without an answer")
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    design = np.column_stack([(features - mean) / scale, np.ones(len(features))])
    penalty = np.diag([*[ridge] * features.shape[1], 0.0])
    beta = np.zeros(design.shape[1])
    for _ in range(50):
        probability = _sigmoid(design @ beta)
        gradient = design.T @ (has_answer - probability) - penalty @ beta
        curvature = (design.T * (probability * (1 - probability))) @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        beta += step
        if np.abs(step).max() < 1e-10:
            break
    return Logistic(mean, scale, beta[:-1], float(beta[-1]))


def cross_fitted_probability(features: Float64, has_answer: Bool, folds: Int64, *, ridge: float = 1.0) -> Float64:
    """Return each query's probability of an answer by a combination fitted on the other folds: (n,).

    Args:
        features: (n, F) float64 signals.
        has_answer: (n,) bool.
        folds: (n,) int64 from ``grouping.grouped_folds``; a query and the one made from it by taking
            its pages away belong to one fold.
        ridge: As for ``fit_logistic``.

    Raises:
        ValueError: As ``fit_logistic``.
    """
    probability = np.empty(len(features))
    for fold in np.unique(folds):
        tested = folds == fold
        fitted = fit_logistic(features[~tested], has_answer[~tested], ridge=ridge)
        probability[tested] = fitted.probability(features[tested])
    return probability


def _sigmoid(values: Float64) -> Float64:
    return 1 / (1 + np.exp(-np.clip(values, -500, 500)))
