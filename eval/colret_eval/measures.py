"""Measures of a ranking against relevance judgements, by trec_eval's conventions.

Recall@k is the share of a query's relevant pages found among its first k; Success@k (hit
rate) is whether any was found. They are equal only where one page is relevant.

Conventions, so that figures compare with published ones: pages rank by score and, where
scores tie, by page key in *descending* order (unlike trec_eval's, scores are not rounded to
float32 first); a page is relevant from grade 1; what is not judged has grade 0; every query of
the qrels counts, with 0 where the run lacks it; queries that only the run has are ignored.
Values are per query, in the order of the qrels, so that statistics can pair them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Qrels = dict[str, dict[str, int]]
"""Query id to page key to grade; relevant from grade 1."""

Run = dict[str, dict[str, float]]
"""Query id to page key to score; higher is better."""

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Judged(NamedTuple):
    """One query's ranking as seen by a measure."""

    grades: Int64  # (n,) grade of each returned page in rank order, never negative
    relevant: Int64  # (R,) grades of the query's relevant pages, descending, found or not


@dataclass(frozen=True, slots=True)
class Measure:
    """A named measure: its value for one ranking, and what chance alone would give."""

    name: str
    value: Callable[[Judged], float]
    chance: Callable[[Int64, Int64, int], float]
    """Of (relevant (R,), those of them that are in the corpus (F,), N): expectation for a random order."""


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Return page keys by score, then key, both descending, as trec_eval orders them.

    Raises:
        ValueError: If a score is NaN, which has no place in an order.
    """
    if any(math.isnan(score) for score in scores.values()):
        raise ValueError("a run holds a score that is not a number")
    return sorted(scores, key=lambda key: (scores[key], key), reverse=True)


def judge(qrels: Qrels, run: Run) -> list[Judged]:
    """Return each query's ranking as grades, in the order of ``qrels``."""
    judged = []
    for query_id, grades in qrels.items():
        order = ranked(run.get(query_id, {}))
        relevant = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
        found = [max(grades.get(key, 0), 0) for key in order]
        judged.append(Judged(np.array(found, np.int64), np.array(relevant, np.int64)))
    return judged


def evaluate(qrels: Qrels, run: Run, measures: Sequence[Measure]) -> dict[str, Float64]:
    """Return by measure name the value of each query: (Q,) float64 in the order of ``qrels``."""
    judged = judge(qrels, run)
    return {m.name: np.array([m.value(query) for query in judged], np.float64) for m in measures}


def random_baseline(
    qrels: Qrels, measures: Sequence[Measure], n_pages: int, missing: Collection[str] = ()
) -> dict[str, Float64]:
    """Return by measure name the exact expectation of a random order of the N pages, (Q,) as ``evaluate``.

    Args:
        qrels: Judgements.
        measures: What is expected.
        n_pages: N.
        missing: Page keys of the qrels that are not among the N: relevant, but in no order.

    Raises:
        ValueError: If a query has more relevant pages in the corpus than that has pages.
    """
    relevant = [query.relevant for query in judge(qrels, {})]
    present = [query.relevant for query in judge(without_pages(qrels, missing), {})]
    if any(len(grades) > n_pages for grades in present):
        raise ValueError(f"a query has more relevant pages than the {n_pages} of the corpus")
    pairs = list(zip(relevant, present, strict=True))
    return {m.name: np.array([m.chance(*pair, n_pages) for pair in pairs], np.float64) for m in measures}


def without_pages(qrels: Qrels, missing: Collection[str]) -> Qrels:
    """Return qrels of the same queries without judgements of some pages."""
    return {query: {key: grades[key] for key in grades if key not in missing} for query, grades in qrels.items()}


def best_ranks(qrels: Qrels, run: Run) -> Float64:
    """Return the rank from 1 of each query's best-placed relevant page, ``inf`` where none was returned.

    (Q,) float64 in the order of ``qrels``.
    """
    return np.array([_first_relevant(query.grades) for query in judge(qrels, run)], np.float64)


def success(k: int) -> Measure:
    """Return Success@k: 1 where any relevant page is among the first k, else 0.

    Chance: one minus the hypergeometric probability of drawing none, which is k/N where one
    page is relevant.
    """
    _check_cutoff(k)
    return Measure(
        f"Success@{k}",
        lambda query: float(query.grades[:k].any()),
        lambda relevant, present, n_pages: 1.0 - none_drawn(k, len(present), n_pages),
    )


