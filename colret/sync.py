"""What an ingest has to do: the files that are there, compared with what the index knows.

A document is its content, so a renamed or copied file is the same document under another path,
and a changed file is another document under the same path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import colret
from colret.documents import SourceFile, display_path, document_id
from colret.errors import DocumentError
from colret.types import DocumentFile, DocumentRecord


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to read, and every path that holds it."""

    doc_id: str
    source: SourceFile
    files: tuple[DocumentFile, ...]


@dataclass(slots=True)
class Plan:
    """What is to be done, and what is to be told."""

    new: list[NewDocument] = field(default_factory=list)
    updated: list[DocumentRecord] = field(default_factory=list)  # known content, other paths or times
    obsolete: list[DocumentRecord] = field(default_factory=list)  # whose last path holds other content now
    n_unchanged: int = 0  # documents
    n_moved: int = 0  # paths that are new for known content
    flawed: list[DocumentRecord] = field(default_factory=list)  # known to be unusable, whole or in part
    unreadable: list[DocumentError] = field(default_factory=list)


def make_plan(sources: Sequence[SourceFile], records: Iterable[DocumentRecord], *, retry_failed: bool) -> Plan:
    """Compare files with records; a file is read for its hash only if its path, size or time is new.

    Args:
        sources: The files that are there.
        records: What the index knows.
        retry_failed: Read documents again that could not be used, whole or in part. Those that
            failed with another version of colret are always read again.
    """
    plan = Plan()
    known = {record.doc_id: record for record in records}
    emptied: set[str] = set()  # paths that hold nothing now
    holders = _identify(sources, known, plan, emptied)
    looked_at = {file.path for held in holders.values() for file in held} | emptied
    for record in known.values():
        files = _holders_now(record, holders.get(record.doc_id, {}), looked_at)
        if not files:
            plan.obsolete.append(record)
        elif record.doc_id in holders:
            _plan_known(record, files, holders.pop(record.doc_id), plan, retry_failed=retry_failed)
        elif files != record.files:
            plan.updated.append(replace(record, files=files))
    plan.new += [NewDocument(doc_id, _first(held), tuple(sorted(held))) for doc_id, held in holders.items()]
    plan.new.sort(key=lambda document: document.files)
    return plan


def _holders_now(
    record: DocumentRecord, found: Iterable[DocumentFile], looked_at: set[str]
) -> tuple[DocumentFile, ...]:
    """Return the files that hold a document: those found, and those that were not looked at.

    Where the content turned up under a new path, an old path that is gone was renamed.
    """
    found = set(found)
    kept = {file for file in record.files if file.path not in looked_at}
    if {file.path for file in found} - {file.path for file in record.files}:
        kept = {file for file in kept if os.path.lexists(file.path)}
    return tuple(sorted(found | kept))


def _identify(
    sources: Sequence[SourceFile], known: dict[str, DocumentRecord], plan: Plan, emptied: set[str]
) -> dict[str, dict[DocumentFile, SourceFile]]:
    """Return the files that hold each document; the unreadable ones go into the plan."""
    seen = {(file, record.size): record.doc_id for record in known.values() for file in record.files}
    holders: dict[str, dict[DocumentFile, SourceFile]] = {}
    for source in sources:
        file = DocumentFile(display_path(source.path), source.mtime_ns)
        try:
            doc_id = seen.get((file, source.size)) or document_id(source.path)
        except DocumentError as error:
            plan.unreadable.append(error)
            if error.reason == "empty_file":
                emptied.add(file.path)
        else:
            holders.setdefault(doc_id, {})[file] = source
    return holders


def _plan_known(
    record: DocumentRecord,
    files: tuple[DocumentFile, ...],
    held: dict[DocumentFile, SourceFile],
    plan: Plan,
    *,
    retry_failed: bool,
) -> None:
    """Plan for a document whose content was found again."""
    failed = record.status == "failed"
    flawed = failed or bool(record.skipped)
    if (flawed and retry_failed) or (failed and record.tool_version != colret.__version__):
        plan.new.append(NewDocument(record.doc_id, _first(held), files))
        return
    if flawed:
        plan.flawed.append(replace(record, files=tuple(sorted(held))))  # told by the path found now
    if not failed:
        plan.n_unchanged += 1
        plan.n_moved += len({file.path for file in held} - {file.path for file in record.files})
    if files != record.files:
        plan.updated.append(replace(record, files=files))


def _first(held: dict[DocumentFile, SourceFile]) -> SourceFile:
    return held[min(held)]
