"""Contents pages: they name what other pages say, and so attract the queries that those answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

LEADER_SHARE: Final = 0.15
"""Of a contents page's words, more than this are dot leaders: 12 of 309 pages of three kinds of manuals, none else."""

FEWEST_WORDS: Final = 20
"""On a page, for a share of them to mean anything."""

_LEADER = re.compile(r"\.{3,}|\u2026|\A[.\u00b7\u2024]+\Z")


def is_contents(words: Sequence[str]) -> bool:
    """Tell whether a page is a list of contents, figures or tables, by the dots that lead to the page numbers.

    Lists without dots are not told: pages with many bare numbers are tables as often, and those
    are answers.
    """
    n_leaders = sum(bool(_LEADER.search(word)) for word in words)
    return len(words) >= FEWEST_WORDS and n_leaders > LEADER_SHARE * len(words)
