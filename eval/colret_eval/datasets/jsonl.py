"""One file for everything: ``pdfs/`` and ``qrels.jsonl``.

Each line of ``qrels.jsonl`` is a JSON object with ``query_id``, ``query`` (the text),
``pdf`` (a path inside ``pdfs/``) and ``pages`` (its relevant physical pages, from 1); other
keys are ignored. A question whose answer is in several documents has a line for each; one
that no page answers has an empty list of pages, and needs no ``pdf``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colret_eval.datasets.contents import (
    PDF_FOLDER,
    Contents,
    Label,
    Query,
    find_corpus,
    parse_object,
    read_lines,
    text_of,
)
from colret_eval.datasets.dataset import DatasetError

QRELS_FILE = "qrels.jsonl"


def read(folder: Path, extra_folders: tuple[str, ...] = ()) -> Contents:
    """Return what the set in ``folder`` says.

    Raises:
        DatasetError: Its file or one of its folders is missing.
    """
    contents = Contents(folder.resolve().name, folder, f"{PDF_FOLDER}/", find_corpus(folder, extra_folders))
    for where, line in read_lines(folder / QRELS_FILE):
        with contents.noting_faults():
            entry = parse_object(where, line)
            query_id, text = text_of(where, entry, "query_id"), text_of(where, entry, "query")
            pages = _pages(where, entry)
            pdf = text_of(where, entry, "pdf") if pages else ""
            contents.queries.append(Query(query_id, text, where))
            contents.no_answer |= set() if pages else {query_id}
            contents.labels += [Label(query_id, pdf, page, 1, where) for page in pages]
    return contents


def _pages(where: str, entry: dict[str, Any]) -> list[int]:
    pages = entry.get("pages")
    if not isinstance(pages, list):
        raise DatasetError(where, "has no list of pages under 'pages'", "name the relevant pages, or []")
    for page in pages:
        # bool is an int to Python, but true is no page number.
        if not isinstance(page, int) or isinstance(page, bool):
            raise DatasetError(where, f"page {page!r} is not a page number", "count pages from 1")
    return pages
