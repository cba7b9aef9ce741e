"""Which pages a search may find: an SQL condition, and documents by path, glob or id.

LanceDB's own SQL is asked about an in-memory table of one row for each page and path, so a
condition can neither see nor change the index.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colret.database import matching_rows
from colret.documents import display_path
from colret.errors import FilterError
from colret.object_storage import is_remote
from colret.places import absolute_place
from colret.types import DocumentFile, DocumentRecord

COLUMNS: Final = ("path", "file", "folder", "doc_id", "page", "n_pages", "n_vectors", "size", "modified")
"""What a condition may name: ``file`` is the last part of ``path``, ``size`` is in bytes, ``modified`` in UTC."""

_LONGEST_CONDITION = 1000  # characters; LanceDB overflows its stack on a chain of 900 operators
_LONGEST_TOLD = 120  # characters of a condition, or of what is wrong with it, in a message
_ID_PREFIX = re.compile("[0-9a-f]{8,}")
# Functions that make much of little, so that a short condition takes gigabytes. After a function's name there can be
# a closing quote, a comment or the parenthesis, so no string or comment need be told from code.
_GROWING = re.compile(
    r"\b(repeat|[lr]pad|(?:regexp_)?replace|overlay|space|range|generate_series|arrow_cast|(?:array|list|make)_\w+)"
    r"""\b["`]?\s*(?:\(|/\*|--)""",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|`[^`]*`""")
# Values on which LanceDB panics, and prints where: placeholders, texts between dollars, texts of other kinds.
_UNREADABLE = re.compile(r"[?$][\w$]*|(?<!:):\w+|\b[bnr]''", re.IGNORECASE)

_PLACE_IN_SOURCE = re.compile(r", \S+\.rs:\d+.*", re.DOTALL)
_PREAMBLE = re.compile(r"((Invalid input|Invalid user input|lance error|Error [a-z ]+|[A-Z][\w ]* error)[,:] )+")
_LITERAL = re.compile(r"Received literal \w+\((.*)\) and could not convert to literal of type .*", re.DOTALL)


def page_mask(
    pages: pa.Table, documents: Sequence[DocumentRecord], *, where: str | None = None, docs: Sequence[str] = ()
) -> NDArray[np.bool_] | None:
    """Return which pages pass a filter; a page has to pass both parts, where both are given.

    Args:
        pages: N rows with columns doc_id (string), number and n_vectors (int32).
        documents: The index's documents; a page of any other passes no filter.
        where: A condition in SQL over ``COLUMNS``. A page that lies at several paths passes if
            it holds for one of them. LIKE minds upper and lower case, ILIKE does not.
        docs: Documents, of which a page's must be one: each a path or a folder, absolute or from
            the working folder; a glob over whole paths or over file names, whose ``*`` stands for
            any characters, separators too; or the first eight or more digits of an id.

    Returns:
        (N,) bool; None if nothing filters.

    Raises:
        FilterError: If ``where`` is not such a condition, or one of ``docs`` names no document.
    """
    if where is None and not docs:
        return None
    passes = np.ones(len(pages), bool)
    if docs:
        named = set().union(*(_named(target, documents) for target in docs))
        passes &= _is_in(pages["doc_id"], sorted(named))
    if where is not None:
        passes &= _holds(where, pages, documents)
    return passes


def _is_in(column: pa.ChunkedArray, values: Sequence[str]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.is_in(column, pa.array(values, column.type)).to_numpy()
    return found


def _named(target: str, documents: Sequence[DocumentRecord]) -> set[str]:
    """Return the ids of the documents that ``target`` names: as a path, else as a glob or an id."""
    found = _at(target, documents) or _matching(target, documents) if target.strip() else []
    if not found:
        raise FilterError(target or "''", "names no document of the index", "see: colret list")
    read = {record.doc_id for record in found if record.status == "done"}
    if not read:
        raise FilterError(target, "names only documents that could not be read", "see: colret list --failed")
    return read


def _at(target: str, documents: Sequence[DocumentRecord]) -> list[DocumentRecord]:
    path = display_path(absolute_place(target))
    below = path.rstrip(os.sep) + os.sep
    return [
        record for record in documents if any(file.path == path or file.path.startswith(below) for file in record.files)
    ]


def _matching(pattern: str, documents: Sequence[DocumentRecord]) -> list[DocumentRecord]:
    from_here = os.path.normpath(os.path.join(glob.escape(os.getcwd()), pattern))
    written = pattern if is_remote(pattern) else display_path(Path(pattern))
    whole, name = (re.compile(fnmatch.translate(each)).match for each in (display_path(Path(from_here)), written))
    is_id = _ID_PREFIX.fullmatch(pattern) is not None
    return [
        record
        for record in documents
        if (is_id and record.doc_id.startswith(pattern))
        or any(whole(file.path) or name(file.path) or name(os.path.basename(file.path)) for file in record.files)
    ]


def _holds(where: str, pages: pa.Table, documents: Sequence[DocumentRecord]) -> NDArray[np.bool_]:
    """Return for which pages the condition holds."""
    if not where.strip():
        raise FilterError("''", "an empty condition", _example())
    if len(where) > _LONGEST_CONDITION:
        problem = f"a condition of {len(where):,} characters"
        raise FilterError(_cut(where), problem, f"use at most {_LONGEST_CONDITION:,}, and --doc to name documents")
    if growing := _GROWING.search(where):
        raise FilterError(_cut(where), f"{growing[1].lower()} has no place in a condition on pages", _example())
    if unreadable := _UNREADABLE.search(_QUOTED.sub("''", where)):
        raise FilterError(_cut(where), f"{_cut(unreadable[0])} is no value here", _example())
    rows, page_of_row = _rows(pages, documents)
    try:
        # On a line of its own in parentheses, so that nothing after a ";" or "--" is dropped without a word.
        found = matching_rows(rows, f"({where}\n)")
    except Exception as error:  # LanceDB's own, of which that of a panic is no usual one
        raise FilterError(_cut(where), f"not a condition on pages: {_plain(str(error))}", _example()) from error
    passes = np.zeros(len(pages), bool)
    passes[page_of_row[found]] = True
    return passes


def _example() -> str:
    return f"write a condition in SQL on {', '.join(COLUMNS)}, such as \"path LIKE '%2023%' AND page = 1\""


def _rows(pages: pa.Table, documents: Sequence[DocumentRecord]) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the table of ``COLUMNS``, a row for each page and path, and the page of each row."""
    document = pc.index_in(pages["doc_id"], pa.array([record.doc_id for record in documents], pages["doc_id"].type))
    known = np.flatnonzero(document.is_valid().to_numpy())
    document_of_page = document.drop_null().to_numpy()
    n_files = np.array([len(record.files) for record in documents], np.int64)
    first_file = np.concatenate([[0], np.cumsum(n_files)]).astype(np.int64)

    repeats = n_files[document_of_page]
    page = np.repeat(known, repeats)
    of_row = np.repeat(document_of_page, repeats)
    within = np.arange(len(page)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    file = pa.array(first_file[of_row] + within)

    files = [file for record in documents for file in record.files]
    paths = [each.path for each in files]
    columns = {
        "path": _texts(paths).take(file),
        "file": _texts([os.path.basename(path) for path in paths]).take(file),
        "folder": _texts([os.path.dirname(path) for path in paths]).take(file),
        "doc_id": _texts([record.doc_id for record in documents]).take(pa.array(of_row)),
        "page": pages["number"].take(pa.array(page)),
        "n_pages": np.array([record.n_pages for record in documents], np.int32)[of_row],
        "n_vectors": pages["n_vectors"].take(pa.array(page)),
        "size": np.array([record.size for record in documents], np.int64)[of_row],
        "modified": pa.array([_modified(each) for each in files], pa.timestamp("us", "UTC")).take(file),
    }
    return pa.table(columns), page


def _texts(values: Sequence[str]) -> pa.DictionaryArray:
    """Return texts as a dictionary: a document's path is kept once, however many pages it has."""
    return pa.array(values, pa.string()).dictionary_encode()


def _modified(file: DocumentFile) -> int:
    return file.mtime_ns // 1000


def _plain(message: str) -> str:
    """Return what is useful in a message of LanceDB: neither its layers nor its source files."""
    text = _PLACE_IN_SOURCE.sub("", message).split("\nDid you mean", 1)[0]
    if "sql parser error: " in text:
        text = text.rsplit("sql parser error: ", 1)[1].removesuffix(")")
    if "Error resolving filter expression" in text:
        text = text.split(": ", 1)[-1]
    text = _LITERAL.sub(r"\1 does not fit what it is compared with", _PREAMBLE.sub("", text))
    return _cut(text.split(". Valid fields", 1)[0].removesuffix(" SQL in lance").strip())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TOLD else text[:_LONGEST_TOLD] + "..."
