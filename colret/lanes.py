"""Lanes: what pages are ranked by. Pure.

====== =======================================================================================
visual late interaction, MaxSim
text   BM25 over the pages' words
both   their weighted sum
====== =======================================================================================
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from colret.types import Float32, IndexSettings

Lane = Literal["visual", "text", "both"]
LANES: Final[tuple[Lane, ...]] = get_args(Lane)

TEXT_WEIGHT: Final = 0.5
"""Of a page's share of BM25 beside its mean similarity."""

CONTENTS_PENALTY: Final = 0.1
"""What a contents page loses of the weighted sum: more than its words usually gain it."""


def default_lane(settings: IndexSettings) -> Lane:
    """Return the lane that is best as far as it was measured.

    With encoders that read words, both: see ``docs/search.md``. With vision encoders, whose weights
    could not be run where this was measured, late interaction as published.
    """
    return "both" if settings.family == "text" else "visual"


def fuse(similarities: Float32 | None, shares: Float32, contents: NDArray[np.bool_]) -> Float32:
    """Return what pages are ranked by in the lanes that read words, (C,) float32.

    A convex combination with theoretical bounds (Bruch, Gai and Ingber, "An Analysis of Fusion
    Functions for Hybrid Retrieval", ACM TOIS 2023): both parts have a ceiling of 1 that depends on
    the query alone, so that a page's score does not depend on which others are candidates.

    Args:
        similarities: (C,) MaxSim divided by the number of query tokens; None leaves it out.
        shares: (C,) BM25 divided by its upper bound.
        contents: (C,) whether a page is a list of contents.
    """
    lost = np.float32(CONTENTS_PENALTY) * contents
    if similarities is None:
        return shares - lost / np.float32(TEXT_WEIGHT)
    return similarities + np.float32(TEXT_WEIGHT) * shares - lost
