"""Conformal floors: what they promise holds over many draws."""

from __future__ import annotations

import numpy as np
import pytest

from colret.conformal import conformal_floor, queries_needed


@pytest.mark.parametrize(("n", "answered"), [(19, 0.95), (40, 0.95), (100, 0.9)])
def test_conformal_floors_answer_as_often_as_promised(n: int, answered: float) -> None:
    """Over 4,000 calibrations, by the probability integral transform: uniform signals stand for any."""
    rng = np.random.default_rng(n)
    floors = [conformal_floor(rng.random(n), answered) for _ in range(4000)]
    coverage = np.array([1 - floor.floor for floor in floors if floor is not None])
    guarantee, probable = next((floor.guarantee, floor.probable) for floor in floors if floor is not None)
    assert answered <= guarantee < answered + 1 / (n + 1)
    assert coverage.mean() == pytest.approx(guarantee, abs=0.004)
    assert np.mean(coverage >= probable) == pytest.approx(0.95, abs=0.015)


def test_tied_signals_are_answered_no_less() -> None:
    floor = conformal_floor(np.repeat([0.0, 1.0], [1, 39]))
    assert floor is not None
    assert (floor.floor, floor.n_queries) == (1.0, 40)


def test_too_few_queries_promise_nothing() -> None:
    assert queries_needed(0.9) == 9
    assert conformal_floor(np.arange(18.0)) is None
    floor = conformal_floor(np.arange(19.0))
    assert floor is not None
    assert (floor.floor, floor.guarantee, floor.n_queries) == (0.0, 0.95, 19)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_shares_are_between_0_and_1(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        conformal_floor(np.ones(50), share)