def recall(k: int) -> Measure:
    """Return Recall@k: the share of the query's relevant pages found among the first k.

    Chance: the hypergeometric mean kF/N over R, so k/N where all of them are in the corpus.
    """
    _check_cutoff(k)
    return Measure(
        f"Recall@{k}",
        lambda query: np.count_nonzero(query.grades[:k]) / max(len(query.relevant), 1),
        lambda relevant, present, n_pages: min(k, n_pages) / n_pages * len(present) / max(len(relevant), 1),
    )


def reciprocal_rank(k: int) -> Measure:
    """Return MRR@k: one over the rank of the first relevant page, 0 where that is beyond k.

    Chance: the sum over ranks r of 1/r times the probability that r holds the first.
    """
    _check_cutoff(k)

    def chance(relevant: Int64, present: Int64, n_pages: int) -> float:
        missed = [none_drawn(rank, len(present), n_pages) for rank in range(min(k, n_pages) + 1)]
        return sum((missed[rank - 1] - missed[rank]) / rank for rank in range(1, len(missed)))

    def value(query: Judged) -> float:
        rank = _first_relevant(query.grades)
        return 1.0 / rank if rank <= k else 0.0

    return Measure(f"MRR@{k}", value, chance)


def ndcg(k: int) -> Measure:
    """Return nDCG@k: DCG of the first k over that of the best possible order.

    Gain is the grade and the discount log2(rank + 1): Järvelin and Kekäläinen, "Cumulated
    gain-based evaluation of IR techniques" (TOIS 2002), in trec_eval's form (``ndcg_cut``).
    Chance: every rank holds the mean grade of the corpus in expectation.
    """
    _check_cutoff(k)

    def value(query: Judged) -> float:
        return _dcg(query.grades[:k]) / _dcg(query.relevant[:k]) if len(query.relevant) else 0.0

    def chance(relevant: Int64, present: Int64, n_pages: int) -> float:
        if not len(relevant):
            return 0.0
        flat = _dcg(np.ones(min(k, n_pages), np.int64))
        return float(present.sum()) / n_pages * flat / _dcg(relevant[:k])

    return Measure(f"nDCG@{k}", value, chance)


def average_precision() -> Measure:
    """Return mAP: precision at each relevant page's rank, summed, over the number of relevant pages.

    A relevant page that was not returned adds 0 (trec_eval's ``map``). Chance: given one of
    F relevant pages at rank r, each of the r - 1 ranks above holds one with (F - 1)/(N - 1).
    """

    def value(query: Judged) -> float:
        ranks = np.flatnonzero(query.grades) + 1
        return float((np.arange(1, len(ranks) + 1) / ranks).sum()) / max(len(query.relevant), 1)

    def chance(relevant: Int64, present: Int64, n_pages: int) -> float:
        ranks = np.arange(1, n_pages + 1)
        others = (len(present) - 1) / max(n_pages - 1, 1)
        return float(((1 + (ranks - 1) * others) / ranks).mean()) * len(present) / max(len(relevant), 1)

    return Measure("mAP", value, chance)


def none_drawn(k: int, n_relevant: int, n_pages: int) -> float:
    """Return the probability that none of R relevant pages is among k drawn from N: C(N-R, k) / C(N, k)."""
    drawn = np.arange(n_relevant)
    return float(np.clip((n_pages - k - drawn) / (n_pages - drawn), 0.0, 1.0).prod())


def _check_cutoff(k: int) -> None:
    if k < 1:
        raise ValueError(f"a cutoff is at least 1, not {k}")


def _first_relevant(grades: Int64) -> float:
    return int(np.argmax(grades > 0)) + 1 if grades.any() else math.inf


def _dcg(grades: Int64) -> float:
    return float((grades / np.log2(np.arange(2, len(grades) + 2))).sum())


STANDARD = (
    *(recall(k) for k in (1, 5, 10)),
    *(success(k) for k in (1, 5, 10)),
    ndcg(5),
    ndcg(10),
    reciprocal_rank(10),
    average_precision(),
)
"""What a report gives for each system; the two nDCG are those of ViDoRe's leaderboards."""
