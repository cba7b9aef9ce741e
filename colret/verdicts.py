"""Whether any page answers a query: by the index's calibration, or else by a background of its pages."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np

from colret.background import FEWEST_PAGES, lifts
from colret.calibration import Calibration, load_calibration
from colret.search import Ranking, fresh
from colret.store import PageStore
from colret.types import QueryEmbedding

Basis = Literal["calibrated", "background", "none"]

LEAST_LIFT: Final[dict[str, float]] = {"text": 0.2}
"""By family of encoders, the share of the way from the median page to the ceiling that an answer covers at least.
Of 346 real questions with an answer, one falls below 0.2: see ``docs/score-floor.md``."""

UNMEASURED_LIFT: Final = 0.05
"""For other families, whose scores could not be measured here: what hardly stands out from the median page."""

_REMEDY = "calibrate it with: colret calibrate"


class Verdict(NamedTuple):
    """Which pages found are no answer."""

    basis: Basis  # what it was judged by
    below: tuple[bool, ...]  # for each hit, whether it is below the floor
    probability: float | None  # that the query has an answer, where half of all do; calibrated only
    caveat: str  # why it was not judged by a calibration, and the remedy; "" if it was

    @property
    def unanswered(self) -> bool:
        """Whether no page answers the query."""
        return all(self.below)

    @property
    def odds(self) -> str:
        """The odds that a page answers the query, such as "1 : 12"; "" if not calibrated."""
        return "" if self.probability is None else odds(self.probability)


def odds(probability: float) -> str:
    """Return the odds of a probability, the smaller side 1.

    >>> odds(0.25), odds(0.75), odds(0.5), odds(0.0)
    ('1 : 3', '3 : 1', '1 : 1', '1 : 999+')
    """
    rare, often = sorted((probability, 1 - probability))
    ratio = often / max(rare, 1e-9)
    shown = "999+" if ratio > 999 else f"{ratio:.1f}".removesuffix(".0") if ratio < 10 else f"{ratio:.0f}"
    return f"1 : {shown}" if probability <= 0.5 else f"{shown} : 1"


def judge(store: PageStore, query: QueryEmbedding, ranking: Ranking) -> Verdict:
    """Tell which hits of a ranking are no answer.

    Args:
        store: The index.
        query: As ``search.embed`` or ``words_only`` gives it.
        ranking: Of the query.
    """
    return fresh(store, lambda: _judge(store, query, ranking))


def _judge(store: PageStore, query: QueryEmbedding, ranking: Ranking) -> Verdict:
    calibration: Calibration | None = store.derived("calibration", lambda: load_calibration(store))
    if calibration is None:
        return _by_background(store, query, ranking, "the index is not calibrated")
    if misfit := calibration.misfit(store.settings, store.n_pages()):
        return _by_background(store, query, ranking, f"the calibration does not hold: {misfit}")
    floor = calibration.lanes.get(ranking.lane)
    if floor is None:
        mute = f"the calibration found that scores of lane {ranking.lane} do not tell"
        return _by_background(store, query, ranking, mute)
    scores = [hit.score for hit in ranking.hits]
    chance = floor.probability(max(scores)) if scores else None
    return Verdict("calibrated", tuple(score < floor.floor for score in scores), chance, "")


def _by_background(store: PageStore, query: QueryEmbedding, ranking: Ranking, misfit: str) -> Verdict:
    similarities = np.array([hit.maxsim / max(len(query.vectors), 1) for hit in ranking.hits], np.float32)
    found = lifts(store, query, similarities)
    if found is None:
        why = "this lane knows no background" if store.n_pages() >= FEWEST_PAGES else "too few pages for a background"
        return Verdict("none", (False,) * len(ranking.hits), None, f"{misfit}, and {why}; {_REMEDY}")
    least = LEAST_LIFT.get(store.settings.family, UNMEASURED_LIFT)
    caveat = f"{misfit}: judged by a background of its pages; {_REMEDY}"
    return Verdict("background", tuple((found < least).tolist()), None, caveat)
