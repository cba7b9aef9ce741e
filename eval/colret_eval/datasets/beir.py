"""BEIR's layout: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/*.tsv``.

Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
Models" (NeurIPS Datasets and Benchmarks 2021). An entry of the corpus is a page. An id that ends in a
colon and a number, as ``report.pdf:3``, is that page of that document, and any other is the only page
of a document of its own. With ``pdfs/`` beside, ids name pages of those files, and ``corpus.jsonl``
is not read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

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
from colret_eval.datasets.dataset import DatasetError
from colret_eval.datasets.pages import TextDocument

CORPUS_FILE = "corpus.jsonl"
QUERIES_FILE = "queries.jsonl"
QRELS_FOLDER = "qrels"
COLUMNS = ("query-id", "corpus-id", "score")

_PAGE_ID = re.compile(r"(.+):([1-9][0-9]{0,8})", re.DOTALL | re.ASCII)


def read(folder: Path, extra_folders: tuple[str, ...] = ()) -> Contents:
    """Return what the set in ``folder`` says: the test split, or the only one.

    Queries that only another split labels are left out; those that none labels have no answer.

    Raises:
        DatasetError: One of its files is missing, or which split to take cannot be told.
    """
    if (folder / PDF_FOLDER).is_dir():
        documents = find_corpus(folder, extra_folders)
        contents = Contents(folder.resolve().name, folder, f"{PDF_FOLDER}/", documents)
    else:
        contents = Contents(folder.resolve().name, folder, CORPUS_FILE)
        _read_corpus(contents)
    chosen, others = _splits(folder / QRELS_FOLDER)
    _read_labels(contents, chosen)
    labelled = {label.query_id for label in contents.labels}
    elsewhere = {query_id for file in others for query_id in _query_ids(file)} - labelled
    for where, line in read_lines(folder / QUERIES_FILE):
        with contents.noting_faults():
            entry = parse_object(where, line)
            query_id = text_of(where, entry, "_id")
            if query_id not in elsewhere:
                contents.queries.append(Query(query_id, text_of(where, entry, "text"), where))
    return contents


def place(corpus_id: str) -> tuple[str, int]:
    """Return the document and the page that an id of the corpus stands for.

    >>> place("report.pdf:3"), place("doc7")
    (('report.pdf', 3), ('doc7', 1))
    """
    match = _PAGE_ID.fullmatch(corpus_id)
    return (match[1], int(match[2])) if match else (corpus_id, 1)


def _read_corpus(contents: Contents) -> None:
    texts: dict[str, dict[int, str]] = {}
    for where, line in read_lines(contents.folder / CORPUS_FILE):
        with contents.noting_faults():
            entry = parse_object(where, line)
            corpus_id = text_of(where, entry, "_id")
            document, number = place(corpus_id)
            if number in texts.setdefault(document, {}):
                raise DatasetError(where, f"id {corpus_id!r} is taken", "give each page its own _id")
            texts[document][number] = _page_text(where, entry)
    contents.page_documents.update({name: TextDocument(name, pages) for name, pages in texts.items()})


def _page_text(where: str, entry: dict[str, Any]) -> str:
    """Return title and text; a page may be without either, as a blank one is."""
    parts = [entry.get("title") or "", entry.get("text") or ""]
    if not all(isinstance(part, str) for part in parts):
        raise DatasetError(where, "has a 'title' or 'text' that is no text", "give both as strings")
    return "\n".join(part for part in parts if part)


def _splits(folder: Path) -> tuple[Path, list[Path]]:
    files = sorted(folder.glob("*.tsv"))
    test = [file for file in files if file.stem == "test"]
    if not test and len(files) != 1:
        found = ", ".join(file.name for file in files) or "no .tsv file"
        raise DatasetError(folder, f"has {found}, and no test.tsv", "keep one, or call one test.tsv")
    chosen = (test or files)[0]
    return chosen, [file for file in files if file != chosen]


def _read_labels(contents: Contents, file: Path) -> None:
    for first, (where, line) in enumerate(read_lines(file)):
        with contents.noting_faults():
            query_id, corpus_id, score = parse_row(where, line, COLUMNS)
            if first == 0 and score.strip().lower() == "score":
                continue  # the header
            document, number = place(corpus_id)
            if document not in contents.documents and contents.documents:
                document = unquote(document)
            contents.labels.append(Label(query_id, document, number, whole_number(where, score, "score"), where))


def _query_ids(file: Path) -> set[str]:
    """Return the first fields of a split that is not evaluated; its lines are not checked."""
    return {line.split(b"\t")[0].decode("utf-8", "replace") for _, line in read_lines(file)}
