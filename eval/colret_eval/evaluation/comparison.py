"""Systems compared: each measure with its interval, and the reference minus each other system."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import numpy as np

from colret_eval.evaluation.corpus import Corpus
from colret_eval.matrices import Bool, Float32, best_relevant_ranks, to_run
from colret_eval.measures import STANDARD, Float64, Qrels, Run, evaluate, random_baseline
from colret_eval.ranks import chance_ranks, summarise_ranks
from colret_eval.statistics import Interval, bootstrap_intervals, holm, randomisation_test

Key = TypeVar("Key", bound=Hashable)
Values = Mapping[str, Float64]
"""Measure to its value for each query, (Q,)."""

DEPTH: Final = 1000
"""Pages of a ranking that measures see, as trec_eval's."""

SIGNIFICANT: Final = 0.05

EXPLANATIONS: Final = {
    "Recall@1": "share of a query's relevant pages found in the first place",
    "Recall@5": "share of a query's relevant pages among the first 5",
    "Recall@10": "share of a query's relevant pages among the first 10",
    "Success@1": "share of queries whose first page is relevant",
    "Success@5": "share of queries with a relevant page among the first 5",
    "Success@10": "share of queries with a relevant page among the first 10",
    "nDCG@5": "how well the first 5 are ordered, better pages higher up counting more; 1 is the best possible order",
    "nDCG@10": "how well the first 10 are ordered, better pages higher up counting more; 1 is the best possible order",
    "MRR@10": "mean of 1 / rank of the first relevant page; 0 where none is among the first 10",
    "mAP": "mean over relevant pages of the share of relevant ones among those up to it",
}


@dataclass(frozen=True, slots=True)
class Judge:
    """What all intervals of a set have in common: the queries' documents, and one seed, so one draw of resamples."""

    sources: Sequence[str]
    seed: int = 0

    def intervals(self, columns: Mapping[Key, Float64]) -> dict[Key, dict[str, Any]]:
        """Return the 95 % interval of the mean of each (Q,) column."""
        if not columns:
            return {}
        rng = np.random.default_rng(self.seed)
        found = bootstrap_intervals(np.stack(list(columns.values()), axis=1), self.sources, rng)
        return {key: as_json(interval) for key, interval in zip(columns, found, strict=True)}

    def differences(
        self, first: Mapping[Key, Values], second: Mapping[Key, Values]
    ) -> dict[Key, dict[str, dict[str, Any]]]:
        """Return first minus second, by key and measure; Holm corrects over the keys, within a measure."""
        columns = {(k, m): first[k][m] - values for k, row in second.items() for m, values in row.items()}
        found = self.intervals(columns)
        p = {(k, m): self._p(first[k][m], values) for k, row in second.items() for m, values in row.items()}
        result: dict[Key, dict[str, dict[str, Any]]] = {key: {} for key in second}
        for measure in dict.fromkeys(measure for _, measure in p):
            keys = [key for key, other in p if other == measure]
            for key, adjusted in zip(keys, holm([p[key, measure] for key in keys]).tolist(), strict=True):
                interval = found[key, measure]
                result[key][measure] = interval | {
                    "p": p[key, measure],
                    "p_holm": adjusted,
                    "verdict": verdict(interval["low"], interval["high"], adjusted),
                }
        return result

    def _p(self, first: Float64, second: Float64) -> float:
        return randomisation_test(first, second, self.sources, np.random.default_rng(self.seed))


def as_json(interval: Interval) -> dict[str, Any]:
    """Return an interval as it stands in a report."""
    return interval._asdict()


def verdict(low: float, high: float, p: float) -> Literal["better", "worse", "tie"]:
    """Return what a difference shows: nothing unless its interval leaves out 0 and its corrected p-value is low."""
    if low <= 0 <= high or p >= SIGNIFICANT:
        return "tie"
    return "better" if low > 0 else "worse"


def run_of(corpus: Corpus, scores: Float32) -> Run:
    """Return a matrix as the run of the queries with an answer."""
    n = len(corpus.query_ids)
    return to_run(scores[:n], corpus.query_ids, corpus.keys, min(DEPTH, len(corpus.keys)))


def values_of(qrels: Qrels, run: Run) -> dict[str, Float64]:
    """Return every standard measure of each query."""
    return evaluate(qrels, run, STANDARD)


def ranks_of(scores: Float32, relevant: Bool) -> Float64:
    """Return the rank of each answered query's best relevant page, ``inf`` where the system does not return it."""
    return best_relevant_ranks(scores[: len(relevant)], relevant)


def chance(corpus: Corpus) -> tuple[dict[str, float], dict[str, float]]:
    """Return what a random order of the pages gives: each measure, and the median and mean of ranks."""
    missing = {key for key, findable in zip(corpus.keys, corpus.findable.tolist(), strict=True) if not findable}
    by_query = random_baseline(corpus.qrels, STANDARD, corpus.n_pages, missing)
    means = {m: float(v.mean()) for m, v in by_query.items()}
    ranks = chance_ranks(corpus.qrels, corpus.n_pages, missing)
    return means, {"median": ranks.median, "mean": ranks.mean}


def compare(
    values: Mapping[str, Values], ranks: Mapping[str, Float64], reference: str, judge: Judge, n_pages: int
) -> dict[str, dict[str, Any]]:
    """Return by system its ``measures``, ``ranks`` and ``differences`` (the reference minus it)."""
    flat = judge.intervals({(s, m): v for s, row in values.items() for m, v in row.items()})
    others = {system: row for system, row in values.items() if system != reference}
    differences = judge.differences(dict.fromkeys(others, values[reference]), others)
    return {
        system: {
            "measures": {measure: flat[system, measure] for measure in row},
            "ranks": summarise_ranks(ranks[system], n_pages)._asdict(),
            "differences": differences.get(system),
        }
        for system, row in values.items()
    }
