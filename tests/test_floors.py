"""Floors: planted scores, odds, what is held out, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret.conformal import conformal_floor
from colret.floors import ANSWERED, Scored, fit_floor


def planted(n: int, apart: float, seed: int = 0, times_without: int = 1) -> Scored:
    """Normal scores of queries with an answer, ``apart`` standard deviations above those without, in 10 documents."""
    rng = np.random.default_rng(seed)
    answered = np.arange(n * (1 + times_without)) < n
    scores = rng.normal(0, 1, len(answered)) + apart * answered
    return Scored(scores, answered, np.arange(len(answered)) % 10)


def test_shares_and_odds_are_those_of_the_planted_distributions() -> None:
    found = fit_floor(planted(4000, 2.0))
    assert found is not None
    assert found.floor == pytest.approx(2 - 1.645, abs=0.1)
    assert found.kept == pytest.approx(ANSWERED, abs=0.01)
    assert found.caught == pytest.approx(0.639, abs=0.03)  # the normal distribution function at 2 - 1.645
    assert found.auroc == pytest.approx(0.921, abs=0.01)  # at 2 / sqrt(2)
    for score in (0.0, 1.0, 2.0):  # log odds of two normal densities: 2 score - 2
        assert found.probability(score) == pytest.approx(1 / (1 + np.exp(2 - 2 * score)), abs=0.03)


def test_odds_do_not_depend_on_how_many_of_each_kind_were_asked() -> None:
    even, uneven = fit_floor(planted(2000, 1.5)), fit_floor(planted(2000, 1.5, times_without=5))
    assert even is not None
    assert uneven is not None
    assert uneven.probability(0.75) == pytest.approx(even.probability(0.75), abs=0.03)


@given(seed=st.integers(0, 500), n=st.integers(19, 60))
def test_the_floor_is_the_conformal_one_and_odds_rise(seed: int, n: int) -> None:
    scored = planted(n, 1.5, seed)
    found, promised = fit_floor(scored), conformal_floor(scored.scores[scored.answered], ANSWERED)
    assert promised is not None
    if found is not None:
        assert found.floor == promised.floor
        assert found.slope > 0
        assert 0 <= found.probability(-1e9) < found.probability(0.0) < found.probability(1e9) <= 1


def test_held_out_queries_set_no_floor() -> None:
    """One document's answered queries score below all others: they fail the floor of the others."""
    scores = np.array([*np.full(20, 0.1), *np.full(60, 0.9), *np.full(80, 0.2)])
    groups = np.array([*np.zeros(20), *np.repeat([1, 2, 3], 20), *np.arange(80) % 4])
    found = fit_floor(Scored(scores, np.arange(160) < 80, groups.astype(np.int64)))
    assert found is not None
    assert found.floor == 0.1
    assert found.kept == 0.75
    assert found.caught == pytest.approx(0.25)  # those beside the low document; its own floor lets the others pass


def test_what_cannot_be_told_has_no_floor() -> None:
    assert fit_floor(planted(18, 2.0)) is None  # too few to promise anything
    assert fit_floor(planted(100, -1.0)) is None  # the wrong way round
    same = Scored(np.ones(80), np.arange(80) < 40, np.arange(80) % 4)
    assert fit_floor(same) is None
    assert fit_floor(Scored(np.ones(40), np.ones(40, np.bool_), np.arange(40))) is None  # no other kind


def test_one_group_holds_nothing_out() -> None:
    scored = planted(50, 2.0)._replace(groups=np.zeros(100, np.int64))
    found = fit_floor(scored)
    assert found is not None
    assert (found.kept, found.caught) == (None, None)
