"""Where pages are lost: what a stage loses of the exact ranking, and which stage cost a query its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from colret_eval.measures import Float64, Qrels

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


class Stage(NamedTuple):
    """One step from the model alone to what is shipped."""

    name: str  # such as "model", "codec", "prefilter" or "index"
    rankings: Rankings  # with this step and all before it in place
    within: int  # entries that count: k for a ranking, C for candidates


def lost_at(qrels: Qrels, stages: Sequence[Stage]) -> dict[str, str | None]:
    """Return by query the stage at which its last relevant page was lost, None where the last stage still has one.

    The stage to blame is the first after the last that had a relevant page within reach: what a
    later stage finds again, no earlier one has lost.

    Args:
        qrels: Judgements; queries without a relevant page are left out.
        stages: From the exact ranking of float32 vectors, whose losses are the model's, to the
            search as shipped.

    Raises:
        ValueError: If there are no stages.
    """
    if not stages:
        raise ValueError("no stages to lose a page at")
    lost: dict[str, str | None] = {}
    for query_id, grades in qrels.items():
        relevant = {key for key, grade in grades.items() if grade > 0}
        if relevant:
            reached = [not relevant.isdisjoint(s.rankings.get(query_id, ())[: s.within]) for s in stages]
            after = max((place + 1 for place, there in enumerate(reached) if there), default=0)
            lost[query_id] = stages[after].name if after < len(stages) else None
    return lost


def _share(wanted: Sequence[str], found: Sequence[str]) -> float:
    return len(set(wanted) & set(found)) / len(wanted)
