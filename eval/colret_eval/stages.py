"""What a search stage loses of the exact ranking, before any label is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from colret_eval.measures import Float64

Rankings = Mapping[str, Sequence[str]]
"""Query id to page ids, best first, in the order the search returned them."""


def kept(exact: Rankings, other: Rankings, k: int, *, within: int | None = None) -> Float64:
    """Return per query the share of the exact top-k that another ranking keeps.

    Rankings rather than scores: where scores tie, the search's own order is what a user sees.
    A query that ``other`` lacks keeps nothing.

    Args:
        exact: The reference, such as MaxSim over every page.
        other: What is compared, such as a two-stage search, or the candidates of a prefilter.
        k: How many entries of the exact ranking count.
        within: How many entries of ``other`` are looked at: k for a final ranking (the
            default), C for the C candidates of a prefilter.

    Returns:
        (Q,) float64 in the order of ``exact``. Where fewer than k pages exist, of those there are.

    Raises:
        ValueError: If k or ``within`` is below 1, or an exact ranking is empty.
    """
    within = k if within is None else within
    if k < 1 or within < 1:
        raise ValueError(f"cutoffs are at least 1, not {k} within {within}")
    empty = [query_id for query_id, ranking in exact.items() if not ranking]
    if empty:
        raise ValueError(f"query {empty[0]} has an empty exact ranking, of which nothing can be kept")
    return np.array([_share(exact[q][:k], other.get(q, ())[:within]) for q in exact], np.float64)


def _share(wanted: Sequence[str], found: Sequence[str]) -> float:
    return len(set(wanted) & set(found)) / len(wanted)
