"""``colret doctor``: what keeps colret from working here."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

import click

from colret.errors import one_line
from colret_cli.options import device_option, index_option, json_option

if TYPE_CHECKING:
    from colret.doctor import Check
    from colret.location import Location

_COLORS = {"ok": "green", "warning": "yellow", "error": "red"}
_INDENT = " " * 22


@click.command()
@click.argument("model", required=False)
@index_option
@click.option("--revision", help="Branch, tag or commit of a model on the hub.")
@device_option
@click.option("--dtype", default="auto", show_default=True, help="auto, float32, bfloat16 or float16.")
@json_option
def doctor(
    model: str | None, index_path: Location, revision: str | None, device: str, dtype: str, as_json: bool
) -> None:
    """Check this machine, a MODEL and an index, and say what to do about what is wrong.

    Without MODEL, it is the index's, or what suits the machine. Exit code 1 means that
    something is in error; with warnings alone colret works.

    \b
    Example:
      colret doctor
      colret doctor colqwen2 --index archive
    """
    from colret.doctor import examine

    checks = []
    for check in examine(model, index_path, revision=revision, device=device, dtype=dtype):
        checks.append(check)
        if not as_json:
            click.echo(_as_text(check))
    if as_json:
        click.echo(json.dumps([check._asdict() for check in checks]))
    if any(check.status == "error" for check in checks):
        sys.exit(1)


def _as_text(check: Check) -> str:
    width = max(40, min(shutil.get_terminal_size((100, 24)).columns, 120))
    head = click.style(f"{check.status:<8}", fg=_COLORS[check.status]) + f" {check.name:<12} "
    lines = textwrap.wrap(one_line(check.found), width - len(_INDENT)) or [""]
    if check.remedy:
        lines += textwrap.wrap(f"-> {one_line(check.remedy)}", width - len(_INDENT), subsequent_indent="   ")
    return head + f"\n{_INDENT}".join(lines)
