"""Logistic regression against a general optimiser, at its limits, and across folds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from colret.logistic import cross_fitted_probability, fit_logistic
from colret_eval.measures import Float64


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), ridge=st.sampled_from([0.1, 1.0, 10.0]))
def test_logistic_regression_agrees_with_a_general_optimiser(seed: int, ridge: float) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(2.0, 3.0, (30, 2))
    has_answer = features[:, 0] + rng.normal(0, 1 + seed % 4, 30) > 2.0
    has_answer[:2] = [True, False]
    z = (features - features.mean(axis=0)) / features.std(axis=0)
    sign = np.where(has_answer, 1.0, -1.0)

    def loss(beta: Float64) -> float:
        likelihood = np.logaddexp(0, -sign * (z @ beta[:2] + beta[2])).sum()
        return float(likelihood + ridge / 2 * (beta[:2] ** 2).sum())

    fitted = fit_logistic(features, has_answer, ridge=ridge)
    expected = minimize(loss, np.zeros(3), tol=1e-12).x
    assert [*fitted.weights, fitted.bias] == pytest.approx(expected, abs=1e-3)
    assert fitted.probability(features) == pytest.approx(1 / (1 + np.exp(-z @ expected[:2] - expected[2])), abs=1e-3)


def test_separable_signals_have_finite_weights() -> None:
    features = np.array([[0.0, 7.0], [1.0, 7.0], [10.0, 7.0], [11.0, 7.0]])  # the second says nothing
    fitted = fit_logistic(features, np.array([False, False, True, True]))
    assert np.isfinite(fitted.weights).all()
    assert fitted.weights[1] == 0.0
    assert fitted.probability(features).round().tolist() == [0, 0, 1, 1]


def test_no_query_fits_its_own_fold() -> None:
    rng = np.random.default_rng(0)
    features, has_answer, folds = rng.normal(size=(30, 2)), rng.random(30) < 0.5, np.arange(30) % 3
    found = cross_fitted_probability(features, has_answer, folds)
    for fold in range(3):
        fitted = fit_logistic(features[folds != fold], has_answer[folds != fold])
        assert (found[folds == fold] == fitted.probability(features[folds == fold])).all()


def test_errors() -> None:
    with pytest.raises(ValueError, match="with and without"):
        fit_logistic(np.ones((3, 1)), np.ones(3, np.bool_))
