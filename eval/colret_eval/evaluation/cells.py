"""Cells and tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from colret.errors import one_line

MAIN: Final = ("Success@1", "Success@5", "Recall@10", "nDCG@10", "MRR@10")
"""Measures of the first table; the others have one of their own."""


def interval_cell(interval: dict[str, Any]) -> str:
    """Return a mean and its interval."""
    return f"{interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"


def difference_cell(difference: dict[str, Any]) -> str:
    """Return a difference, its interval and p-value, and whether it is a tie."""
    numbers = (f"{difference[name]:+z.3f}" for name in ("mean", "low", "high"))
    shown = "tie " if difference["verdict"] == "tie" else ""
    return "{}{} [{}, {}], {}".format(shown, *numbers, probability(difference["p_holm"]))


def probability(p: float) -> str:
    """Return a p-value to three decimals: never as 0."""
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def cell(text: object) -> str:
    """Return text that cannot break a table, or be taken for markup."""
    plain = one_line(str(text))
    for mark in "\\|`*_<>[]":
        plain = plain.replace(mark, f"\\{mark}")
    return plain


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(map(str, row))} |" for row in rows)
