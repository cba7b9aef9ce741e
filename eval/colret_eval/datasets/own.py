"""colret's own format: ``pdfs/``, ``queries.jsonl`` and ``qrels.tsv``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

from colret_eval.datasets.contents import (
    PDF_FOLDER,
    Contents,
    Label,
    Query,
    find_corpus,
    parse_object,
    parse_row,
    read_lines,
    text_of,
    whole_number,
)

QUERIES_FILE = "queries.jsonl"
QRELS_FILE = "qrels.tsv"
COLUMNS = ("query_id", "file", "page", "grade")

_UNWRITABLE = "\t\r\n"


def read(folder: Path, extra_folders: tuple[str, ...] = ()) -> Contents:
    """Return what the set in ``folder`` says.

    Raises:
        DatasetError: One of its files or folders is missing.
    """
    documents = find_corpus(folder, extra_folders)
    contents = Contents(folder.resolve().name, folder, f"{PDF_FOLDER}/", documents)
    for where, line in read_lines(folder / QUERIES_FILE):
        with contents.noting_faults():
            entry = parse_object(where, line)
            contents.synthetic |= entry.get("synthetic") is True
            contents.queries.append(Query(text_of(where, entry, "query_id"), text_of(where, entry, "text"), where))
    for first, (where, line) in enumerate(read_lines(folder / QRELS_FILE)):
        with contents.noting_faults():
            query_id, file, page, grade = parse_row(where, line, COLUMNS)
            if first == 0 and page.strip().lower() == "page":
                continue  # a header
            document = file if file in documents else unquote(file)
            numbers = whole_number(where, page, "page number"), whole_number(where, grade, "grade")
            contents.labels.append(Label(query_id, document, *numbers, where))
    return contents


def as_field(name: str) -> str:
    """Return a file's name as ``qrels.tsv`` holds it: percent-encoded where it has a tab or a line end."""
    return quote(name, safe="/") if any(character in name for character in _UNWRITABLE) else name
