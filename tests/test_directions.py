"""Both directions: the published toy gallery, chance by enumeration, naive loops; matrices and runs."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret_eval.directions import page_to_text, text_to_page
from colret_eval.matrices import (
    Float32,
    best_relevant_ranks,
    first_columns,
    from_run,
    page_order,
    relevant_pages,
    to_run,
)
from colret_eval.measures import best_ranks, evaluate, success
from tests.toy import pairs


def test_published_toy_gallery() -> None:
    """Sub-galleries are the first pairs; the largest and the captions are drawn after them."""
    rng = np.random.default_rng(5)
    images, texts = pairs(rng, 1000)
    scores = (texts @ images.T).astype(np.float32)
    same = np.eye(1000, dtype=np.bool_)
    forth, back = text_to_page(scores, same), page_to_text(scores, same)
    assert [forth.success(k).mean() for k in (1, 5)] == pytest.approx([0.380, 0.642])
    assert [back.success(k).mean() for k in (1, 5)] == pytest.approx([0.364, 0.637])
    by_size = [text_to_page(scores[:n, :n], same[:n, :n]).success(1).mean() for n in (10, 100, 1000)]
    assert by_size == pytest.approx([0.900, 0.610, 0.380])

    images, texts = pairs(rng, 5000)
    large = text_to_page((texts @ images.T).astype(np.float32), np.eye(5000, dtype=np.bool_))
    assert large.success(1).mean() == pytest.approx(0.199, abs=5e-4)

    photos, captions = pairs(rng, 200, n_texts=5)
    scores = (captions @ photos.T).astype(np.float32)
    belongs = np.repeat(np.eye(200, dtype=np.bool_), 5, axis=0)
    assert text_to_page(scores, belongs).success(1).mean() == pytest.approx(0.593)
    assert page_to_text(scores, belongs).success(1).mean() == pytest.approx(0.745)


@given(seed=st.integers(0, 200), k=st.integers(1, 6))
def test_equals_a_naive_loop(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, (5, 4)).astype(np.float32)
    relevant = rng.random((5, 4)) < 0.4
    n_tokens = rng.integers(1, 4, 5)
    forth = {}
    for q in range(5):
        order = sorted(range(4), key=lambda p: (-scores[q, p], p))
        if relevant[q].any():
            forth[q] = float(any(relevant[q, p] for p in order[:k]))
    found = text_to_page(scores, relevant)
    assert dict(zip(found.items.tolist(), found.success(k).tolist(), strict=True)) == forth
    back = {}
    for p in range(4):
        order = sorted(range(5), key=lambda q: (-np.float32(scores[q, p] / n_tokens[q]), q))
        if relevant[:, p].any():
            back[p] = float(any(relevant[q, p] for q in order[:k]))
    found = page_to_text(scores, relevant, n_tokens)
    assert dict(zip(found.items.tolist(), found.success(k).tolist(), strict=True)) == back


def test_long_queries_are_not_ahead_for_every_page() -> None:
    scores = np.array([[8.0, 9.0], [3.0, 1.0]], np.float32)  # the first has ten tokens, the second three
    relevant = np.array([[False, True], [True, False]])
    assert page_to_text(scores, relevant).ranks.tolist() == [2.0, 1.0]
    assert page_to_text(scores, relevant, np.array([10, 3])).ranks.tolist() == [1.0, 1.0]


def test_chance_is_the_mean_over_all_orders() -> None:
    relevant = np.array([[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], np.bool_)
    orders = [np.array([order] * 3, np.float32) for order in permutations(range(4))]
    for k in (1, 2, 3, 9):
        mean = np.mean([text_to_page(scores, relevant).success(k) for scores in orders], axis=0)
        assert text_to_page(orders[0], relevant).chance(k) == pytest.approx(mean)


@given(seed=st.integers(0, 300), k=st.integers(1, 9))
def test_matrices_rank_as_measures_do(seed: int, k: int) -> None:
    """Ties included: the matrix's order, its run's and the measures' are one."""
    rng = np.random.default_rng(seed)
    keys = page_order(f"d:{i}" for i in range(8))
    queries = ["q0", "q1", "q2"]
    scores: Float32 = rng.integers(0, 3, (3, 8)).astype(np.float32)
    scores[rng.random((3, 8)) < 0.2] = -np.inf
    qrels = {query: {keys[i]: int(rng.integers(0, 3)) for i in rng.integers(0, 8, 3)} for query in queries}
    relevant = relevant_pages(qrels, queries, keys)
    run = to_run(scores, queries, keys, 8)
    assert best_relevant_ranks(scores, relevant).tolist() == best_ranks(qrels, run).tolist()
    cut = to_run(scores, queries, keys, k)
    assert evaluate(qrels, cut, [success(k)])["Success@" + str(k)].tolist() == (best_ranks(qrels, run) <= k).tolist()
    assert (from_run(run, queries, keys) == scores).all()
    top = first_columns(scores, k)
    for row, columns in zip(scores, top.tolist(), strict=True):
        in_order = sorted((-score, column) for column, score in enumerate(row.tolist()))
        assert columns == [column for _, column in in_order][:k]


def test_missing_scores_and_labels() -> None:
    assert from_run({"q": {"a": 2.0}}, ["q", "p"], ["b", "a"], missing=0.0).tolist() == [[0, 2], [0, 0]]
    assert relevant_pages({"q": {"z": 0, "a": 1, "b": 0}}, ["q", "p"], ["b", "a"]).tolist() == [[0, 1], [0, 0]]


def test_errors() -> None:
    scores = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="same shape"):
        text_to_page(scores, np.ones((3, 2), np.bool_))
    with pytest.raises(ValueError, match="2 queries need as many numbers of tokens, not 1"):
        page_to_text(scores, np.ones((2, 3), np.bool_), np.array([1]))
    with pytest.raises(ValueError, match="relevant page z of query q is no column"):
        relevant_pages({"q": {"z": 1}}, ["q"], ["a"])
    with pytest.raises(ValueError, match="at least 1"):
        first_columns(scores, 0)
    with pytest.raises(ValueError, match="not a number"):
        first_columns(np.full((1, 1), np.nan, np.float32), 1)
