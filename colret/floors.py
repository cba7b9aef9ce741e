"""A score floor: the odds that a best score is an answer's, and the score that nearly all answers reach. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colret.conformal import conformal_floor
from colret.grouping import grouped_folds
from colret.logistic import fit_logistic
from colret.types import Int64

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

ANSWERED: Final = 0.95
"""Share of the queries with an answer that a floor keeps."""

_FOLDS = 5
_SEED = 0


class Scored(NamedTuple):
    """Best scores of n queries."""

    scores: Float64  # (n,)
    answered: Bool  # (n,) whether the query has an answer
    groups: Int64  # (n,) queries about one document share one


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor of one kind of scores, and what it does to queries that did not set it."""

    floor: float  # scores below it are no answer's
    bias: float  # of the log odds of an answer, as many queries having one as not
    slope: float  # of them, per unit of score; above 0
    auroc: float  # probability that the best score of a query with an answer is above that of one without
    kept: float | None  # share of held-out queries with an answer that reach the floor of the others
    caught: float | None  # share of held-out queries without an answer that do not; None where none can be held out

    def probability(self, score: float) -> float:
        """Return the probability that a query with that best score has an answer, where half of all do."""
        return float(1 / (1 + np.exp(-np.clip(self.bias + self.slope * score, -500, 500))))


def fit_floor(scored: Scored) -> Floor | None:
    """Return the conformal floor that keeps ``ANSWERED`` of the answered queries, and the odds at each score.

    Returns:
        None where queries with and without an answer do not differ, one kind is missing, or those
        with an answer are too few to promise anything.
    """
    scores, answered, _ = scored
    promised = conformal_floor(scores[answered], ANSWERED)
    if promised is None or answered.all():
        return None
    area = _auroc(scores[answered], scores[~answered])
    fitted = fit_logistic(scores[:, None], answered)
    # As if there were as many of either kind: their numbers here say nothing about users.
    balance = float(np.log(answered.mean() / (1 - answered.mean())))
    slope = float(fitted.weights[0] / fitted.scale[0])
    if area <= 0.5 or slope <= 0:
        return None
    bias = fitted.bias - float(fitted.mean[0]) * slope - balance
    return Floor(promised.floor, bias, slope, area, *_held_out(scored))


def _held_out(scored: Scored) -> tuple[float | None, float | None]:
    """Return the shares kept and caught of groups of queries, each by a floor of the other groups."""
    scores, answered, groups = scored
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        return None, None
    folds = grouped_folds(groups, min(_FOLDS, n_groups), np.random.default_rng(_SEED))
    passed = np.zeros(len(scores), np.bool_)
    tested = np.zeros(len(scores), np.bool_)
    for fold in np.unique(folds):
        mine = folds == fold
        others = conformal_floor(scores[~mine & answered], ANSWERED)
        if others is not None:
            passed[mine] = scores[mine] >= others.floor
            tested |= mine
    with_answer, without = tested & answered, tested & ~answered
    if not with_answer.any() or not without.any():
        return None, None
    return float(passed[with_answer].mean()), float(1 - passed[without].mean())


def _auroc(positive: Float64, negative: Float64) -> float:
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(positive, negative).statistic) / (len(positive) * len(negative))
