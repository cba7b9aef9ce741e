"""``colret calibrate``: fit the score below which a page is no answer."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, TYPE_CHECKING

import click

from colret.wording import count
from colret_cli.options import (
    TextFile,
    device_option,
    index_option,
    json_option,
    load_encoder_of,
    model_option,
    open_store,
    usage_errors,
)
from colret_cli.questions import read_questions

if TYPE_CHECKING:
    from colret.calibration import Calibration
    from colret.floors import Floor
    from colret.location import Location


@click.command()
@click.option(
    "--queries",
    "queries_file",
    type=TextFile(),
    help="Questions that the pages answer, one a line or JSON lines.  [default: made of the pages]",
)
@click.option(
    "--no-answer",
    "no_answer_file",
    type=TextFile(),
    help="Questions that no page answers.  [default: the others, the document that answers left out]",
)
@index_option
@model_option
@device_option
@json_option
def calibrate(
    queries_file: IO[str] | None,
    no_answer_file: IO[str] | None,
    index_path: Location,
    model: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Fit the score below which a page is no answer, and keep it in the index.

    Fifty questions of your own, and as many that the pages do not answer, fit it best. Calibrate
    again when the index has doubled.

    \b
    Example:
      colret calibrate
      colret calibrate --queries asked.txt --no-answer unanswered.txt
    """
    queries, no_answer = (
        [question.text for question in read_questions(file)] if file else None
        for file in (queries_file, no_answer_file)
    )
    store = open_store(index_path)
    encoder = load_encoder_of(store, device=device, model=model, queries_only=True)

    from colret.calibration import calibrate as run

    found = usage_errors(
        lambda: run(
            store,
            encoder,
            queries=queries,
            no_answer=no_answer,
            on_phase=lambda phase: click.echo(f"calibrating: {phase}", err=True),
        )
    )
    click.echo(json.dumps(asdict(found)) if as_json else _as_text(found))


def _as_text(found: Calibration) -> str:
    queries = f"{count(found.n_answered, 'query')} with an answer".replace("querys", "queries")
    lines = [
        f"{queries}, {found.n_unanswered:,} without ({found.made_of}), {count(found.n_pages, 'page')}",
        f"{'lane':<8}{'floor':>7}{'AUROC':>8}   held out: answered kept, others caught",
    ]
    return "\n".join([*lines, *(_row(lane, floor) for lane, floor in found.lanes.items())])


def _row(lane: str, floor: Floor) -> str:
    if floor.kept is None or floor.caught is None:
        held_out = "too few documents to tell"
    else:
        held_out = f"{floor.kept:.0%}, {floor.caught:.0%}"
    return f"{lane:<8}{floor.floor:>7.3f}{floor.auroc:>8.3f}   {held_out}"
