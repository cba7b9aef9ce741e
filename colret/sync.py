"""What an ingest has to do, and the records of what it cannot do.

A document is its content, so a renamed or copied file is the same document under another path,
and a changed file is another document under the same path. A file whose content cannot be had
(a named pipe, an archive, one without permission) has a record of its own by its path, so that it
is listed; it is looked at anew each time, and the record goes when the cause does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import colret
from colret.documents import SourceFile, id_without_content
from colret.errors import DocumentError
from colret.types import DocumentFile, DocumentRecord

Change = Literal["new", "changed", "retried", "moved", "unchanged", "unusable", "vanished"]
"""What has become of a path: "moved" is a path that is new for content that the index knows."""


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to read, and every path that holds it."""

    doc_id: str
    source: SourceFile
    files: tuple[DocumentFile, ...]


@dataclass(slots=True)
class Plan:
    """What is to be done, and what is to be told."""

    new: list[NewDocument] = field(default_factory=list)  # to be read
    reread: set[str] = field(default_factory=set)  # ids of those with pages in the index, kept until then
    updated: list[DocumentRecord] = field(default_factory=list)  # to be written as they are; no page changes
    obsolete: list[DocumentRecord] = field(default_factory=list)  # whose last path holds other content now
    dropped: list[DocumentRecord] = field(default_factory=list)  # whose last path is gone, or its failure is over
    flawed: list[DocumentRecord] = field(default_factory=list)  # known to be unusable, whole or in part
    problems: list[DocumentError] = field(default_factory=list)
    changes: dict[str, Change] = field(default_factory=dict)  # by path, of files found or vanished
    n_unchanged: int = 0  # documents

    @property
    def n_moved(self) -> int:
        """Further paths of content that is in the index: copies and renamed files."""
        return len(self.paths("moved"))

    @property
    def n_pruned(self) -> int:
        """Documents that are taken out because no path is left."""
        return sum(record.status == "done" for record in self.dropped)

    def paths(self, change: Change) -> list[str]:
        """Return the paths that something has become of, sorted."""
        return sorted(path for path, each in self.changes.items() if each == change)


def without_content(records: Iterable[DocumentRecord]) -> tuple[dict[str, DocumentRecord], dict[str, DocumentRecord]]:
    """Return the records of files whose content could not be had, by path, and the others, by id."""
    barred: dict[str, DocumentRecord] = {}
    known: dict[str, DocumentRecord] = {}
    for record in records:
        paths = [file.path for file in record.files]
        if len(paths) == 1 and record.doc_id == id_without_content(paths[0]):
            barred[paths[0]] = record
        else:
            known[record.doc_id] = record
    return barred, known


def barred_record(path: str, error: DocumentError) -> DocumentRecord:
    """Return the record of a file whose content cannot be had."""
    return DocumentRecord(
        doc_id=id_without_content(path),
        files=(DocumentFile(path, 0),),
        size=0,
        n_pages=0,
        n_blank=0,
        status="failed",
        reason=error.reason,
        message=f"{error.problem}; {error.remedy}",
        tool_version=colret.__version__,
    )
