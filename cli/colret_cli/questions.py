"""Queries as users give them: words of a command line, lines of a file, JSON lines."""

from __future__ import annotations

import json
import sys
from typing import IO, NamedTuple

import click

_BYTE_ORDER_MARK = "\ufeff"  # which some editors put first in a file


class Question(NamedTuple):
    """A query as the user gave it."""

    text: str
    query_id: str | None = None


def question(text: str, query_id: str | None = None) -> Question:
    """Return a question on one line, in characters that can be written again."""
    valid = [" ".join(each.split()).encode("utf-8", "replace").decode() for each in (text, query_id or "")]
    return Question(valid[0], None if query_id is None else valid[1])


def question_of(text: str) -> Question:
    """Return the question of a command line, which "-" says is on stdin."""
    asked = question(_stdin_text() if text == "-" else text)
    if not asked.text:
        raise click.UsageError("the query is empty")
    return asked


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
        return question(line)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{place}: not JSON: {error}") from error
    text = value.get("text", value.get("query"))
    if not isinstance(text, str) or not text.strip():
        raise click.UsageError(f'{place}: has no "text"')
    return question(text, None if value.get("query_id") is None else str(value["query_id"]))


def _stdin_text() -> str:
    if sys.stdin is None:
        raise click.UsageError("stdin is closed")
    with click.open_file("-", encoding="utf-8", errors="replace") as stdin:
        text: str = stdin.read()
    return text.removeprefix(_BYTE_ORDER_MARK)
