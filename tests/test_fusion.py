"""Fusion: naive loops, worked ranks, errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret_eval.fusion import fuse_ranks, fuse_standardised, standardised

score_rows = st.lists(st.lists(st.floats(-50, 50, width=32), min_size=4, max_size=4), min_size=1, max_size=3)


@given(rows=score_rows)
def test_standardised_rows_have_mean_0_and_deviation_1(rows: list[list[float]]) -> None:
    scores = np.array(rows, np.float32)
    found = standardised(scores)
    assert found.dtype == np.float32
    for row, given_row in zip(found, scores.astype(np.float64), strict=True):
        if given_row.std() > 1e-3:
            assert row == pytest.approx((given_row - given_row.mean()) / given_row.std(), abs=1e-3)


def test_equal_scores_say_nothing() -> None:
    assert standardised(np.full((2, 5), 0.1, np.float32)).tolist() == [[0.0] * 5] * 2


def test_absent_pages_stay_absent_and_do_not_count() -> None:
    found = standardised(np.array([[1.0, 3.0, -np.inf], [-np.inf, -np.inf, -np.inf]], np.float32))
    assert found.tolist() == [[-1.0, 1.0, -np.inf], [-np.inf] * 3]


def test_fused_scores_do_not_depend_on_scale() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3, 6)).astype(np.float32)
    fused = fuse_standardised(first, second, 0.5)
    assert fused == pytest.approx(standardised(first) + 0.5 * standardised(second))
    assert fuse_standardised(7 * first + 3, 0.1 * second - 1, 0.5) == pytest.approx(fused, abs=1e-4)
    assert (fuse_standardised(first, second, 0.0) == standardised(first)).all()


def test_a_second_opinion_breaks_a_near_tie() -> None:
    first = np.array([[0.71, 0.70, 0.1]], np.float32)
    second = np.array([[0.0, 9.0, 0.0]], np.float32)
    assert fuse_standardised(first, second).argmax() == 1


def test_reciprocal_ranks_worked_example() -> None:
    first = {"q": {"a": 9.0, "b": 8.0, "c": 7.0}, "p": {"a": 1.0}}
    second = {"q": {"b": 0.2, "d": 0.1}}
    fused = fuse_ranks([first, second])
    assert fused["q"] == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 63, "d": 1 / 62})
    assert fused["p"] == pytest.approx({"a": 1 / 61})
    assert fuse_ranks([first, second], constant=0, k=1)["q"] == pytest.approx({"a": 1.0, "b": 1.0})


def test_errors() -> None:
    with pytest.raises(ValueError, match="one shape"):
        fuse_standardised(np.ones((1, 2), np.float32), np.ones((2, 1), np.float32))
    with pytest.raises(ValueError, match="at least 0"):
        fuse_standardised(np.ones((1, 2), np.float32), np.ones((1, 2), np.float32), -1.0)
