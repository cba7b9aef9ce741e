"""Take documents out of an index, by path or by id."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from colret.documents import display_path
from colret.errors import DocumentError
from colret.places import absolute_place
from colret.store import PageStore
from colret.types import DocumentRecord

_SHORTEST_ID = 6  # digits of an id that are enough, if they are unique


@dataclass(frozen=True, slots=True)
class Removal:
    """What was removed."""

    documents: tuple[DocumentRecord, ...]  # gone, with their pages
    n_paths: int  # forgotten, of documents that other paths still hold


def remove(store: PageStore, targets: Sequence[str]) -> Removal:
    """Remove documents from the index; the files themselves are left alone.

    Args:
        store: The index.
        targets: Ids (or the first six or more digits of one), files, or folders. A document
            that another path holds too keeps its pages unless its id is given.

    Raises:
        DocumentError: If a target names nothing in the index; nothing is removed then.
        StoreError: If the index is being written to.
    """
    with store.writing():
        # What was replaced is of no path any more; the next ingest takes it out.
        records = {record.doc_id: record for record in store.documents() if record.status != "replaced"}
        left = dict(records)
        for target in targets:
            _take(target, records, left)
        gone = [doc_id for doc_id, record in left.items() if not record.files]
        changed = [record for doc_id, record in left.items() if record.files and record != records[doc_id]]
        store.put_documents(changed)
        store.remove_documents(gone)
        store.compact()
    n_paths = sum(len(records[record.doc_id].files) - len(record.files) for record in changed)
    return Removal(tuple(records[doc_id] for doc_id in gone), n_paths)


def _take(target: str, records: dict[str, DocumentRecord], left: dict[str, DocumentRecord]) -> None:
    """Take the paths that ``target`` names from the records that are left."""
    if not target.strip():  # which would be the working folder, as an unset variable is
        raise DocumentError("''", "names no document", "see: colret list", reason="missing")
    path = display_path(absolute_place(target))
    below = path.rstrip(os.sep) + os.sep
    held = [
        record.doc_id for record in records.values() if any(_is_at(file.path, path, below) for file in record.files)
    ]
    if held:
        for doc_id in held:
            files = tuple(file for file in left[doc_id].files if not _is_at(file.path, path, below))
            left[doc_id] = replace(left[doc_id], files=files)
        return
    matches = [doc_id for doc_id in records if doc_id.startswith(target)] if len(target) >= _SHORTEST_ID else []
    if len(matches) != 1:
        problem = "matches several documents" if matches else "not in the index"
        raise DocumentError(target, problem, "see: colret list", reason="missing")
    left[matches[0]] = replace(left[matches[0]], files=())


def _is_at(path: str, target: str, below: str) -> bool:
    return path == target or path.startswith(below)
