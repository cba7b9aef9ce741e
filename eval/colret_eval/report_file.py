"""Reading and writing reports: report.json and what ``colret eval`` puts beside it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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
_TYPES: Mapping[str, type] = {
    "name": str,
    "reference": str,
    **dict.fromkeys(("n_pages", "n_queries"), int),
    **dict.fromkeys(("model", "machine", "random", "set"), dict),
    **dict.fromkeys(("sets", "systems", "queries", "measures", "rows"), list),
}
"""What parts of a report and of a set are, as far as that is checked."""

_AGAIN = "evaluate again"
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
    except RecursionError as error:
        raise ReportError(file, "is damaged (nested too deep)", _AGAIN) from error
    except ValueError as error:  # also of bytes that are no UTF-8
        raise ReportError(file, "is not JSON", _REMEDY) from error
    if not isinstance(report, dict) or report.get("schema") not in schemas:
        raise ReportError(file, "is no report of an evaluation", _REMEDY)
    if report.get("schema_version") != VERSION:
        problem = f"has version {report.get('schema_version')!r} of the report's schema, not {VERSION}"
        raise ReportError(file, problem, f"{_AGAIN} with this version of colret")
    missing = next(_missing(report), None)
    if missing:
        raise ReportError(file, f"lacks {missing}", _AGAIN)
    wrong = next(_wrong(report), None)
    if wrong:
        raise ReportError(file, f"is damaged ({wrong})", _AGAIN)
    return report


@contextmanager
def naming_damage(*files: Path) -> Iterator[None]:
    """Tell that a report is damaged where its use shows it: what ``read_report`` checks is not all there can be.

    Raises:
        ReportError: The block failed on what a report holds.
    """
    try:
        yield
    except (ColretError, ImportError, MemoryError):
        raise
    except Exception as error:  # whatever a wrong type, a missing part or a template made of it leads to
        subject = " or ".join(dict.fromkeys(map(str, files)))
        raise ReportError(subject, f"is damaged ({type(error).__name__}: {error})", _AGAIN) from error


def _missing(report: Report) -> Iterator[str]:
    yield from (repr(name) for name in _PARTS[report["schema"]] if name not in report)
    for data in _sets(report):
        yield from (f"{name!r} of a set" for name in _SET_PARTS if name not in data)


def _sets(report: Report) -> list[Report]:
    sets = report.get("sets")
    return [data for data in sets if isinstance(data, dict)] if isinstance(sets, list) else []


def _wrong(report: Report) -> Iterator[str]:
    """Yield what parts are not what they should be."""
    if report["schema"] == RUN and not report["sets"]:
        yield "it has no sets"
    for part in (report, *_sets(report)):
        for name, kind in _TYPES.items():
            value = part.get(name)
            if name in part and (not isinstance(value, kind) or isinstance(value, bool)):
                yield f"{name!r} is {type(value).__name__}, not {kind.__name__}"
            elif isinstance(value, list) and not all(isinstance(row, dict) for row in value):
                yield f"not all of {name!r} are objects"


def write_text(path: Path, text: str) -> None:
    """Write a report as a whole or not at all: what was there stays until all is written.

    Raises:
        ReportError: If it cannot be written.
    """
    with _naming_failure(path):
        if path.exists() and not path.is_file():  # a pipe or device has nothing to keep
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        path = Path(os.path.realpath(path))  # a link stays one
        new = path.with_name(f".{path.name[:100]}.{os.getpid()}.new")
        try:
            new.write_text(text, encoding="utf-8", newline="\n")
            new.replace(path)
        finally:
            with suppress(OSError):
                new.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path, suffix: str) -> Iterator[Path]:
    """Give a new folder to fill, which takes the place of ``folder`` when the block ends, if nothing failed.

    Args:
        folder: What is to be replaced, there or not; the new one is made beside it, at once.
        suffix: Of all files that ``folder`` may hold; with others it is somebody else's, and is refused.

    Raises:
        ReportError: If the folder cannot be made or replaced.
    """
    folder = Path(os.path.realpath(folder))  # a link stays one
    new, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    with _naming_failure(folder):
        other = next((path for path in folder.rglob("*") if path.suffix != suffix and not path.is_dir()), None)
        if other or (folder.exists() and not folder.is_dir()):
            raise ReportError(other or folder, "is in the way, and is not a report's", "name another folder with --out")
        new.mkdir()
    try:
        yield new
        with _naming_failure(folder):
            if folder.exists():
                folder.replace(old)
            new.replace(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _naming_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ReportError(path, f"cannot be written: {error.strerror or error}", "name another place") from error
