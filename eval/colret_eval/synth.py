"""Known-item queries from the documents themselves, for those who have no labels.

A heading of a PDF's outline, a heading by its size, or a caption of a figure or table is a query
whose answer is the page it stands on. Beitzel et al., "Evaluation of web search engines using
known-item queries" (SIGIR 2003) and Azzopardi, de Rijke and Balog, "Building simulated queries
for known-item topics" (SIGIR 2007) say what such queries can and cannot tell.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from colret.documents import document_id
from colret.errors import ColretError, DocumentError
from colret.folders import find_documents as find_files
from colret_eval.datasets import DatasetError
from colret_eval.datasets.contents import PDF_FOLDER
from colret_eval.datasets.own import COLUMNS, QRELS_FILE, QUERIES_FILE, as_field
from colret_eval.headings import LEADERS, Item, find_items, plain_text

WORTH = (
    "These queries are headings and captions copied from the pages that answer them. They favour "
    "systems that match words, such as BM25, and measure whether a page can be found by its own "
    "words, not whether questions are answered. Use them to see that an index works and to compare "
    "settings of one system; do not choose a system by them. Fifty questions of real users tell more."
)
"""What labels made here are worth; to be said wherever figures from them are shown."""

MIN_WORDS, MAX_WORDS = 2, 20
MIN_LETTERS = 8


class Synthesis(NamedTuple):
    """What was made."""

    items: list[Item]
    n_documents: int  # in the corpus
    skipped: list[ColretError]  # documents that cannot be read, or are there already: they are not in the corpus


def synthesise(folder: Path, out: Path, *, limit: int | None = None, copy: bool = False) -> Synthesis:
    """Write a labelled set in colret's own format, made from the PDFs below ``folder``.

    Args:
        folder: Of PDFs.
        out: Where to put the set: a folder that does not exist, or is empty.
        limit: Most queries, taken evenly from the documents and from all parts of each; None for all.
        copy: Copy the PDFs; otherwise ``pdfs/`` has symbolic links, where the system has them.

    Raises:
        DatasetError: There are no PDFs, nothing in them makes a query, or ``out`` is in use or inside ``folder``.
    """
    if folder.resolve() in (out.resolve(), *out.resolve().parents):
        raise DatasetError(
            out, f"is inside {folder}, where the set's own PDFs would be found again", "name one elsewhere"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DatasetError(out, "exists already", "name another folder")
    there = find_files([folder])
    paths = [source.file for source in there.sources if source.file.suffix.lower() == ".pdf"]
    root = Path(os.path.abspath(folder))
    files: dict[str, Path] = {}
    skipped: list[ColretError] = [*there.problems, *there.unusable.values()]
    found: list[Item] = []
    names: dict[str, str] = {}  # by what the file holds
    for path in paths:
        name = path.relative_to(root).as_posix() if path != root else path.name
        try:
            same = names.setdefault(document_id(path), name)
            if same != name:
                skipped.append(DatasetError(path, f"is the same as {same}", "nothing to do: one of them is kept"))
                continue
            found += find_items(path, name)
            files[name] = path
        except DocumentError as error:
            skipped.append(error)
    if not files:
        raise skipped[0] if skipped else DatasetError(folder, "holds no PDFs", "name a folder of PDFs")
    items = _spread(_unique(found), limit)
    if not items:
        raise DatasetError(folder, "has no heading or caption that names one page", "label questions by hand")
    _write(out, items, files, copy=copy)
    return Synthesis(items, len(files), skipped)


def _unique(items: Sequence[Item]) -> list[Item]:
    """Return the items that are long enough to ask for something, and whose words ask for one page only."""
    pages: dict[str, set[tuple[str, int]]] = {}
    for item in items:
        pages.setdefault(plain_text(item.text), set()).add((item.file, item.page))
    kept: dict[str, Item] = {}
    for item in items:
        plain = plain_text(item.text)
        n_words = sum(any(map(str.isalpha, word)) for word in plain.split())
        n_letters = sum(map(str.isalpha, item.text))
        asks = MIN_WORDS <= n_words <= MAX_WORDS and n_letters >= max(MIN_LETTERS, len(item.text) / 2)
        if asks and len(pages[plain]) == 1 and not LEADERS.search(item.text):
            kept.setdefault(plain, item)
    return list(kept.values())


def _spread(items: Sequence[Item], limit: int | None) -> list[Item]:
    """Return at most ``limit`` items: as many from each document as can be, evenly over its pages."""
    if limit is None or len(items) <= limit:
        return list(items)
    sizes = Counter(item.file for item in items)
    shares = _shares(sizes, limit)
    kept, seen = [], Counter[str]()
    for item in items:
        n, share = sizes[item.file], shares[item.file]
        if (seen[item.file] + 1) * share // n > seen[item.file] * share // n:  # ``share`` of n, evenly spaced
            kept.append(item)
        seen[item.file] += 1
    return kept


def _shares(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """Return how many of each document's items to keep: one at a time for each that has any left."""
    shares = dict.fromkeys(sizes, 0)
    while limit:
        for name in [name for name, n in sizes.items() if shares[name] < n][:limit]:
            shares[name] += 1
            limit -= 1
    return shares


def _write(out: Path, items: Sequence[Item], files: Mapping[str, Path], *, copy: bool) -> None:
    try:
        for name, path in files.items():
            target = out / PDF_FOLDER / name
            target.parent.mkdir(parents=True, exist_ok=True)
            _place(path, target, copy=copy)
        queries, qrels = [], ["\t".join(COLUMNS)]
        for i, item in enumerate(items):
            entry = {"query_id": f"s{i}", "text": item.text, "synthetic": True, "kind": item.kind}
            queries.append(json.dumps(entry, ensure_ascii=False))
            qrels.append(f"s{i}\t{as_field(item.file)}\t{item.page}\t1")
        (out / QUERIES_FILE).write_text("\n".join(queries) + "\n", encoding="utf-8", newline="\n")
        (out / QRELS_FILE).write_text("\n".join(qrels) + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise DatasetError(
            error.filename or out, f"cannot be written ({error.strerror})", "name another folder"
        ) from error


def _place(path: Path, target: Path, *, copy: bool) -> None:
    if not copy:
        try:
            target.symlink_to(path)
            return
        except OSError:  # a system without links, or one that does not let us make them
            pass
    shutil.copyfile(path, target)
