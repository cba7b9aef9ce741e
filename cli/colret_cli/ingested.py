"""What ``colret ingest`` prints: what it did, or would do."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from colret.wording import count
from colret_cli.output import show_bytes, show_path

if TYPE_CHECKING:
    from colret.location import Location
    from colret.report import IngestReport, Skipped
    from colret.sync import Plan
    from colret.types import IndexInfo

_FEW_VECTORS: Final = 100  # for each dimension that a projection keeps
_MOST_SKIPPED: Final = 20  # lines
_MOST_VANISHED: Final = 3  # names
_CHANGES: Final = {
    "new": "new",
    "changed": "changed",
    "retried": "to read again",
    "moved": "copied or renamed",
    "vanished": "vanished",
    "unusable": "unusable",
}


def print_report(
    report: IngestReport, info: IndexInfo, index_path: Location, seconds: float, *, prune: bool, as_json: bool
) -> None:
    """Print what an ingest did, and what the index holds now."""
    if as_json:
        index = {name: getattr(info, name) for name in ("n_documents", "n_pages", "bytes_on_disk")}
        click.echo(json.dumps(_values(report) | {"index": index, "seconds": round(seconds, 3)}))
        return
    rate = f" ({report.n_pages / seconds:.1f} pages/s)" if report.n_pages else ""
    click.echo(f"{_summary(report)}, in {seconds:.1f} s{rate}")
    _print_details(report, info, prune=prune)
    each = f", {show_bytes(info.bytes_on_disk / info.n_pages)} a page" if info.n_pages else ""
    click.echo(
        f"{index_path}: {count(info.n_documents, 'document')}, {count(info.n_pages, 'page')}, "
        f"{show_bytes(info.bytes_on_disk)} on disk{each}"
    )
    _print_skipped(report.skipped)


def print_sync(report: IngestReport, before: IngestReport, moment: str, *, as_json: bool) -> None:
    """Print what a sync did while folders are watched: one line, or none, and what it skipped for the first time."""
    told = set(before.skipped)
    skipped = [item for item in report.skipped if item not in told]
    done = report.n_added or report.n_moved or report.n_replaced or report.n_pruned
    if not (done or skipped or set(report.vanished) - set(before.vanished) or _has_come_back(report, before)):
        return
    if as_json:
        click.echo(json.dumps(_values(report) | {"time": moment}))
        return
    vanished = f", {len(report.vanished)} vanished" if report.vanished else ""
    click.echo(f"{moment} {_summary(report)}{vanished}")
    _print_skipped(skipped)


def print_plan(plan: Plan, *, prune: bool, as_json: bool) -> None:
    """Print what an ingest would do."""
    paths = {change: plan.paths(change) for change in (*_CHANGES, "unchanged")}  # type: ignore[arg-type]
    if as_json:
        problems = [str(problem) for problem in plan.problems]
        click.echo(json.dumps(paths | {"n_documents_to_read": len(plan.new), "problems": problems}))
        return
    told = [f"{len(paths[change])} {words}" for change, words in _CHANGES.items()]
    click.echo(f"files: {', '.join(told)}, {len(paths['unchanged'])} unchanged")
    for change, words in _CHANGES.items():
        for path in paths[change]:
            click.echo(f"{words:<17}  {show_path(path)}")
    if paths["vanished"] and not prune:
        click.echo("--prune drops what has vanished from the index")
    for problem in plan.problems:
        click.echo(f"problem: {problem}")


def _has_come_back(report: IngestReport, before: IngestReport) -> bool:
    """Tell whether a file is there again that had vanished; what was pruned is only listed no more."""
    from colret.places import place_of

    places = map(place_of, set(before.vanished) - set(report.vanished))
    return any(isinstance(place, Path) and place.exists() for place in places)


def _values(report: IngestReport) -> dict[str, object]:
    return asdict(report) | {"skipped": [item._asdict() for item in report.skipped]}


def _summary(report: IngestReport) -> str:
    parts = [f"added {count(report.n_added, 'document')} ({count(report.n_pages, 'page')}, {report.n_blank} blank)"]
    parts += [f"{report.n_unchanged} unchanged"]
    parts += [f"{report.n_moved} copied or renamed"] if report.n_moved else []
    parts += [f"{report.n_replaced} replaced"] if report.n_replaced else []
    parts += [f"{report.n_pruned} dropped"] if report.n_pruned else []
    parts += [f"{len(report.skipped)} skipped"]
    return ", ".join(parts)


def _print_details(report: IngestReport, info: IndexInfo, *, prune: bool) -> None:
    """Print what is worth a line of its own."""
    if report.n_ocr:
        read = report.n_pages + report.n_blank
        click.echo(f"{report.n_ocr} of {count(read, 'page')} by OCR ({report.ocr_seconds / report.n_ocr:.1f} s a page)")
    if report.n_fitted:
        dim = info.settings.stored_dim
        few = "" if report.n_fitted >= _FEW_VECTORS * dim else ", which is few: better start with more documents"
        click.echo(f"{dim} dimensions chosen by {count(report.n_fitted, 'vector')}{few}; they stay as they are")
    if report.vanished:
        names = ", ".join(map(show_path, report.vanished[:_MOST_VANISHED]))
        such = "such as " if len(report.vanished) > _MOST_VANISHED else ""
        remedy = "" if prune else "; --prune drops what has vanished from the index"
        click.echo(f"{count(len(report.vanished), 'file')} vanished: {such}{names}{remedy}")


def _print_skipped(skipped: list[Skipped]) -> None:
    """Print what was skipped, by reason, rare ones first; where it is much, how much of each, and not all."""
    reasons = Counter(item.reason for item in skipped)
    if len(skipped) > _MOST_SKIPPED:
        click.echo(f"skipped: {', '.join(f'{n} {reason}' for reason, n in reasons.most_common())}")
    ordered = sorted(skipped, key=lambda item: (reasons[item.reason], item.reason, item.path, item.page or 0))
    for item in ordered[:_MOST_SKIPPED]:
        page = f" page {item.page}" if item.page else ""
        click.echo(f"skipped {show_path(item.path)}{page}: {item.reason}: {item.message}")
    if len(ordered) > _MOST_SKIPPED:
        click.echo(f"and {len(ordered) - _MOST_SKIPPED} more: colret list --failed")
