"""Labelled sets of documents, as folders: ``pdfs/`` and ``qrels.jsonl``.

Each line of ``qrels.jsonl`` is a JSON object with ``query_id``, ``query`` (the text),
``pdf`` (a path inside ``pdfs/``) and ``pages`` (its relevant physical pages, from 1); other
keys are ignored. A question whose answer is in several documents has a line for each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from colret.errors import ColretError
from colret.types import PageRef
from colret_eval.measures import Qrels

QRELS_FILE = "qrels.jsonl"
PDF_FOLDER = "pdfs"

Value = TypeVar("Value")


class DatasetError(ColretError):
    """A labelled set cannot be used; ``subject`` names the file and, where one is at fault, the line."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents, queries about them, and which pages answer each."""

    name: str
    folder: Path
    queries: dict[str, str]  # query id to text, in the file's order
    qrels: Qrels  # query id to page key to grade, in the same order
    documents: dict[str, Path]  # document name, as in page keys, to its file
    sources: dict[str, str] = field(repr=False)  # query id to document name: the first it names

    @property
    def pdfs(self) -> tuple[Path, ...]:
        """The files of the corpus."""
        return tuple(self.documents.values())


class _Line(NamedTuple):
    query_id: str
    query: str
    pdf: str
    pages: list[int]


def page_key(name: str, number: int) -> str:
    """Return ``name:number``, white space and ``%`` percent-encoded so that TREC files can carry it.

    >>> page_key("Annual report.pdf", 3)
    'Annual%20report.pdf:3'
    """
    return PageRef(_without_spaces(name), number).page_id


def load_dataset(folder: Path, *, extra_folders: Sequence[str] = ()) -> Dataset:
    """Read a labelled set and check every line of it.

    Args:
        folder: Holds ``qrels.jsonl`` and ``pdfs/``.
        extra_folders: Further folders inside ``folder`` whose PDFs join the corpus without
            labels, such as ``pdfs_distractors``; their names start with the folder's.

    Raises:
        DatasetError: At the first line that cannot be used, or if the set has no queries.
    """
    file = folder / QRELS_FILE
    documents = _find_pdfs(folder / PDF_FOLDER)
    for extra in extra_folders:
        documents |= {f"{extra}/{name}": path for name, path in _find_pdfs(folder / extra).items()}
    dataset = Dataset(folder.resolve().name, folder, {}, {}, documents, {})
    for where, content in _lines(file):
        _add(dataset, _parse(where, content), where)
    if not dataset.queries:
        raise DatasetError(file, "holds no queries", "add one JSON object a line")
    return dataset


def union(datasets: Sequence[Dataset], name: str = "all") -> Dataset:
    """Return the sets as one: ids and document names are prefixed with their set's name.

    Raises:
        ValueError: If two sets share a name.
    """
    if len({dataset.name for dataset in datasets}) < len(datasets):
        raise ValueError("sets of one name cannot be told apart")
    merged = Dataset(name, Path(), {}, {}, {}, {})
    for dataset in datasets:
        at = f"{dataset.name}/"
        in_keys = _without_spaces(at)
        merged.queries.update(_prefixed(at, dataset.queries))
        merged.qrels.update({at + query: _prefixed(in_keys, pages) for query, pages in dataset.qrels.items()})
        merged.documents.update(_prefixed(at, dataset.documents))
        merged.sources.update({at + query: at + source for query, source in dataset.sources.items()})
    return merged


def _without_spaces(name: str) -> str:
    return re.sub(r"[\s%]", lambda match: quote(match[0]), name)


def _prefixed(at: str, entries: Mapping[str, Value]) -> dict[str, Value]:
    return {at + key: value for key, value in entries.items()}


def _find_pdfs(folder: Path) -> dict[str, Path]:
    """Return the PDFs below ``folder`` by their path inside it, sorted."""
    if not folder.is_dir():
        raise DatasetError(folder, "is not a folder", "put the PDFs of the set there")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".pdf" and path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in paths}


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each line that is not blank, with the ``file:line`` to name in an error."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DatasetError(file, f"cannot be read ({error.strerror})", "a set needs this file") from error
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield f"{file}:{number}", line


def _parse(where: str, content: bytes) -> _Line:
    try:
        entry = json.loads(content)
    except ValueError as error:  # also what is not UTF-8
        raise DatasetError(where, f"not JSON ({error})", "write one JSON object a line") from error
    if not isinstance(entry, dict):
        raise DatasetError(where, "not a JSON object", "write one JSON object a line")
    query_id, query, pdf = (_text(where, entry, key) for key in ("query_id", "query", "pdf"))
    return _Line(query_id, query, pdf, _pages(where, entry))


def _text(where: str, entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DatasetError(where, f"has no text under {key!r}", f"give {key!r} as a string")
    return value


def _pages(where: str, entry: dict[str, Any]) -> list[int]:
    pages = entry.get("pages")
    if not isinstance(pages, list) or not pages:
        raise DatasetError(where, "has no list of pages under 'pages'", "name at least one relevant page")
    for page in pages:
        # bool is an int to Python, but true is no page number.
        if not isinstance(page, int) or isinstance(page, bool) or page < 1:
            raise DatasetError(where, f"page {page!r} is not a page number", "count pages from 1")
    return pages


def _add(dataset: Dataset, line: _Line, where: str) -> None:
    if line.pdf not in dataset.documents:
        raise DatasetError(where, f"names {line.pdf!r}, which is not in {PDF_FOLDER}/", "add or correct it")
    known = dataset.queries.setdefault(line.query_id, line.query)
    if known != line.query:
        problem = f"query_id {line.query_id!r} already has another text"
        raise DatasetError(where, problem, "give each question its own query_id")
    dataset.sources.setdefault(line.query_id, line.pdf)
    dataset.qrels.setdefault(line.query_id, {}).update({page_key(line.pdf, page): 1 for page in line.pages})
