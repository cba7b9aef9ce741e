"""Runs and qrels as TREC files, for trec_eval and whatever else reads them.

A run has lines of ``query Q0 page rank score tag``, qrels of ``query 0 page grade``, fields apart by
spaces. Ids of queries are percent-encoded where they have white space; page keys have none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from colret_eval.datasets.contents import read_lines, whole_number
from colret_eval.datasets.dataset import DatasetError, without_spaces
from colret_eval.measures import Qrels, Run, ranked

Value = TypeVar("Value", int, float)


def write_run(path: Path, run: Run, tag: str = "colret") -> None:
    """Write ``run``, pages in the order in which measures rank them; scores keep all their digits.

    Raises:
        ValueError: If a score is not a number, or the tag or a page key is empty or has white space.
    """
    _check_fields([tag])
    lines = []
    for query_id, scores in run.items():
        _check_fields(scores)
        for rank, page in enumerate(ranked(scores), start=1):
            lines.append(f"{without_spaces(query_id)} Q0 {page} {rank} {float(scores[page])!r} {tag}\n")
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def read_run(path: Path) -> Run:
    """Return the run in a TREC file; ranks and tags are not looked at, as trec_eval does not.

    Raises:
        DatasetError: A line is not one of a run.
    """
    run: Run = {}
    for where, (query_id, _, page, _, score, _) in _rows(path, 6, "query Q0 page rank score tag"):
        try:
            value = float(score)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise DatasetError(where, f"{score!r} is not a score", "write a number")
        _add(run.setdefault(unquote(query_id), {}), page, value, where)
    return run


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write ``qrels``. A query without any judged page has no line: the format cannot tell of it.

    Raises:
        ValueError: If a page key is empty or has white space.
    """
    lines = []
    for query_id, grades in qrels.items():
        _check_fields(grades)
        lines += [f"{without_spaces(query_id)} 0 {page} {grade}\n" for page, grade in grades.items()]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def read_qrels(path: Path) -> Qrels:
    """Return the qrels in a TREC file.

    Raises:
        DatasetError: A line is not one of qrels.
    """
    qrels: Qrels = {}
    for where, (query_id, _, page, grade) in _rows(path, 4, "query 0 page grade"):
        _add(qrels.setdefault(unquote(query_id), {}), page, whole_number(where, grade, "grade"), where)
    return qrels


def _rows(path: Path, n_fields: int, form: str) -> Iterator[tuple[str, list[str]]]:
    for where, line in read_lines(path):
        try:
            fields = line.decode("utf-8").split()
        except UnicodeDecodeError as error:
            raise DatasetError(where, "is not text in UTF-8", "save the file as UTF-8") from error
        if len(fields) != n_fields:
            raise DatasetError(where, f"has {len(fields)} fields, not {n_fields}", f"write {form}")
        yield where, fields


def _add(pages: dict[str, Value], page: str, value: Value, where: str) -> None:
    if page in pages:
        raise DatasetError(where, f"names page {page!r} again", "keep one line for each page of a query")
    pages[page] = value


def _check_fields(fields: Iterable[str]) -> None:
    for field in fields:
        if not field or field.split() != [field]:
            raise ValueError(f"{field!r} cannot stand in a TREC file")
