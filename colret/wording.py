"""How figures and lanes are told in sentences: on a terminal, in a report and to an assistant."""

from __future__ import annotations

from typing import Final

RANKED_BY: Final = {"visual": "by late interaction", "text": "by words", "both": "by late interaction and words"}
"""How pages were ranked, by lane."""


def count(n: int, noun: str) -> str:
    """Return ``n`` with its noun: "1 page", "2 pages"."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
