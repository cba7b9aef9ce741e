"""Pages that turn up where they answer nothing, and whether correcting for it helps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from colret.grouping import grouped_folds
from colret_eval.evaluation.comparison import Judge
from colret_eval.evaluation.corpus import Corpus
from colret_eval.hubness import CORRECTIONS, K, cross_fitted, hubness, largest_hubs, length_correlation, occurrences
from colret_eval.matrices import Bool, Float32, to_run
from colret_eval.measures import Float64, Int64, evaluate, ndcg

FOLDS: Final = 5
_MEASURE = ndcg(10)


def hubs(corpus: Corpus, scores: Float32, n_tokens: Int64, groups: Int64, judge: Judge) -> dict[str, Any]:
    """Return the ``hubness`` of a report.

    Args:
        corpus: The set.
        scores: (Q, N) float32 of the reference, for the queries with an answer.
        n_tokens: (Q,) of each query.
        groups: (Q,) from ``splits.query_groups``.
        judge: Of the set.
    """
    findable = np.flatnonzero(corpus.findable)
    per_token = (scores / n_tokens[:, None]).astype(np.float32)[:, findable]
    relevant = corpus.relevant[:, findable]
    counts = occurrences(per_token)
    wrong = occurrences(per_token, excluding=relevant)
    n_vectors = np.array([corpus.records[corpus.page_ids[column]].n_vectors for column in findable], np.int64)
    correlation = length_correlation(per_token, n_vectors) if len(findable) > 1 else float("nan")
    corrections, note = _corrections(corpus, per_token, relevant, findable, groups, judge)
    return {
        "k": K,
        **hubness(counts, len(scores))._asdict(),
        "histogram": _histogram(counts, len(scores)),
        "hubs": [
            {
                **corpus.page(corpus.keys[findable[page]]),
                "occurrences": int(counts[page]),
                "wrong": int(wrong[page]),
                "n_vectors": int(n_vectors[page]),
                "chance": _chance(int(wrong[page]), len(scores), len(counts)),
            }
            for page in largest_hubs(counts).tolist()
        ],
        "length_correlation": None if np.isnan(correlation) else correlation,
        "corrections": corrections,
        "note": note,
    }


def _corrections(
    corpus: Corpus, scores: Float32, relevant: Bool, findable: Int64, groups: Int64, judge: Judge
) -> tuple[list[dict[str, Any]], str]:
    n_folds = min(FOLDS, len(np.unique(groups)))
    if n_folds < 2:
        return (
            [],
            "all queries are about documents that belong together: no correction can be fitted apart from its test",
        )
    folds = grouped_folds(groups, n_folds, np.random.default_rng(judge.seed))
    if min(len(folds) - np.bincount(folds)) < 2 or any(not relevant[folds != fold].any() for fold in range(n_folds)):
        return [], "too few queries to fit a correction on"
    raw = _ndcg(corpus, scores, findable)
    after = {
        name: {_MEASURE.name: _ndcg(corpus, cross_fitted(scores, relevant, folds, correction), findable)}
        for name, correction in CORRECTIONS.items()
    }
    corrected = judge.intervals({name: row[_MEASURE.name] for name, row in after.items()})
    differences = judge.differences(after, {name: {_MEASURE.name: raw} for name in after})
    rows = [
        {
            "name": name,
            "measure": _MEASURE.name,
            "corrected": corrected[name],
            "difference": differences[name][_MEASURE.name],
        }
        for name in after
    ]
    return rows, f"each query is corrected by what the queries of {n_folds - 1} other groups of documents teach"


def _ndcg(corpus: Corpus, scores: Float32, findable: Int64) -> Float64:
    run = to_run(scores, corpus.query_ids, [corpus.keys[column] for column in findable], 10)
    return evaluate(corpus.qrels, run, [_MEASURE])[_MEASURE.name]


def _chance(n_wrong: int, n_queries: int, n_pages: int) -> float:
    """Return the probability that a random order would put any page among the first K so often, or a bound above it."""
    from scipy.special import bdtrc

    p = min(K / n_pages, 1.0)
    return min(n_pages * float(bdtrc(n_wrong - 1, n_queries, p)), 1.0) if n_wrong else 1.0


def _histogram(counts: Int64, n_queries: int) -> list[dict[str, Any]]:
    """Return how many pages occur how often, beside the binomial expectation."""
    from scipy.special import gammaln, xlog1py, xlogy

    p = min(K / len(counts), 1.0)
    times = np.arange(int(counts.max()) + 1)
    choose = gammaln(n_queries + 1) - gammaln(times + 1) - gammaln(n_queries - times + 1)
    expected = len(counts) * np.exp(choose + xlogy(times, p) + xlog1py(n_queries - times, -p))
    pages = np.bincount(counts)
    rows = zip(times.tolist(), pages.tolist(), expected.tolist(), strict=True)
    return [{"occurrences": n, "pages": found, "expected_pages": by_chance} for n, found, by_chance in rows]
