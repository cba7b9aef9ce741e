"""The score floor: naive loops, planted no-answer queries, what conformal floors promise over many draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret.logistic import cross_fitted_probability
from colret_eval.matrices import Bool, Float32
from colret_eval.measures import Float64, Int64
from colret_eval.score_floor import (
    COMBINATION,
    SIGNALS,
    background_pages,
    choose_floor,
    false_answers,
    signals,
    without_answers,
)
from colret_eval.statistics import auroc

few = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=8).map(np.array)


def simulated(n_queries: int = 150, n_pages: int = 120) -> tuple[Float32, Bool]:
    """MaxSim of queries of 8 to 12 tokens: their level differs from query to query, answers stand out."""
    rng = np.random.default_rng(7)
    level = rng.normal(4.0, 0.8, (n_queries, 1))
    scores = level + rng.normal(0, 0.25, (n_queries, n_pages))
    relevant = np.zeros((n_queries, n_pages), np.bool_)
    relevant[np.arange(n_queries), rng.integers(0, n_pages, n_queries)] = True
    scores[relevant] += rng.normal(1.4, 0.4, n_queries)
    return scores.astype(np.float32), relevant


def test_answers_go_with_their_duplicates() -> None:
    scores = np.arange(10, dtype=np.float32).reshape(2, 5)
    relevant = np.array([[1, 0, 0, 0, 1], [0, 0, 0, 0, 0]], np.bool_)
    found = without_answers(scores, relevant, np.array([0, 1, 0, 3, 4]))
    assert found.tolist() == [[-np.inf, 1, -np.inf, 3, -np.inf], [5, 6, 7, 8, 9]]
    assert scores[0, 0] == 0.0  # the given scores stay


def test_signals_of_a_hand_made_query() -> None:
    scores = np.array([[1, 5, 3, 2, -np.inf, 0]], np.float32)
    found = signals(scores, np.array([4]), np.array([0, 1, 3, 4, 5]))
    assert SIGNALS == ("score", "score per token", "margin to rank 2", "z-score")
    background = np.array([1.0, 2.0, 0.0])
    z = (5 - background.mean()) / background.std(ddof=1)
    assert found == pytest.approx(np.array([[5, 5 / 4, 2 / 4, z]]))


def test_equal_best_pages_have_no_margin() -> None:
    assert signals(np.array([[2, 2, 1, 0]], np.float32), np.array([1]), np.arange(4))[0, 2] == 0.0


def planted() -> tuple[Float64, Bool, Int64]:
    """Signals of queries with an answer, then of the same ones without it, and their folds."""
    scores, relevant = simulated()
    n, n_pages = scores.shape
    taken = without_answers(scores, relevant, np.arange(n_pages))
    background = background_pages(n_pages, np.random.default_rng(0), 60)
    features = np.concatenate([signals(each, np.full(n, 10), background) for each in (scores, taken)])
    return features, np.repeat([True, False], n), np.tile(np.arange(n) % 5, 2)


def test_planted_queries_without_an_answer_are_told_apart() -> None:
    """The combination is no worse than any signal alone, and tells most of them."""
    features, has_answer, folds = planted()
    combined = cross_fitted_probability(features, has_answer, folds)
    alone = [auroc(column[has_answer], column[~has_answer]) for column in features.T]
    together = auroc(combined[has_answer], combined[~has_answer])
    assert together > 0.95
    assert together > max(alone) - 0.01
    assert alone[0] < 0.9  # the level of a query hides its answer from the raw score
    point = false_answers(combined[has_answer], combined[~has_answer])
    assert point.answered >= 0.95
    assert point.false_answers < 0.6 * false_answers(features[has_answer, 0], features[~has_answer, 0]).false_answers


@given(with_answer=few, without=few, answered=st.sampled_from([0.5, 0.8, 0.95, 1.0]))
def test_false_answers_equal_a_naive_loop(with_answer: Float64, without: Float64, answered: float) -> None:
    point = false_answers(with_answer, without, answered)
    enough = [floor for floor in with_answer if np.mean(with_answer >= floor) >= answered]
    assert point.floor == max(enough)
    assert point.answered >= answered
    assert point.false_answers == np.mean(without >= point.floor)


def test_the_floor_chosen_is_calibrated_on_queries_that_chose_nothing() -> None:
    rng = np.random.default_rng(4)
    has_answer, folds = np.repeat([True, False], 150), np.tile(np.arange(150) % 5, 2)
    features = rng.normal(size=(300, 4)) + 1.5 * has_answer[:, None]  # each tells something of its own
    calibrating = folds < 2
    found = choose_floor(features, has_answer, folds, calibrating, 0.9)
    assert found is not None
    assert (found.floor.n_queries, found.n_without) == (60, 60)
    assert found.floor.guarantee >= 0.9
    assert found.signal == COMBINATION
    assert found.combination is not None
    values = found.combination.probability(features)
    assert np.mean(values[calibrating & has_answer] >= found.floor.floor) >= 0.9
    assert found.false_answers == np.mean(values[calibrating & ~has_answer] >= found.floor.floor) < 0.5
    shuffled = np.where(calibrating[:, None], features[::-1], features)  # what calibrates changes the floor only
    again = choose_floor(shuffled, has_answer, folds, calibrating, 0.9)
    assert again is not None
    assert again.combination is not None
    assert (again.combination.weights == found.combination.weights).all()
    assert again.floor != found.floor


def test_one_signal_that_tells_alone_is_chosen_alone() -> None:
    rng = np.random.default_rng(2)
    has_answer, folds = np.arange(200) % 2 == 0, np.arange(200) // 2 % 4
    features = rng.normal(size=(200, 4))
    features[:, 2] = np.where(has_answer, 1.0, -1.0) * rng.uniform(0.01, 9, 200) ** 4  # perfect, and far from logistic
    found = choose_floor(features, has_answer, folds, folds == 0)
    assert found is not None
    assert (found.signal, found.combination, found.false_answers) == ("margin to rank 2", None, 0.0)


def test_a_floor_from_too_few_queries_is_refused() -> None:
    features, has_answer, folds = planted()
    few_calibrating = (folds == 0) & (np.arange(len(folds)) % 5 == 0) & (np.arange(len(folds)) % 150 < 60)
    assert choose_floor(features, has_answer, folds, few_calibrating) is None


def test_background_is_a_sample_without_repeats() -> None:
    found = background_pages(1000, np.random.default_rng(0), 50)
    assert len(set(found.tolist())) == 50
    assert background_pages(3, np.random.default_rng(0)).tolist() == [0, 1, 2]


def test_errors() -> None:
    with pytest.raises(ValueError, match="two pages"):
        signals(np.array([[1, -np.inf, -np.inf]], np.float32), np.array([1]), np.arange(3))
    with pytest.raises(ValueError, match="two in the background"):
        signals(np.array([[1, 2, 3]], np.float32), np.array([1]), np.array([2, 0]))
    with pytest.raises(ValueError, match="with and without"):
        false_answers(np.ones(1), np.ones(0))
    features, has_answer, folds = planted()
    with pytest.raises(ValueError, match="two folds"):
        choose_floor(features, has_answer, folds, folds != 1)
    with pytest.raises(ValueError, match="two folds"):
        choose_floor(features, has_answer, folds, has_answer)
