"""When to say that no page answers: how well scores tell, and the floor that can be promised."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from colret.conformal import queries_needed
from colret.grouping import grouped_folds
from colret.logistic import cross_fitted_probability
from colret_eval.evaluation.corpus import Corpus
from colret_eval.matrices import Bool, Float32
from colret_eval.measures import Float64, Int64
from colret_eval.score_floor import (
    COMBINATION,
    SIGNALS,
    background_pages,
    choose_floor,
    false_answers,
    signals,
    without_answers,
)
from colret_eval.statistics import auroc

ANSWERED: Final = 0.95
FOLDS: Final = 4  # half of them fit, half calibrate

_RESAMPLES = 500
_CURVE_POINTS = 41
_FEWEST = 3  # pages that a query must have left


class Kind(NamedTuple):
    """One way of having queries without an answer."""

    name: str
    what: str
    scores: Float32  # (m, N)
    n_tokens: Int64  # (m,)
    groups: Int64  # (m,) those of the queries they were made from, so that both are in one fold


def score_floors(
    corpus: Corpus, scores: Float32, n_tokens: Int64, query_groups: Int64, page_groups: Int64, seed: int = 0
) -> dict[str, Any]:
    """Return the ``score_floor`` of a report.

    Args:
        corpus: The set.
        scores: (Q + M, N) float32 of the reference, the M queries without an answer last.
        n_tokens: (Q + M,) of each query.
        query_groups: (Q,) from ``splits.query_groups``.
        page_groups: (N,) near-duplicate pages.
        seed: Of all randomness.
    """
    findable = np.flatnonzero(corpus.findable)
    n = len(corpus.query_ids)
    known = scores[:, findable]
    if len(findable) < _FEWEST:
        return {"kinds": [], "note": f"a floor needs {_FEWEST} pages"}
    background = background_pages(len(findable), np.random.default_rng(seed))
    answered = signals(known[:n], n_tokens[:n], background)
    kinds = []
    for kind in _kinds(corpus, known, n_tokens, query_groups, page_groups, findable):
        usable = _usable(kind.scores, background)
        if usable.any():
            without = signals(kind.scores[usable], kind.n_tokens[usable], background)
            kinds.append(_figures(kind, answered, query_groups, without, kind.groups[usable], seed))
    note = "z-scores are against the scores of 200 pages drawn at random; floors are of the reference's scores"
    return {"kinds": kinds, "note": note}


def _kinds(
    corpus: Corpus, scores: Float32, n_tokens: Int64, query_groups: Int64, page_groups: Int64, findable: Int64
) -> list[Kind]:
    n = len(corpus.query_ids)
    relevant = corpus.relevant[:, findable]
    _, documents = np.unique(np.array(corpus.documents)[findable], return_inverse=True)
    kinds = []
    if len(scores) > n:
        groups = query_groups.max(initial=0) + 1 + np.arange(len(scores) - n)
        kinds.append(Kind("given", "queries of the set that no page answers", scores[n:], n_tokens[n:], groups))
    for name, what, groups in (
        (
            "page removed",
            "answered queries whose relevant pages, and near-duplicates, are taken away",
            page_groups[findable],
        ),
        ("document removed", "answered queries whose relevant pages' whole documents are taken away", documents),
    ):
        rows = without_answers(scores[:n], relevant, groups)
        kinds.append(Kind(name, what, rows, n_tokens[:n], query_groups))
    return kinds


def _usable(scores: Float32, background: Int64) -> Bool:
    """Return which queries have enough pages left to be told about."""
    present = np.isfinite(scores)
    usable: Bool = (present.sum(axis=1) >= 2) & (present[:, background].sum(axis=1) >= _FEWEST)
    return usable


def _figures(
    kind: Kind, answered: Float64, groups: Int64, without: Float64, without_groups: Int64, seed: int
) -> dict[str, Any]:
    columns = {name: (answered[:, i], without[:, i]) for i, name in enumerate(SIGNALS)}
    features = np.concatenate([answered, without])
    has_answer = np.arange(len(features)) < len(answered)
    all_groups = np.concatenate([groups, without_groups])
    chosen, note = None, ""
    n_groups = len(np.unique(all_groups))
    folds = grouped_folds(all_groups, min(FOLDS, n_groups), np.random.default_rng(seed)) if n_groups > 1 else None
    if folds is not None and _both_kinds(has_answer, folds):
        combined = cross_fitted_probability(features, has_answer, folds)
        columns[COMBINATION] = (combined[: len(answered)], combined[len(answered) :])
    if folds is None or n_groups < FOLDS or not _both_kinds(has_answer, folds):
        note = "the queries' documents cannot be split into those that fit a floor and those that calibrate it"
    else:
        chosen = choose_floor(features, has_answer, folds, folds < FOLDS // 2, ANSWERED)
        if chosen is None:
            needed = queries_needed(ANSWERED)
            note = f"a floor for {ANSWERED:.0%} needs {needed} calibrating queries with an answer, and half are fewer"
    drawn = _draws(all_groups, has_answer, np.random.default_rng(seed))
    return {
        "kind": kind.name,
        "what": kind.what,
        "n_with": len(answered),
        "n_without": len(without),
        "signals": [
            {"signal": name, "auroc": _auroc(*pair, drawn), **_operating_point(*pair)} for name, pair in columns.items()
        ],
        "curve": {name: _curve(*pair) for name, pair in columns.items()},
        "chosen": chosen
        and {
            "signal": chosen.signal,
            **chosen.floor._asdict(),
            "false_answers": chosen.false_answers,
            "n_without": chosen.n_without,
        },
        "note": note,
    }


def _both_kinds(has_answer: Bool, folds: Int64) -> bool:
    """Tell whether a combination can be fitted without any one fold, and each fold holds queries of both kinds."""
    return all(len(set(has_answer[folds == fold].tolist())) == 2 for fold in np.unique(folds))


def _operating_point(answered: Float64, without: Float64) -> dict[str, float]:
    return false_answers(answered, without, ANSWERED)._asdict()


def _draws(groups: Int64, has_answer: Bool, rng: np.random.Generator) -> list[tuple[Int64, Int64]]:
    """Return resamples of queries, groups whole where there are 10: which with an answer, which without."""
    n_with = int(has_answer.sum())
    _, labels = np.unique(groups, return_inverse=True)
    if labels.max() < 9:
        labels = np.concatenate([np.arange(n_with), np.arange(len(labels) - n_with)])
    members = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]
    draws = []
    for _ in range(_RESAMPLES):
        rows = np.concatenate([members[group] for group in rng.integers(0, len(members), len(members))])
        with_answer, without = rows[rows < n_with], rows[rows >= n_with] - n_with
        if len(with_answer) and len(without):
            draws.append((with_answer, without))
    return draws


def _auroc(answered: Float64, without: Float64, draws: list[tuple[Int64, Int64]]) -> dict[str, float]:
    values = [auroc(answered[first], without[second]) for first, second in draws]
    low, high = np.quantile(values, [0.025, 0.975]) if values else (0.0, 1.0)
    return {"mean": auroc(answered, without), "low": float(low), "high": float(high)}


def _curve(answered: Float64, without: Float64) -> list[list[float]]:
    """Return shares of queries answered at floors from none to all: with an answer, and without."""
    floors = np.quantile(answered, np.linspace(1, 0, _CURVE_POINTS))
    return [[float(np.mean(answered >= floor)), float(np.mean(without >= floor))] for floor in floors]
