"""``colret eval``: labelled sets, and what they say of a search."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from colret.errors import printable
from colret.wording import count
from colret_cli.evaluation import run, sweep
from colret_cli.options import json_option
from colret_cli.output import show_path

if TYPE_CHECKING:
    from colret_eval.checks import CheckReport, Finding

_COLORS = {"warning": "yellow", "error": "red"}


@click.group("eval")
def evaluate() -> None:
    """Measure a search on labelled sets: queries, and the pages that answer them.

    \b
    Example:
      colret eval check my-set
      colret eval run my-set
    """


evaluate.add_command(run)
evaluate.add_command(sweep)


@evaluate.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@json_option
def check(dataset: Path, as_json: bool) -> None:
    """Say what is wrong, or looks wrong, with the labelled set DATASET.

    DATASET is a folder in colret's own layout, BEIR's or ViDoRe's, or the name of a set on the
    Hugging Face hub. Exit code 1 means that something is in error; with warnings alone it is 0.

    \b
    Example:
      colret eval check my-set
    """
    from colret_eval.checks import check_dataset

    report = check_dataset(dataset)
    if as_json:
        findings = [finding._asdict() for finding in report.findings]
        click.echo(json.dumps({**_sizes(report), "findings": findings}))
    else:
        for finding in report.findings:
            click.echo(finding_line(finding))
        click.echo(_summary(report))
    if any(finding.level == "error" for finding in report.findings):
        sys.exit(1)


@evaluate.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the new set.")
@click.option("--limit", type=click.IntRange(min=1), help="Most queries to keep, spread evenly.")
@click.option("--copy", is_flag=True, help="Copy the PDFs instead of linking to them.")
def synth(folder: Path, output: Path, limit: int | None, copy: bool) -> None:
    """Make a labelled set from the headings and captions of the PDFs below FOLDER.

    For those who have no labels. Read what it prints about the worth of such labels.

    \b
    Example:
      colret eval synth ~/reports -o reports-set
    """
    from colret_eval.synth import WORTH, synthesise

    made = synthesise(folder, output, limit=limit, copy=copy)
    for error in made.skipped:
        click.echo(f"skipped: {error}", err=True)
    kinds = {kind: sum(item.kind == kind for item in made.items) for kind in ("outline", "heading", "caption")}
    parts = ", ".join(f"{n} by {kind}" for kind, n in kinds.items() if n)
    click.echo(
        f"{show_path(str(output))}: {_queries(len(made.items))} ({parts}) on {count(made.n_documents, 'document')}"
    )
    click.echo(click.style("SYNTHETIC LABELS. ", bold=True, fg="yellow") + WORTH, err=True)


@evaluate.command()
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
@click.option(
    "--system", help="Which to compare, of those that eval run --help lists.  [default: what others were compared with]"
)
@json_option
def compare(first: Path, second: Path, system: str | None, as_json: bool) -> None:
    """Say what changed from report A to report B, query by query, and what of it may be luck.

    A and B are files that colret eval run wrote as report.json, or their folders. Only queries that
    both have, with the same text and labels, are compared.

    \b
    Example:
      colret eval compare before after
    """
    from colret_eval import compare as comparing
    from colret_eval.report_file import RUN, naming_damage, read_report

    reports = read_report(first, RUN), read_report(second, RUN)
    with naming_damage(first, second):
        found = comparing.compare(*reports, system=system)
        text = json.dumps(comparing.as_json(found)) if as_json else comparing.format_comparison(found)
    click.echo(text)


@evaluate.command()
@click.argument("report", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; by default beside REPORT.")
def html(report: Path, output: Path | None) -> None:
    """Write REPORT, the report.json or sweep.json of an evaluation, as one page for a browser.

    The page loads nothing from anywhere.

    \b
    Example:
      colret eval html eval-report/report.json
    """
    from colret_eval.html_report import html_report
    from colret_eval.report_file import RUN, SWEEP, naming_damage, read_report, write_text

    content = read_report(report, RUN, SWEEP)
    with naming_damage(report):
        page = html_report(content)
    output = output or (report / "report.html" if report.is_dir() else report.with_suffix(".html"))
    write_text(output, page)
    click.echo(show_path(str(output)))


def finding_line(finding: Finding) -> str:
    """Return what a check found as a line for a terminal."""
    level = click.style(f"{finding.level:<8}", fg=_COLORS[finding.level])
    return f"{level} {finding.where}: {finding.problem}; {finding.remedy}"


def _summary(report: CheckReport) -> str:
    n_errors = sum(finding.level == "error" for finding in report.findings)
    n_warnings = len(report.findings) - n_errors
    return (
        f"{printable(report.name)}: {_queries(report.n_queries)} and {report.n_no_answer} without an answer, "
        f"{count(report.n_documents, 'document')}, {count(report.n_pages, 'page')}; "
        f"{count(n_errors, 'error')}, {count(n_warnings, 'warning')}"
    )


def _sizes(report: CheckReport) -> dict[str, str | int]:
    return {
        "name": report.name,
        "n_queries": report.n_queries,
        "n_no_answer": report.n_no_answer,
        "n_documents": report.n_documents,
        "n_pages": report.n_pages,
    }


def _queries(n: int) -> str:
    return f"{n:,} {'query' if n == 1 else 'queries'}"
