"""Cells and tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from colret.errors import one_line


def interval_cell(interval: dict[str, Any]) -> str:
    """Return a mean and its interval."""
    return f"{interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"


def difference_cell(difference: dict[str, Any]) -> str:
    """Return a difference, its interval and p-value, and whether it is a tie."""
    numbers = (f"{difference[name]:+z.3f}" for name in ("mean", "low", "high"))
    shown = "tie " if difference["verdict"] == "tie" else ""
    return "{}{} [{}, {}], p {:.3f}".format(shown, *numbers, difference["p_holm"])


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
