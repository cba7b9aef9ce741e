"""Options that choose which pages may be found."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from colret.conditions import page_range
from colret.errors import FilterError, printable
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


@contextmanager
def naming_options(where: str | None) -> Iterator[None]:
    """Have a failure of a condition that options made name these: nobody wrote its SQL."""
    try:
        yield
    except FilterError as error:
        asked = click.get_current_context().params
        if where in (None, asked["where"]) or error.subject != printable(str(where)):
            raise
        raise FilterError(_as_typed(asked), error.problem, error.remedy) from error


def _as_typed(asked: dict[str, Any]) -> str:
    """Return the options of ``filter_options`` as they are typed."""
    typed = [("where", asked["where"]), *(("doc", name) for name in asked["docs"])]
    if asked["pages"] is not None:
        first, last = asked["pages"]
        typed.append(("pages", f"{first}" if first == last else f"{first}-{last or ''}"))
    for name in ("after", "before"):
        if asked[name] is not None:
            typed.append((name, asked[name].isoformat().removesuffix("T00:00:00")))
    return " ".join(f"--{name} {shlex.quote(value)}" for name, value in typed if value is not None)


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
