"""Statistics: what intervals and tests promise, on simulated sets; naive loops; errors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from colret_eval.measures import Float64
from colret_eval.statistics import (
    EXACT_FLIPS,
    MIN_CLUSTERS,
    auroc,
    bootstrap_interval,
    holm,
    midranks,
    paired_interval,
    randomisation_test,
    spearman,
)

TRUE_MEAN = 0.6
ties = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=8).map(np.array)
few_values = st.lists(st.sampled_from([-1.0, -0.5, -0.2, 0.0, 0.1, 0.5, 1.0]), min_size=1, max_size=8)


def simulated_set(rng: np.random.Generator, n_documents: int) -> tuple[Float64, list[str]]:
    """Successes of 1 to 8 queries per document, each document with its own difficulty."""
    labels = np.repeat(np.arange(n_documents), rng.integers(1, 9, n_documents))
    difficulty = rng.beta(3 * TRUE_MEAN, 3 * (1 - TRUE_MEAN), n_documents)
    return (rng.random(len(labels)) < difficulty[labels]).astype(np.float64), [f"d{label}" for label in labels]


def test_interval_of_clusters_names_what_was_resampled() -> None:
    values, sources = simulated_set(np.random.default_rng(1), 30)
    interval = bootstrap_interval(values, sources, np.random.default_rng(2))
    assert interval.unit == "documents"
    assert interval.n_units == 30
    assert interval.mean == pytest.approx(values.mean())
    assert interval.low < interval.mean < interval.high


def test_few_documents_fall_back_to_queries() -> None:
    values = np.arange(40.0)
    sources = [f"d{i % (MIN_CLUSTERS - 1)}" for i in range(40)]
    interval = bootstrap_interval(values, sources, np.random.default_rng(0))
    assert (interval.unit, interval.n_units) == ("queries", 40)
    t_interval = 2.0227 * values.std(ddof=1) / np.sqrt(40)  # Student's t, 39 degrees of freedom
    assert interval.high - interval.mean == pytest.approx(t_interval, rel=0.05)


def test_same_generator_gives_the_same_interval() -> None:
    values, sources = simulated_set(np.random.default_rng(1), 12)
    first, again = (bootstrap_interval(values, sources, np.random.default_rng(5)) for _ in range(2))
    assert first == again


def test_clustering_widens_the_interval_where_documents_differ() -> None:
    values = np.repeat([0.0, 1.0] * 10, 20)
    sources = [f"d{i // 20}" for i in range(400)]
    clustered = bootstrap_interval(values, sources, np.random.default_rng(0))
    alone = bootstrap_interval(values, [f"d{i}" for i in range(400)], np.random.default_rng(0))
    assert clustered.high - clustered.low > 3 * (alone.high - alone.low)


def test_interval_holds_the_true_mean_as_often_as_it_says() -> None:
    """Over 1,000 sets a true 95 % strays from 93 to 97 % for one seed in 250."""
    rng = np.random.default_rng(20)
    intervals = [bootstrap_interval(*simulated_set(rng, 20), rng, n_resamples=1000) for _ in range(1000)]
    held = np.mean([interval.low <= TRUE_MEAN <= interval.high for interval in intervals])
    assert 0.93 <= held <= 0.97


def test_level_widens_the_interval() -> None:
    values, sources = simulated_set(np.random.default_rng(1), 20)
    wide = bootstrap_interval(values, sources, np.random.default_rng(0), level=0.99)
    narrow = bootstrap_interval(values, sources, np.random.default_rng(0), level=0.8)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_paired_interval_is_that_of_the_differences() -> None:
    """What both systems share cancels: a small steady difference is told from none."""
    rng = np.random.default_rng(3)
    first = rng.random(60)
    second = first - 0.02 + rng.normal(0, 0.01, 60)
    sources = [f"d{i % 20}" for i in range(60)]
    interval = paired_interval(first, second, sources, np.random.default_rng(0))
    assert interval == bootstrap_interval(first - second, sources, np.random.default_rng(0))
    assert 0.01 < interval.low < 0.02 < interval.high < 0.03


@given(values=few_values, seed=st.integers(0, 3))
def test_interval_stays_within_the_values(values: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    interval = bootstrap_interval(np.array(values), ["d"] * len(values), rng, n_resamples=50)
    slack = 1e-12
    assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack


def one_by_one(values: Float64) -> list[str]:
    """Sources that put each query in a document of its own."""
    return [f"d{place}" for place in range(len(values))]


def naive_p_value(differences: list[float]) -> float:
    observed = abs(sum(differences))
    flipped = [
        abs(sum(sign * difference for sign, difference in zip(signs, differences, strict=True)))
        for signs in product((-1, 1), repeat=len(differences))
    ]
    return sum(total >= observed - 1e-9 for total in flipped) / len(flipped)


@given(differences=few_values)
def test_exact_randomisation_equals_a_naive_loop(differences: list[float]) -> None:
    first = np.array(differences)
    p = randomisation_test(first, np.zeros_like(first), one_by_one(first), np.random.default_rng(0))
    assert p == pytest.approx(naive_p_value(differences))


def test_randomisation_of_six_wins_is_two_in_sixty_four() -> None:
    wins = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.0])
    assert randomisation_test(wins, np.zeros(7), one_by_one(wins), np.random.default_rng(0)) == pytest.approx(2 / 64)


def test_monte_carlo_agrees_with_the_exact_test() -> None:
    """One tiny difference more than can be tried exactly moves the p-value hardly at all."""
    rng = np.random.default_rng(4)
    first = rng.normal(0.4, 1, EXACT_FLIPS)
    exact = randomisation_test(first, np.zeros(EXACT_FLIPS), one_by_one(first), rng)
    more = np.append(first, 1e-6)
    drawn = randomisation_test(more, np.zeros(len(more)), one_by_one(more), rng, n_flips=20_000)
    assert 0.02 < exact < 0.5
    assert drawn == pytest.approx(exact, abs=0.015)


def test_monte_carlo_never_claims_certainty() -> None:
    wins = np.ones(200)
    p = randomisation_test(wins, np.zeros(200), one_by_one(wins), np.random.default_rng(0), n_flips=99)
    assert p == pytest.approx(1 / 100)


@pytest.mark.parametrize("n_queries", [10, 30])
def test_a_true_null_is_rejected_as_often_as_promised(n_queries: int) -> None:
    """1,000 sets at the 5 % level, exact and Monte Carlo."""
    rng = np.random.default_rng(11)
    p_values = []
    for _ in range(1000):
        first, second = rng.normal(size=(2, n_queries))
        p_values.append(randomisation_test(first, second, one_by_one(first), rng, n_flips=400))
    assert 0.03 <= np.mean(np.array(p_values) <= 0.05) <= 0.07


@pytest.mark.parametrize(("n_documents", "per_document"), [(10, 8), (25, 6)])
def test_a_true_null_within_documents_is_rejected_as_often_as_promised(n_documents: int, per_document: int) -> None:
    """Queries of a document differ by the same amount but for noise: 1,000 sets; flipped one by one, a third reject."""
    rng = np.random.default_rng(7)
    sources = [f"d{document}" for document in range(n_documents) for _ in range(per_document)]
    p_values, of_queries = [], []
    for _ in range(1000):
        shared = np.repeat(rng.normal(size=n_documents), per_document)
        first = shared + rng.normal(size=len(sources)) / 2
        second = np.zeros_like(first)
        p_values.append(randomisation_test(first, second, sources, rng, n_flips=400))
        of_queries.append(randomisation_test(first, second, one_by_one(first), rng, n_flips=100))
    assert 0.03 <= np.mean(np.array(p_values) <= 0.05) <= 0.07
    assert np.mean(np.array(of_queries) <= 0.05) > 0.25  # what it would be otherwise


def test_documents_flip_whole_where_there_are_enough() -> None:
    """Ten documents of two queries, all won: 2 of 2^10 patterns; of five, the queries flip: 2 of 2^10 again."""
    wins, draws = np.ones(20), np.zeros(20)
    sources = [f"d{query // 2}" for query in range(20)]
    assert randomisation_test(wins, draws, sources, np.random.default_rng(0)) == pytest.approx(2 / 2**10)
    few = [f"d{query // 2}" for query in range(10)]
    assert randomisation_test(wins[:10], draws[:10], few, np.random.default_rng(0)) == pytest.approx(2 / 2**10)


def test_holm_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]).tolist() == [1.0, 1.0]
    assert len(holm([])) == 0


@settings(max_examples=50)
@given(p_values=st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_equals_the_stepwise_definition(p_values: list[float]) -> None:
    """Reject at level a while p(i) <= a / (M - i + 1); the adjusted value is the least such a."""
    adjusted: NDArray[np.float64] = holm(p_values)
    by_size = sorted(range(len(p_values)), key=lambda i: p_values[i])
    least = 0.0
    for step, i in enumerate(by_size):
        least = max(least, p_values[i] * (len(p_values) - step))
        assert adjusted[i] == pytest.approx(min(least, 1.0))


@given(positive=ties, negative=ties)
def test_auroc_equals_a_naive_loop(positive: Float64, negative: Float64) -> None:
    wins = [(p > n) + 0.5 * (p == n) for p, n in product(positive, negative)]
    assert auroc(positive, negative) == pytest.approx(np.mean(wins))


@given(values=ties)
def test_midranks_equal_a_naive_loop(values: Float64) -> None:
    for value, rank in zip(values, midranks(values), strict=True):
        below, equal = (values < value).sum(), (values == value).sum()
        assert rank == below + (equal + 1) / 2


def test_spearman_is_the_correlation_of_midranks() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 11.0])) == pytest.approx(1.0)
    first, second = np.array([1.0, 2.0, 2.0, 5.0]), np.array([3.0, 1.0, 1.0, 0.0])
    expected = np.corrcoef([1, 2.5, 2.5, 4], [4, 2.5, 2.5, 1])[0, 1]
    assert spearman(first, second) == pytest.approx(expected)


def test_errors() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_interval(np.array([]), [], rng)
    with pytest.raises(ValueError, match="2 values need as many sources, not 1"):
        bootstrap_interval(np.array([1.0, 2.0]), ["d"], rng)
    with pytest.raises(ValueError, match="one shape"):
        randomisation_test(np.ones(3), np.ones(2), ["a", "b", "c"], rng)
    with pytest.raises(ValueError, match="3 values need as many sources, not 1"):
        randomisation_test(np.ones(3), np.ones(3), ["a"], rng)
    with pytest.raises(ValueError, match="one shape"):
        paired_interval(np.ones(3), np.ones(1), ["a", "b", "c"], rng)
    with pytest.raises(ValueError, match="positives and negatives"):
        auroc(np.ones(0), np.ones(1))
    with pytest.raises(ValueError, match="one shape"):
        spearman(np.ones(2), np.ones(3))
