"""Ranks of the best relevant pages in one line, and where chance would put them."""

from __future__ import annotations

import bisect
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from colret_eval.measures import Float64, Qrels, judge, none_drawn, without_pages


class RankSummary(NamedTuple):
    """Where the best relevant page stands, over all queries of a set."""

    median: float
    mean: float
    n_missing: int  # queries none of whose relevant pages was returned


def summarise_ranks(ranks: Float64, n_pages: int) -> RankSummary:
    """Return the median and mean of ``best_ranks`` (Q,) among N pages.

    A query without a relevant page in its ranking counts with N, the last rank there is: left
    out, it would flatter a system that returns little.

    Raises:
        ValueError: If there are no ranks.
    """
    if not len(ranks):
        raise ValueError("no ranks to summarise")
    known = np.minimum(ranks, n_pages)
    return RankSummary(float(np.median(known)), float(known.mean()), int(np.isinf(ranks).sum()))


def chance_ranks(qrels: Qrels, n_pages: int, missing: Collection[str] = ()) -> RankSummary:
    """Return what a random order of the N pages gives as the ranks of the best relevant pages.

    The mean is the exact expectation, (N + 1)/(R + 1) for R relevant pages, over queries; the
    median is that of all queries' distributions together: the least rank by which the expected
    Success@rank reaches one half. Queries without relevant pages are left out; those whose relevant
    pages are all ``missing``, page keys that are not among the N, count with N as in ``summarise_ranks``.

    Raises:
        ValueError: If no query has a relevant page, or one has more than N.
    """
    pairs = zip(judge(qrels, {}), judge(without_pages(qrels, missing), {}), strict=True)
    counts = [len(present.relevant) for query, present in pairs if len(query.relevant)]
    if not counts or max(counts) > n_pages:
        raise ValueError(f"{max(counts, default=0)} relevant pages cannot be ranked among {n_pages}")

    def reached(rank: int) -> bool:
        return float(np.mean([none_drawn(rank, n, n_pages) for n in counts])) <= 0.5

    median = bisect.bisect_left(range(1, n_pages), True, key=reached) + 1
    means = [min((n_pages + 1) / (n + 1), n_pages) for n in counts]
    return RankSummary(float(median), float(np.mean(means)), counts.count(0))
