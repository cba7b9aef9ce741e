"""``colret query``: rank pages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from colret.conditions import condition
from colret_cli.asking import Asking, write_images
from colret_cli.hits import as_json as json_of
from colret_cli.hits import print_results
from colret_cli.options import (
    TextFile,
    check_model_name,
    complete_files,
    device_option,
    index_option,
    json_option,
    model_option,
)
from colret_cli.output import is_terminal
from colret_cli.page_filters import filter_options
from colret_cli.questions import Question, question, question_of, read_questions
from colret_cli.viewers import open_hit

if TYPE_CHECKING:
    from colret import Index, Results
    from colret.lanes import Lane
    from colret.location import Location

UNSURE: Final = 4  # exit code

_TOGETHER: Final = 64  # questions that are answered at once: they share what is read
_TEXT_OPTIONS: Final = ("lane", "prefilter", "n_candidates")  # that a query by example has no use for


@click.command()
@click.argument("text", required=False)
@index_option
@click.option("-k", type=click.IntRange(min=1), default=5, show_default=True, help="Pages to show.")
@click.option(
    "--lane",
    type=click.Choice(["visual", "text", "both"]),
    help="Rank by late interaction, by words alone (BM25), or by both.  "
    "[default: both, or visual if the model reads images]",
)
@click.option("--per-document", is_flag=True, help="Show only the best page of each document.")
@filter_options
@click.option(
    "--like",
    metavar="FILE#PAGE",
    shell_complete=complete_files,
    help="Rank pages by how like they are to a page of the index.",
)
@click.option(
    "--image",
    metavar="FILE[#PAGE]",
    shell_complete=complete_files,
    help="Rank pages by how like they are to an image or any file's page.",
)
@click.option(
    "--queries",
    "queries_file",
    type=TextFile(),
    help='Ask many at once: one a line, or JSON lines with "text" and perhaps "query_id"; - is stdin.',
)
@click.option(
    "--images",
    "images_folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write each hit's page as PNG into DIR, with what matched.",
)
@click.option("--token", type=click.IntRange(min=1), help="Show one token's heat there, by its number.")
@click.option(
    "--open",
    "opened",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=1,
    metavar="[N]",
    help="Open the first hit, or the N-th, in a viewer at its page; TEXT goes before it.",
)
@click.option("--fail-if-unsure", is_flag=True, help="Exit with 4 if no page reaches the floor: see colret calibrate.")
@click.option(
    "--candidates",
    "n_candidates",
    type=click.IntRange(min=1),
    help="Pages that the prefilter keeps for exact scoring.  [default: 100]",
)
@click.option(
    "--prefilter",
    metavar="NAME",
    help="How those are chosen: single, sketch, binary, text, or some joined by +.  "
    "[default: none up to 500 pages, else binary]",
)
@click.option("--exact", is_flag=True, help="Score every page: --prefilter none.")
@model_option
@device_option
@json_option
def query(
    text: str | None,
    index_path: Location,
    k: int,
    lane: Lane | None,
    per_document: bool,
    where: str | None,
    docs: tuple[str, ...],
    pages: tuple[int, int | None] | None,
    after: datetime | None,
    before: datetime | None,
    n_candidates: int | None,
    prefilter: str | None,
    exact: bool,
    model: str | None,
    device: str,
    **asked: Any,
) -> None:
    """Rank the pages that answer TEXT, best first ("-" reads TEXT from stdin).

    Words in double quotes have to stand on the page in that order, except with --lane visual. On a
    terminal and without TEXT it asks for one query after another.

    The score depends on the lane. visual: the mean, over the words of the query, of their best
    similarity to anything on the page; 1.0 is the ceiling. text: BM25 as a share of what it could
    be for the query. both: the first plus half the second.

    \b
    Example:
      colret query "net revenue by segment 2023"
      colret query "net revenue" --pages 2-20 --per-document --images found
      colret query --lane text '"net zero" AB-1234/5'
      colret query --like report.pdf#12 --open
      colret query --queries questions.txt --json
    """
    if exact and (n_candidates is not None or prefilter not in (None, "none")):
        raise click.UsageError("--exact scores every page: leave --candidates and --prefilter out")
    check_model_name(model)
    asking = Asking(
        k=k,
        lane=lane,
        where=condition(where, pages, after, before),
        docs=docs,
        per_document=per_document,
        prefilter="none" if exact else prefilter,
        n_candidates=n_candidates,
    )
    _check(text, asking, asked)
    questions = _read_questions(text, asked["queries_file"])

    import colret  # heavy: not before usage is checked

    index = colret.open(index_path, device=device, model=model)
    if questions is None and not (asked["like"] or asked["image"]):
        from colret_cli.interactive import converse

        converse(index, asking)
        return
    if code := _answer_all(index, asking, questions, asked):
        sys.exit(code)


def _check(text: str | None, asking: Asking, asked: dict[str, Any]) -> None:
    """Refuse options that say nothing together."""
    examples = [name for name in ("like", "image") if asked[name] is not None]
    n_given = (text is not None) + (asked["queries_file"] is not None) + len(examples)
    if n_given > 1 or (not n_given and not (is_terminal(sys.stdin) and is_terminal(sys.stdout))):
        raise click.UsageError("give one TEXT, or --queries FILE, --like FILE#PAGE or --image FILE")
    if not n_given and any(asked[name] for name in ("as_json", "images_folder", "opened", "fail_if_unsure")):
        raise click.UsageError("give one TEXT, or --queries FILE, --like FILE#PAGE or --image FILE")
    if examples and any(getattr(asking, name) is not None for name in _TEXT_OPTIONS):
        raise click.UsageError(f"--{examples[0]} ranks by late interaction: leave --lane, --prefilter and the like out")
    if examples and (asked["token"] or asked["fail_if_unsure"]):
        raise click.UsageError(f"--token and --fail-if-unsure are for words: leave them out with --{examples[0]}")
    if asked["token"] and asked["images_folder"] is None:
        raise click.UsageError("--token needs --images")
    if asked["opened"] and asked["queries_file"]:
        raise click.UsageError("--open is for one query")


def _read_questions(text: str | None, queries_file: IO[str] | None) -> list[Question] | None:
    if text is not None:
        return [question_of(text)]
    return None if queries_file is None else read_questions(queries_file)


def _answer_all(index: Index, asking: Asking, questions: list[Question] | None, asked: dict[str, Any]) -> int:
    """Print the answer to each question, or to an example, and return the exit code: 0 if all went well."""
    folder, as_json = asked["images_folder"], asked["as_json"]
    unsure = lacking = False
    for number, (each, results) in enumerate(_answers(index, asking, questions, asked), start=1):
        prefix = f"{number:04}-" if questions and len(questions) > 1 else ""
        images = write_images(results, folder, asked["token"], prefix) if folder else None
        if as_json:
            with_regions = questions is not None and (results.lane != "text" or folder is not None)
            click.echo(json_of(each, results, images, with_regions=with_regions))
        else:
            print_results(each, results)
        if asked["opened"]:
            _open(results, asked["opened"])
        unsure |= results.verdict is not None and results.verdict.unanswered
        lacking |= None in (images or ())
    return 1 if lacking else UNSURE if unsure and asked["fail_if_unsure"] else 0


def _open(results: Results, number: int) -> None:
    if number > len(results):
        raise click.UsageError(f"--open {number}: there are {len(results)} hits")
    open_hit(results[number - 1])


def _answers(
    index: Index, asking: Asking, questions: list[Question] | None, asked: dict[str, Any]
) -> Iterator[tuple[Question, Results]]:
    if questions is None:
        name = asked["like"] or asked["image"]
        yield question(f"like {name}"), asking.example(index, name, in_index=asked["like"] is not None)
        return
    for start in range(0, len(questions), _TOGETHER):
        block = questions[start : start + _TOGETHER]
        yield from zip(block, asking.texts(index, [each.text for each in block]), strict=True)
