"""Hubness: naive loops, chance by simulation, a planted hub found and corrected on queries that taught nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import skew

from colret_eval.hubness import (
    BETAS,
    CORRECTIONS,
    Fit,
    cross_fitted,
    csls,
    fitted_beta,
    hubness,
    inverted_softmax,
    largest_hubs,
    length_correlation,
    occurrences,
    page_z_score,
)
from colret_eval.matrices import Bool, Float32, best_relevant_ranks, first_columns
from colret_eval.measures import Int64

HUB = 17


def planted(n_queries: int = 200, n_pages: int = 150) -> tuple[Float32, Bool, Int64]:
    """Scores with one page in the middle of all: near to every query, and the answer to none."""
    rng = np.random.default_rng(3)
    answers = rng.choice(np.delete(np.arange(n_pages), HUB), n_queries)
    scores = rng.normal(0.3, 0.05, (n_queries, n_pages))
    scores[np.arange(n_queries), answers] += 0.2
    scores[:, HUB] += 0.22
    relevant = np.zeros((n_queries, n_pages), np.bool_)
    relevant[np.arange(n_queries), answers] = True
    return scores.astype(np.float32), relevant, (np.arange(n_queries) % 5).astype(np.int64)


@given(seed=st.integers(0, 100), k=st.integers(1, 8))
def test_occurrences_equal_a_naive_loop(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (5, 7)).astype(np.float32)
    relevant = rng.random((5, 7)) < 0.3
    expected, bad = [0] * 7, [0] * 7
    for row, right in zip(scores.tolist(), relevant.tolist(), strict=True):
        for column in sorted(range(7), key=lambda column: (-row[column], column))[:k]:
            expected[column] += 1
            bad[column] += not right[column]
    assert occurrences(scores, k).tolist() == expected
    assert occurrences(scores, k, excluding=relevant).tolist() == bad


def test_skewness_is_the_third_standardised_moment() -> None:
    counts = np.array([0, 0, 1, 2, 9, 0], np.int64)
    found = hubness(counts, 4, k=3)
    assert found.skewness == pytest.approx(skew(counts))
    assert found.orphans == 0.5
    assert found.expected == 2.0


def test_chance_is_what_random_rankings_give() -> None:
    scores = np.random.default_rng(0).random((300, 400)).astype(np.float32)
    counts = occurrences(scores)
    found = hubness(counts, 300)
    assert found.expected == pytest.approx(counts.mean())
    assert found.skewness == pytest.approx(found.chance_skewness, abs=0.3)
    assert found.orphans == pytest.approx(found.chance_orphans, abs=0.005)


def test_equal_counts_have_no_skewness() -> None:
    assert hubness(np.array([3, 3], np.int64), 3, k=2) == (0.0, 0.0, 0.0, 0.0, 3.0)


def test_a_planted_hub_is_found() -> None:
    scores, relevant, _ = planted()
    counts = occurrences(scores)
    assert largest_hubs(counts, 3)[0] == HUB
    assert largest_hubs(occurrences(scores, excluding=relevant), 3)[0] == HUB
    found = hubness(counts, len(scores))
    assert counts[HUB] > 10 * found.expected
    assert found.skewness > 10 * found.chance_skewness


def test_largest_hubs_leave_out_what_never_occurs() -> None:
    assert largest_hubs(np.array([0, 2, 5, 0, 2], np.int64)).tolist() == [2, 1, 4]


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_lift_answers_above_a_planted_hub(name: str) -> None:
    scores, relevant, folds = planted()
    corrected = cross_fitted(scores, relevant, folds, CORRECTIONS[name])
    assert corrected.dtype == np.float32
    before, after = (np.mean(best_relevant_ranks(each, relevant) == 1) for each in (scores, corrected))
    assert before < 0.5
    assert after > before + 0.2
    assert occurrences(corrected)[HUB] < 0.8 * occurrences(scores)[HUB]  # CSLS takes half of the lead away


def test_no_query_teaches_its_own_fold() -> None:
    scores, relevant, folds = planted(20, 30)
    seen: list[int] = []

    def count(fit: Fit, tested: Float32) -> Float32:
        rows = {row.tobytes() for row in fit.scores}
        assert not any(row.tobytes() in rows for row in tested)
        assert fit.relevant.shape == fit.scores.shape
        seen.append(len(tested))
        return -tested

    assert (cross_fitted(scores, relevant, folds, count) == -scores).all()
    assert seen == [4] * 5


@given(seed=st.integers(0, 50), k=st.integers(1, 9))
def test_csls_equals_a_naive_loop(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    fit, scores = rng.normal(size=(4, 6)).astype(np.float32), rng.normal(size=(3, 6)).astype(np.float32)
    found = csls(Fit(fit, np.zeros((4, 6), np.bool_)), scores, k=k)
    for q in range(3):
        for p in range(6):
            near_queries = np.mean(sorted(fit[:, p])[-k:])
            near_pages = np.mean(sorted(scores[q])[-k:])
            assert found[q, p] == pytest.approx(2 * scores[q, p] - near_queries - near_pages, abs=1e-5)


def test_inverted_softmax_equals_its_formula() -> None:
    rng = np.random.default_rng(1)
    fit, scores = rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=(3, 6)).astype(np.float32)
    relevant = np.zeros((8, 6), np.bool_)
    found = inverted_softmax(Fit(fit, relevant), scores, beta=3.0)
    assert found == pytest.approx(3.0 * scores - logsumexp(3.0 * fit, axis=0), abs=1e-5)


def test_beta_makes_the_labels_most_likely() -> None:
    scores, relevant, _ = planted(60, 40)
    likelihoods = []
    for beta in BETAS:
        inverted = beta * scores.astype(np.float64) - logsumexp(beta * scores.astype(np.float64), axis=0)
        likelihoods.append((inverted - logsumexp(inverted, axis=1)[:, None])[relevant].mean())
    assert fitted_beta(Fit(scores, relevant)) == BETAS[int(np.argmax(likelihoods))]
    assert BETAS[0] < fitted_beta(Fit(scores, relevant)) < BETAS[-1]


def test_page_z_scores_have_mean_0_and_deviation_1_where_they_were_fitted() -> None:
    scores = np.random.default_rng(1).normal(0.4, 0.2, (50, 6)).astype(np.float32)
    fitted = page_z_score(Fit(scores, np.zeros(scores.shape, np.bool_)), scores)
    assert fitted.mean(axis=0) == pytest.approx(0.0, abs=1e-5)
    assert fitted.std(axis=0, ddof=1) == pytest.approx(1.0, abs=1e-5)


def test_a_page_whose_scores_do_not_vary_stays_finite() -> None:
    scores = np.array([[0.5, 0.1], [0.5, 0.3]], np.float32)
    found = page_z_score(Fit(scores, np.zeros((2, 2), np.bool_)), np.array([[0.7, 0.2]], np.float32))
    assert found[0] == pytest.approx([0.2 / np.std([0.1, 0.3], ddof=1), 0.0], abs=1e-5)


def test_longer_pages_score_higher() -> None:
    rng = np.random.default_rng(0)
    n_vectors = rng.integers(50, 900, 80)
    scores = (np.log(n_vectors) + rng.normal(0, 0.1, (30, 80))).astype(np.float32)
    assert length_correlation(scores, n_vectors) > 0.95
    assert abs(length_correlation(scores, rng.permutation(n_vectors))) < 0.3
    assert np.isnan(length_correlation(scores, np.full(80, 7)))


def test_first_columns_of_no_queries() -> None:
    assert first_columns(np.empty((0, 5), np.float32), 2).shape == (0, 2)


def test_errors() -> None:
    scores, relevant, folds = planted(10, 20)
    nothing = np.zeros_like(relevant)
    with pytest.raises(ValueError, match="two folds"):
        cross_fitted(scores, relevant, np.zeros_like(folds), csls)
    with pytest.raises(ValueError, match="no label"):
        inverted_softmax(Fit(scores, nothing), scores)
    with pytest.raises(ValueError, match="two fitting queries"):
        page_z_score(Fit(scores[:1], relevant[:1]), scores)
    with pytest.raises(ValueError, match="pages and queries"):
        hubness(np.array([], np.int64), 3)
