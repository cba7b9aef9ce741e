"""Options that choose which pages may be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from colret.conditions import page_range
from colret_cli.options import complete_files

_DATES: Final = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S")


def _as_range(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int | None] | None:
    """Return the first and the last page of 3, 3-10, 3- or -10; None is the last there is."""
    if value is None:
        return None
    try:
        return page_range(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that ``condition`` and a search's ``docs`` take."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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
