"""``colret query``: rank pages."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import click

from colret.errors import one_line
from colret_cli.options import (
    device_option,
    index_option,
    json_option,
    load_encoder_of,
    open_store,
    usage_errors,
)
from colret_cli.output import count, show_path

if TYPE_CHECKING:
    from colret.search import Explanation, Ranking


_BYTE_ORDER_MARK = "\ufeff"  # which some editors put first in a file


class Question(NamedTuple):
    """A query as the user gave it."""

    text: str
    query_id: str | None = None


@click.command()
@click.argument("text", required=False)
@index_option
@click.option("-k", type=click.IntRange(min=1), default=5, show_default=True, help="Pages to show.")
@click.option(
    "--candidates",
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
@click.option(
    "--where",
    metavar="SQL",
    help="Search only pages that satisfy a condition, such as \"path LIKE '%2023%' AND page < 10\".",
)
@click.option("--doc", "docs", multiple=True, metavar="NAME", help="Search only this file, id or pattern; repeatable.")
@click.option(
    "--queries",
    "queries_file",
    type=click.File("r", encoding="utf-8"),
    help='Ask many at once: one a line, or JSON lines with "text" and perhaps "query_id"; - is stdin.',
)
@click.option("--model", help="Another name for the index's model, such as its folder after a move.")
@device_option
@json_option
def query(
    text: str | None,
    index_path: Path,
    k: int,
    candidates: int | None,
    prefilter: str | None,
    exact: bool,
    where: str | None,
    docs: tuple[str, ...],
    queries_file: IO[str] | None,
    model: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Rank the pages that answer TEXT, best first ("-" reads TEXT from stdin).

    The score is MaxSim per query token: the mean, over the words of the query, of their best
    similarity to anything on the page. 1.0 is the ceiling. The raw sum stands in brackets.

    \b
    Example:
      colret query "net revenue by segment 2023"
      colret query --queries questions.txt --json
    """
    if exact and (candidates is not None or prefilter not in (None, "none")):
        raise click.UsageError("--exact scores every page: leave --candidates and --prefilter out")
    questions = _read_questions(text, queries_file)

    from colret.encoders import blamed_on_model
    from colret.prefilter import Prefilter
    from colret.search import Scope, embed, explain, pages_in_scope, rank  # heavy: not before usage is checked

    chosen = "none" if exact else prefilter
    if chosen is not None:
        usage_errors(lambda: Prefilter.parse(chosen))

    store, scope = open_store(index_path), Scope(where, docs)
    pages_in_scope(store, scope)  # what is wrong with it is told before a model is loaded
    encoder = load_encoder_of(store, device=device, model=model, queries_only=True)
    with blamed_on_model(store.settings.model, but=(click.UsageError,)):
        embeddings = usage_errors(lambda: embed(store, encoder, [question.text for question in questions]))
    rankings = rank(
        store,
        embeddings,
        k=k,
        prefilter=chosen,
        n_candidates=candidates,
        scope=scope,
        device=_scoring_device(device, store.settings.model),
    )
    for question, embedding, ranking in zip(questions, embeddings, rankings, strict=True):
        explanations = explain(store, embedding, ranking.hits)
        if as_json:
            click.echo(_as_json(question, ranking, explanations))
        else:
            click.echo(_as_text(question, ranking, explanations))


def _scoring_device(device: str, model: str) -> str:
    """Return where to compute MaxSim: with the model, where that is a GPU."""
    from colret.encoders.devices import choose_placement
    from colret.encoders.embedded import EMBEDDED

    if device == "cpu" or (device == "auto" and model == EMBEDDED):  # whose queries are encoded on the CPU
        return "cpu"  # without importing torch to ask for it
    chosen = usage_errors(lambda: choose_placement(device)).device
    return str(chosen) if chosen.type == "cuda" else "cpu"  # torch has no segment maximum elsewhere


def _read_questions(text: str | None, queries_file: IO[str] | None) -> list[Question]:
    if (text is None) == (queries_file is None):
        raise click.UsageError("give one TEXT, or --queries FILE")
    if text == "-":
        text = _stdin_text()
    if text is not None:
        questions = [_question(text)]
    else:
        assert queries_file is not None
        questions = read_questions(queries_file)
    if not questions or not all(question.text for question in questions):
        raise click.UsageError("the query is empty")
    return questions


def _question(text: str, query_id: str | None = None) -> Question:
    """Return a question on one line, in characters that can be written again."""
    valid = [" ".join(each.split()).encode("utf-8", "replace").decode() for each in (text, query_id or "")]
    return Question(valid[0], None if query_id is None else valid[1])


def _stdin_text() -> str:
    if sys.stdin is None:
        raise click.UsageError("stdin is closed")
    with click.open_file("-", encoding="utf-8", errors="replace") as stdin:
        text: str = stdin.read()
    return text.removeprefix(_BYTE_ORDER_MARK)


def read_questions(file: IO[str]) -> list[Question]:
    """Return the questions of a file: one a line, or JSON lines."""
    try:
        lines = list(enumerate(file.read().removeprefix(_BYTE_ORDER_MARK).splitlines(), start=1))
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file.name}: not UTF-8 text") from error
    questions = [_read_line(line.strip(), f"{file.name} line {number}") for number, line in lines if line.strip()]
    if not questions:
        raise click.UsageError(f"{file.name}: holds no query")
    return questions


def _read_line(line: str, place: str) -> Question:
    if not line.startswith("{"):
        return _question(line)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{place}: not JSON: {error}") from error
    text = value.get("text", value.get("query"))
    if not isinstance(text, str) or not text.strip():
        raise click.UsageError(f'{place}: has no "text"')
    return _question(text, None if value.get("query_id") is None else str(value["query_id"]))


def _as_json(question: Question, ranking: Ranking, explanations: list[Explanation]) -> str:
    hits = [
        {
            "rank": rank,
            "file": explained.paths[0],
            "paths": explained.paths,
            "page": hit.ref.number,
            "page_id": hit.ref.page_id,
            "score": round(hit.score, 6),
            "maxsim": round(hit.maxsim, 6),
            "snippet": explained.snippet,
        }
        for rank, (hit, explained) in enumerate(zip(ranking.hits, explanations, strict=True), start=1)
    ]
    identity = {} if question.query_id is None else {"query_id": question.query_id}
    field = {"n_pages": ranking.n_pages, "n_scored": ranking.n_scored}
    return json.dumps(identity | {"query": question.text} | field | {"hits": hits}, ensure_ascii=False)


def _as_text(question: Question, ranking: Ranking, explanations: list[Explanation]) -> str:
    everything = ranking.n_scored == ranking.n_pages
    how = "all scored" if everything else f"the {ranking.n_scored:,} likeliest scored"
    lines = [f"{one_line(question.text)}  [{count(ranking.n_pages, 'page')}, {how}]"]
    width = max(20, min(shutil.get_terminal_size((100, 24)).columns, 120))
    for rank, (hit, explained) in enumerate(zip(ranking.hits, explanations, strict=True), start=1):
        file, *others = explained.paths
        also = f"  (also in {count(len(others), 'other file')})" if others else ""
        lines.append(f"{rank:>3}. {show_path(file)}  page {hit.ref.number}  {hit.score:.3f} ({hit.maxsim:.2f}){also}")
        text = one_line(explained.snippet)
        lines += textwrap.wrap(text, width, initial_indent="     ", subsequent_indent="     ")
    return "\n".join(lines) + "\n"
