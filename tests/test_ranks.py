"""Ranks of the best relevant pages: hand-made ranks, chance by enumeration, errors."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from colret_eval.ranks import chance_ranks, summarise_ranks


def test_what_was_not_returned_counts_as_the_last_rank() -> None:
    found = summarise_ranks(np.array([1.0, 2.0, np.inf, 30.0]), 100)
    assert found == (16.0, (1 + 2 + 100 + 30) / 4, 1)


@pytest.mark.parametrize("counts", [[1], [2], [3, 1], [1, 1, 4], [5]])
def test_chance_is_what_all_orders_give(counts: list[int]) -> None:
    """The mean over orders, and the median of all queries' ranks in all orders together."""
    qrels = {f"q{i}": {f"d:{page}": 1 for page in range(n)} | {"d:5": 0} for i, n in enumerate(counts)}
    pooled = [1 + min(order.index(page) for page in range(n)) for n in counts for order in permutations(range(6))]
    found = chance_ranks(qrels, 6)
    assert found.mean == pytest.approx(np.mean(pooled))
    assert found.median == sorted(pooled)[(len(pooled) - 1) // 2]
    assert found.n_missing == 0


def test_queries_without_relevant_pages_are_left_out_of_chance() -> None:
    assert chance_ranks({"q": {"a": 1}, "none": {}}, 9) == chance_ranks({"q": {"a": 1}}, 9) == (5.0, 5.0, 0)


def test_pages_in_no_collection_are_the_last_rank_for_chance_too() -> None:
    """Against all orders of 4 pages: of q's labels one is missing, of p's both; what is missing stands at rank 4."""
    qrels = {"q": {"d:0": 1, "x": 1}, "p": {"x": 2, "y": 1}, "r": {"d:1": 1, "d:2": 1}}
    orders = list(permutations(range(4)))
    present: list[list[int]] = [[0], [], [1, 2]]
    pooled = [1 + min([order.index(page) for page in pages], default=3) for pages in present for order in orders]
    found = chance_ranks(qrels, 4, {"x", "y"})
    assert found.mean == pytest.approx(np.mean(pooled))
    assert found.median == sorted(pooled)[(len(pooled) - 1) // 2]
    assert found.n_missing == 1
    assert chance_ranks({"p": qrels["p"]}, 4, {"x", "y"}) == (4.0, 4.0, 1)


def test_errors() -> None:
    with pytest.raises(ValueError, match="no ranks"):
        summarise_ranks(np.array([]), 3)
    with pytest.raises(ValueError, match="2 relevant pages cannot be ranked among 1"):
        chance_ranks({"q": {"a": 1, "b": 1}}, 1)
    with pytest.raises(ValueError, match="0 relevant pages"):
        chance_ranks({"q": {}}, 5)
