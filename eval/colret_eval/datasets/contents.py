"""What the files of a labelled set say, each statement with its place, before anything is judged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from colret.documents import is_supported
from colret_eval.datasets.dataset import Dataset, DatasetError, PageDocument, page_key

PDF_FOLDER = "pdfs"

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(\.0+)?", re.ASCII)  # spreadsheets write 3.0


class Query(NamedTuple):
    """A query as a line states it."""

    query_id: str
    text: str
    where: str  # file:line, or the row of a table


class Label(NamedTuple):
    """A judged page as a line states it: not yet known to exist."""

    query_id: str
    document: str
    page: int
    grade: int
    where: str


@dataclass(slots=True)
class Contents:
    """A labelled set as its files have it; ``faults`` are the lines that say nothing usable."""

    name: str
    folder: Path
    corpus: str  # where its documents are, in words
    documents: dict[str, Path] = field(default_factory=dict)
    page_documents: dict[str, PageDocument] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    no_answer: set[str] = field(default_factory=set)  # ids of queries whose own line says that no page answers
    faults: list[DatasetError] = field(default_factory=list)
    synthetic: bool = False

    @contextmanager
    def noting_faults(self) -> Iterator[None]:
        """Note a DatasetError and go on after the block."""
        try:
            yield
        except DatasetError as error:
            self.faults.append(error)


def assemble(contents: Contents) -> Dataset:
    """Return the set that ``contents`` describes.

    Raises:
        DatasetError: At the first line that cannot be used, or if no query has a relevant page.
    """
    for fault in all_faults(contents):
        raise fault
    queries = {query.query_id: query.text for query in contents.queries}
    grades: dict[str, dict[str, int]] = {query_id: {} for query_id in queries}
    sources: dict[str, str] = {}
    for label in contents.labels:
        key = page_key(label.document, label.page)
        grades[label.query_id][key] = max(label.grade, grades[label.query_id].get(key, label.grade))
        if label.grade > 0:
            sources.setdefault(label.query_id, label.document)
    return Dataset(
        contents.name,
        contents.folder,
        {query_id: text for query_id, text in queries.items() if query_id in sources},
        {query_id: pages for query_id, pages in grades.items() if query_id in sources},
        contents.documents,
        {query_id: sources[query_id] for query_id in queries if query_id in sources},
        {query_id: text for query_id, text in queries.items() if query_id not in sources},
        contents.page_documents,
        contents.synthetic,
    )


def all_faults(contents: Contents) -> Iterator[DatasetError]:
    """Yield what makes the set unusable: unreadable lines, then what contradicts other lines or the corpus."""
    yield from contents.faults
    yield from _query_faults(contents)
    yield from _label_faults(contents)
    if not contents.queries and not contents.faults:
        yield DatasetError(contents.folder, "holds no queries", "add them, one a line")
    elif not contents.faults and not any(label.grade > 0 for label in contents.labels):
        yield DatasetError(contents.folder, "has no relevant page for any query", "label at least one")


def _query_faults(contents: Contents) -> Iterator[DatasetError]:
    texts: dict[str, str] = {}
    for query_id, text, where in contents.queries:
        if texts.setdefault(query_id, text) != text:
            problem = f"query_id {query_id!r} already has another text"
            yield DatasetError(where, problem, "give each question its own query_id")


def _label_faults(contents: Contents) -> Iterator[DatasetError]:
    known = {query.query_id for query in contents.queries}
    for label in contents.labels:
        if label.query_id not in known:
            yield DatasetError(label.where, f"names query {label.query_id!r}, which has no text", "add or correct it")
        if label.page < 1:
            yield DatasetError(label.where, f"page {label.page} is not a page number", "count pages from 1")
        elif label.document in contents.page_documents:
            if label.page not in contents.page_documents[label.document].numbers:
                problem = f"names page {label.page} of {label.document!r}, which is not in {contents.corpus}"
                yield DatasetError(label.where, problem, "add or correct it")
        elif label.document not in contents.documents:
            problem = f"names {label.document!r}, which is not in {contents.corpus}"
            yield DatasetError(label.where, problem, "add or correct it")


def find_documents(folder: Path) -> dict[str, Path]:
    """Return the PDFs and images below ``folder`` by their path inside it, sorted.

    Raises:
        DatasetError: There is no such folder.
    """
    if not folder.is_dir():
        raise DatasetError(folder, "is not a folder", "put the PDFs of the set there")
    paths = sorted(path for path in folder.rglob("*") if is_supported(path) and path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in paths}


def find_corpus(folder: Path, extra_folders: tuple[str, ...]) -> dict[str, Path]:
    """Return the documents of ``pdfs/``, and those of further folders under names that start with the folder's.

    Raises:
        DatasetError: One of the folders is missing.
    """
    documents = find_documents(folder / PDF_FOLDER)
    for extra in extra_folders:
        documents |= {f"{extra}/{name}": path for name, path in find_documents(folder / extra).items()}
    return documents


def read_lines(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each line that is not blank, without its end, and the ``file:line`` to name in an error.

    Raises:
        DatasetError: The file cannot be read.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DatasetError(file, f"cannot be read ({error.strerror})", "a set needs this file") from error
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield f"{file}:{number}", line.removesuffix(b"\r")


def parse_object(where: str, line: bytes) -> dict[str, Any]:
    """Return the JSON object that ``line`` holds.

    Raises:
        DatasetError: It holds none.
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:  # ValueError: also what is not UTF-8
        raise DatasetError(where, f"not JSON ({error})", "write one JSON object a line") from error
    if not isinstance(entry, dict):
        raise DatasetError(where, "not a JSON object", "write one JSON object a line")
    return entry


def parse_row(where: str, line: bytes, columns: tuple[str, ...]) -> list[str]:
    """Return the fields of a tab-separated ``line``.

    Raises:
        DatasetError: They are not as many as ``columns``, or not text.
    """
    try:
        row = line.decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise DatasetError(where, "is not text in UTF-8", "save the file as UTF-8") from error
    if len(row) != len(columns):
        problem = f"has {len(row)} fields, not {len(columns)} with tabs between"
        raise DatasetError(where, problem, f"write {', '.join(columns)}")
    return row


def text_of(where: str, entry: dict[str, Any], key: str) -> str:
    """Return the text under ``key``.

    Raises:
        DatasetError: There is none.
    """
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DatasetError(where, f"has no text under {key!r}", f"give {key!r} as a string")
    return value


def whole_number(where: str, text: str, what: str) -> int:
    """Return the number that ``text`` is.

    Raises:
        DatasetError: It is none; ``what`` is what it should be, such as "page number".
    """
    if not _WHOLE.fullmatch(text.strip()):
        raise DatasetError(where, f"{text.strip()!r} is not a {what}", "write a whole number")
    return int(text.strip().partition(".")[0])
