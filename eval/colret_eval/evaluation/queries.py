"""What a report tells of each query, and which queries are worth a look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from colret_eval.evaluation.corpus import Corpus
from colret_eval.evaluation.headline import MEASURE
from colret_eval.evaluation.systems import BASELINES, REFERENCE
from colret_eval.matrices import Float32, first_columns
from colret_eval.measures import Float64, Int64

TOP: Final = 3
"""Pages of the reference's ranking that are named."""

SHOWN: Final = 10
"""Worst failures and largest regressions that get pictures."""

_TOLD = (MEASURE, "Success@1", "Success@5")


class Shown(NamedTuple):
    """Queries that a person should look at."""

    worst: list[str]  # query ids, the worst first
    regressions: list[str]
    regressions_against: str | None  # the best baseline


def query_rows(
    corpus: Corpus,
    scores: Float32,
    n_tokens: Int64,
    values: Mapping[str, Mapping[str, Float64]],
    ranks: Mapping[str, Float64],
    lost: Mapping[str, str | None],
) -> list[dict[str, Any]]:
    """Return the ``queries`` of a report.

    Args:
        corpus: The set.
        scores: (Q, N) float32 of the reference.
        n_tokens: (Q,) of each query.
        values: By system and measure, (Q,).
        ranks: By system, (Q,) of the best relevant page.
        lost: By query id, the stage that lost its last relevant page.
    """
    top = first_columns(scores, TOP)
    rows = []
    for row, query_id in enumerate(corpus.query_ids):
        best = [column for column in top[row].tolist() if scores[row, column] > -np.inf]
        grades = corpus.qrels[query_id]
        per_token = (scores[row, best] / n_tokens[row]).tolist()
        rows.append(
            {
                "id": query_id,
                "text": corpus.dataset.queries[query_id],
                "source": corpus.dataset.sources[query_id],
                "relevant": [corpus.page(key) | {"grade": grade} for key, grade in grades.items() if grade > 0],
                "ranks": {system: _rank(found[row]) for system, found in ranks.items()},
                "values": {s: {name: float(of[name][row]) for name in _TOLD} for s, of in values.items()},
                "lost_at": lost.get(query_id),
                "top": [
                    corpus.page(corpus.keys[column]) | {"score": score, "relevant": bool(corpus.relevant[row, column])}
                    for column, score in zip(best, per_token, strict=True)
                ],
                "score": per_token[0] if per_token else None,
            }
        )
    return rows


def shown_queries(corpus: Corpus, values: Mapping[str, Mapping[str, Float64]], ranks: Mapping[str, Float64]) -> Shown:
    """Return the reference's worst failures, and where it is furthest behind the best baseline."""
    ours = values[REFERENCE][MEASURE]
    # Of equal values the one whose best relevant page is further down is the worse.
    by_failure = np.lexsort((-ranks[REFERENCE], ours))
    worst = [corpus.query_ids[row] for row in by_failure[:SHOWN].tolist() if ours[row] < 1]
    baselines = {system: values[system][MEASURE] for system in BASELINES if system in values}
    if not baselines:
        return Shown(worst, [], None)
    best = max(baselines, key=lambda system: float(baselines[system].mean()))
    behind = baselines[best] - ours
    by_loss = np.argsort(-behind, kind="stable")[:SHOWN].tolist()
    return Shown(worst, [corpus.query_ids[row] for row in by_loss if behind[row] > 0], best)


def pictured(rows: Sequence[dict[str, Any]], shown: Shown) -> list[str]:
    """Return the keys of the pages that shown queries should have had, and of those they got first."""
    wanted = {*shown.worst, *shown.regressions}
    told = [row for row in rows if row["id"] in wanted]
    return [page["key"] for row in told for page in (*row["relevant"][:TOP], *row["top"])]


def _rank(rank: float) -> int | None:
    return int(rank) if np.isfinite(rank) else None
