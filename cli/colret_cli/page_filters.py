"""Options that choose which pages may be found, as one condition."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

from colret_cli.options import complete_files

_DATES: Final = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S")


def _as_range(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int | None] | None:
    """Return the first and the last page of 3, 3-10, 3- or -10; None is the last there is."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d{0,9})(-?)(\d{0,9})", value.replace(" ", ""))
    if found is None or not (found[1] or found[3]):
        raise click.BadParameter(f"{value!r} is no range of pages, such as 3-10, 7 or 12-", ctx, parameter)
    first = int(found[1] or 1)
    last = int(found[3]) if found[3] else None if found[2] else first
    if first < 1 or (last is not None and last < first):
        raise click.BadParameter(f"{value!r} holds no page", ctx, parameter)
    return first, last


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that ``condition`` and a search's ``docs`` take."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def condition(
    where: str | None, pages: tuple[int, int | None] | None, after: datetime | None, before: datetime | None
) -> str | None:
    """Return the one SQL condition that all of them make; None if nothing is asked."""
    parts = [] if where is None else [where]
    if pages is not None:
        first, last = pages
        parts.append(f"page >= {first}" if last is None else f"page BETWEEN {first} AND {last}")
    for comparison, moment in ((">=", after), ("<", before)):
        if moment is not None:
            parts.append(f"modified {comparison} timestamp '{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}'")
    if len(parts) < 2:
        return parts[0] if parts else None
    return " AND ".join(f"({part}\n)" if part is where else part for part in parts)


_OPTIONS: Final = (
    click.option(
        "--where",
        metavar="SQL",
        help="Search only pages that satisfy a condition, such as \"path LIKE '%2023%' AND n_pages < 10\".",
    ),
    click.option(
        "--doc",
        "docs",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_files,
        help="Search only this file, id or pattern; repeatable.",
    ),
    click.option("--pages", callback=_as_range, metavar="FROM-TO", help="Search only these pages of documents."),
    click.option(
        "--after", type=click.DateTime(_DATES), metavar="DATE", help="Search only files modified on DATE or later."
    ),
    click.option(
        "--before", type=click.DateTime(_DATES), metavar="DATE", help="Search only files modified before DATE."
    ),
)
