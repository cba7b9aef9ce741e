"""Projections: orthonormal columns, what they keep, what the rotation evens out, no lost vector."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret.projection import fit, project
from colret.types import Float32

SEEDS = st.integers(0, 2**32 - 1)
BALANCE = [False, True]


def unit_rows(n: int, dim: int, seed: int, *, spread: float = 1.0) -> Float32:
    """Random directions; with ``spread`` below 1, each dimension varies less than the one before."""
    rows = np.random.default_rng(seed).normal(size=(n, dim)) * spread ** np.arange(dim)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def kept_energy(sample: Float32, matrix: Float32) -> float:
    return float(((sample.astype(np.float64) @ matrix) ** 2).sum())


@given(n=st.integers(1, 20), dims=st.tuples(st.integers(1, 9), st.integers(1, 9)), balance=st.booleans(), seed=SEEDS)
def test_columns_are_orthonormal_however_few_vectors_there_are(
    n: int, dims: tuple[int, int], balance: bool, seed: int
) -> None:
    dim, full_dim = sorted(dims)
    matrix = fit(unit_rows(n, full_dim, seed), dim, balance=balance)
    assert matrix.shape == (full_dim, dim)
    assert matrix.dtype == np.float32
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(dim), atol=1e-5)


@given(dim=st.integers(1, 6), seed=SEEDS, balance=st.booleans())
def test_no_other_projection_keeps_more_of_the_sample(dim: int, seed: int, balance: bool) -> None:
    sample = unit_rows(40, 6, seed, spread=0.7)
    others = np.linalg.qr(np.random.default_rng(seed + 1).normal(size=(50, 6, dim)))[0]
    best_of_others = max(kept_energy(sample, other) for other in others)
    assert kept_energy(sample, fit(sample, dim, balance=balance)) >= best_of_others - 1e-4


def test_components_fall_by_variance_and_point_the_positive_way() -> None:
    sample = np.array([[0, -1, 0]] * 5 + [[0, 0, 1]] * 3 + [[-1, 0, 0]], np.float32)
    np.testing.assert_allclose(fit(sample, 3), [[0, 0, 1], [1, 0, 0], [0, 1, 0]], atol=1e-6)


def test_the_mean_is_not_taken_off() -> None:
    """All vectors alike: their direction is the first component, though nothing varies."""
    np.testing.assert_allclose(fit(np.full((4, 4), 0.5, np.float32), 1), np.full((4, 1), 0.5), atol=1e-6)


@pytest.mark.parametrize("balance", BALANCE)
def test_the_same_sample_gives_the_same_matrix(balance: bool) -> None:
    sample = unit_rows(30, 16, seed=1, spread=0.8)
    np.testing.assert_array_equal(fit(sample, 8, balance=balance), fit(sample.copy(), 8, balance=balance))


@given(seed=SEEDS, balance=st.booleans())
def test_with_all_dimensions_no_dot_product_changes(seed: int, balance: bool) -> None:
    vectors = unit_rows(12, 8, seed)
    turned = project(vectors, fit(vectors[:5], 8, balance=balance))
    np.testing.assert_allclose(turned @ turned.T, vectors @ vectors.T, atol=1e-5)


@given(dim=st.integers(2, 6), seed=SEEDS)
def test_balancing_changes_no_dot_product_of_the_kept_dimensions(dim: int, seed: int) -> None:
    vectors = unit_rows(30, 6, seed, spread=0.8)
    plain, balanced = (vectors @ fit(vectors, dim, balance=balance) for balance in BALANCE)
    np.testing.assert_allclose(plain @ plain.T, balanced @ balanced.T, atol=1e-5)


def test_balancing_spreads_the_variance() -> None:
    sample = unit_rows(500, 64, seed=3, spread=0.9)
    plain, balanced = (np.var(sample @ fit(sample, 64, balance=balance), axis=0) for balance in BALANCE)
    assert plain.max() / np.median(plain) > 20
    assert balanced.max() / np.median(balanced) < 5


@given(n=st.integers(0, 8), dims=st.tuples(st.integers(1, 9), st.integers(1, 9)), seed=SEEDS)
def test_projecting_equals_a_loop(n: int, dims: tuple[int, int], seed: int) -> None:
    dim, full_dim = sorted(dims)
    vectors, matrix = unit_rows(n, full_dim, seed), fit(unit_rows(9, full_dim, seed + 1), dim)
    projected = project(vectors, matrix)
    assert projected.shape == (n, dim)
    assert projected.dtype == np.float32
    for vector, found in zip(vectors.tolist(), projected, strict=True):
        wanted = [sum(v * m for v, m in zip(vector, column, strict=True)) for column in matrix.T.tolist()]
        length = sum(x * x for x in wanted) ** 0.5
        if length > 1e-3:  # below, single precision decides the direction
            np.testing.assert_allclose(found, [x / length for x in wanted], atol=1e-3)
        assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)


def test_a_vector_that_nothing_is_left_of_stands_on_the_first_axis() -> None:
    matrix = np.eye(3, 2, dtype=np.float32)
    projected = project(np.array([[0, 0, 1], [0, 0.6, 0.8]], np.float32), matrix)
    np.testing.assert_allclose(projected, [[1, 0], [0, 1]])


@pytest.mark.parametrize("dim", [0, 4, -1])
def test_dimensions_that_are_not_there_are_refused(dim: int) -> None:
    with pytest.raises(ValueError, match="cannot be projected"):
        fit(unit_rows(5, 3, seed=0), dim)


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one vector"):
        fit(np.empty((0, 3), np.float32), 2)
