"""Reading report.json, as ``colret eval run`` and ``colret eval sweep`` write it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from colret.errors import ColretError

RUN, SWEEP = "colret-eval-run", "colret-eval-sweep"
VERSION = 1
_PARTS = {
    RUN: ("created", "tool_version", "measures", "model", "machine", "sets"),
    SWEEP: ("created", "tool_version", "model", "machine", "set", "random", "rows"),
}
_SET_PARTS = ("name", "n_pages", "n_queries", "random", "reference", "systems", "queries")
_REMEDY = "name the report.json that colret eval run wrote"

Report = dict[str, Any]
"""What report.json holds."""


class ReportError(ColretError):
    """A report cannot be read, or not be compared with another."""


def read_report(path: Path, *schemas: str) -> Report:
    """Return the report in ``path``, or in its report.json where that is a folder.

    Args:
        path: File or folder.
        schemas: Kinds of report to accept: ``RUN``, ``SWEEP``.

    Raises:
        ReportError: If there is none, or it is of another kind or version, or lacks a part that all have.
    """
    file = path / "report.json" if path.is_dir() else path
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(file, f"cannot be read: {error.strerror or error}", _REMEDY) from error
    except ValueError as error:  # also of bytes that are no UTF-8
        raise ReportError(file, "is not JSON", _REMEDY) from error
    if not isinstance(report, dict) or report.get("schema") not in schemas:
        raise ReportError(file, "is no report of an evaluation", _REMEDY)
    if report.get("schema_version") != VERSION:
        problem = f"has version {report.get('schema_version')} of the report's schema, not {VERSION}"
        raise ReportError(file, problem, "evaluate again with this version of colret")
    missing = next(_missing(report), None)
    if missing:
        raise ReportError(file, f"lacks {missing}", "evaluate again")
    return report


def _missing(report: Report) -> Iterator[str]:
    yield from (repr(name) for name in _PARTS[report["schema"]] if name not in report)
    for data in report.get("sets", []):
        yield from (f"{name!r} of a set" for name in _SET_PARTS if name not in data)


def write_text(path: Path, text: str) -> None:
    """Write a report.

    Raises:
        ReportError: If it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ReportError(path, f"cannot be written: {error.strerror or error}", "name another file") from error
