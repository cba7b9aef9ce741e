"""The files that are there, compared with what the index knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Final

import colret
from colret.addresses import Place
from colret.documents import SourceFile, display_path
from colret.errors import DocumentError, Reason
from colret.folders import Found, has_vanished, is_below, is_gone, lasting_time
from colret.places import place_of
from colret.spool import Spool, identified
from colret.sync import Change, NewDocument, Plan, barred_record, without_content
from colret.types import DocumentFile, DocumentRecord

_KEEPING: Final = frozenset({"missing", "unreadable"})
"""Reasons that say nothing of a path's content: pages that the index has of it stay."""


def make_plan(
    found: Found,
    records: Iterable[DocumentRecord],
    *,
    retry_failed: bool = False,
    retry: Collection[Reason] = (),
    prune: bool = False,
    spool: Spool | None = None,
) -> Plan:
    """Compare files with records; a file is read for its hash only if its path, size or time is new.

    Args:
        found: The files that are there.
        records: What the index knows.
        retry_failed: Read documents again that could not be used, whole or in part. Those that
            failed with another version of colret are always read again.
        retry: Reasons for which documents failed that may have passed, as where a password is
            at hand now: these are read again too.
        prune: Take paths that have vanished out of the index. Below a given folder without a
            single document that is refused: it looks like a disk that is not mounted.
        spool: Keeps copies of objects that are read for their hash, for whoever reads them next.
    """
    return _Planner(found, records, retry_failed, frozenset(retry), prune, spool).make()


def passed_reasons(*, passwords: bool) -> frozenset[Reason]:
    """Return the reasons of failures that are worth another try on this machine, with passwords or without."""
    from colret.conversion import libreoffice

    reasons: set[Reason] = {"password_required"} if passwords else set()
    if libreoffice():
        reasons.add("needs_libreoffice")
    return frozenset(reasons)


class _Planner:
    """The comparison of one set of files with one set of records."""

    def __init__(
        self,
        found: Found,
        records: Iterable[DocumentRecord],
        retry_failed: bool,
        retry: frozenset[Reason],
        prune: bool,
        spool: Spool | None,
    ) -> None:
        self._found = found
        self._retry_failed, self._retry, self._prune = retry_failed, retry, prune
        self._plan = Plan(problems=list(found.problems))
        self._unusable = dict(found.unusable)
        self._barred, self._known = without_content(records)
        self._identified = spool.identified if spool else identified
        self._paths = {file.path for record in self._known.values() for file in record.files}
        self._holders = self._identify()
        self._looked_at = {file.path for held in self._holders.values() for file in held}
        self._looked_at |= {path for path, error in self._unusable.items() if error.reason not in _KEEPING}
        self._unpruned = self._emptied_roots()

    def make(self) -> Plan:
        """Return the plan."""
        self._plan_unusable()
        for record in self._known.values():
            self._plan_known(record)
        for doc_id, held in self._holders.items():
            if doc_id not in self._known:
                self._read(doc_id, held, tuple(sorted(held)))
        self._plan.new.sort(key=lambda document: document.files)
        self._tell_refused()
        return self._plan

    def _identify(self) -> dict[str, dict[DocumentFile, SourceFile]]:
        """Return the files that hold each document; the unreadable ones join the unusable."""
        seen = {(file, record.size): record.doc_id for record in self._known.values() for file in record.files}
        holders: dict[str, dict[DocumentFile, SourceFile]] = {}
        unseen = []
        for source in self._found.sources:
            file = DocumentFile(display_path(source.path), source.mtime_ns)
            if doc_id := seen.get((file, source.size)):
                holders.setdefault(doc_id, {})[file] = source
            else:
                unseen.append(source)
        for source, doc_id, error, begun_ns in self._identified(unseen):
            file = DocumentFile(display_path(source.path), lasting_time(source.mtime_ns, begun_ns))
            if error:
                self._unusable[file.path] = error
            else:
                holders.setdefault(doc_id, {})[file] = source
        return holders

    def _emptied_roots(self) -> list[Place]:
        """Return the given folders that hold no document."""
        full = {folder for source in self._found.sources for folder in source.path.parents}
        return [root for root in self._found.roots if root in self._found.listed and root not in full]

    def _plan_unusable(self) -> None:
        """Plan for files whose content cannot be had, and for those where that has passed."""
        for path, error in sorted(self._unusable.items()):
            record = barred_record(path, error)
            self._plan.changes[path] = "unusable"
            self._plan.flawed.append(record)
            if record != self._barred.get(path):
                self._plan.updated.append(record)
        for path, record in self._barred.items():
            if path not in self._unusable and self._was_looked_for(path):
                self._plan.dropped.append(record)

    def _was_looked_for(self, path: str) -> bool:
        on_disk = place_of(path)
        listed = self._found.listed
        return on_disk.parent in listed or on_disk in listed or has_vanished(path, self._found)

    def _plan_known(self, record: DocumentRecord) -> None:
        """Plan for a document that the index knows."""
        held = self._holders.get(record.doc_id, {})
        files = self._files_now(record, held)
        if not files:
            replaced = any(file.path in self._looked_at for file in record.files)
            (self._plan.obsolete if replaced else self._plan.dropped).append(record)
        elif held and self._is_due(record, held):
            self._read(record.doc_id, held, files)
        else:
            self._keep(record, held, files)

    def _files_now(self, record: DocumentRecord, held: Iterable[DocumentFile]) -> tuple[DocumentFile, ...]:
        """Return the files that hold a document: those found, and those that were not looked at."""
        held = set(held)
        kept = {file for file in record.files if file.path not in self._looked_at}
        new_paths = {file.path for file in held} - {file.path for file in record.files}
        if new_paths:  # an old path that is gone was renamed
            kept = {file for file in kept if not self._was_renamed(file.path, new_paths)}
        for file in list(kept):
            if has_vanished(file.path, self._found) and self._drops(record, file.path):
                kept.remove(file)
        return tuple(sorted(held | kept))

    def _was_renamed(self, path: str, new_paths: Collection[str]) -> bool:
        """Return whether a path is gone; where case makes no difference, another case of it is no second file."""
        place = place_of(path)
        same_file = isinstance(place, Path) and path.casefold() in {new.casefold() for new in new_paths}
        return same_file or is_gone(place, self._found)

    def _drops(self, record: DocumentRecord, path: str) -> bool:
        """Return whether a path that has vanished is to be forgotten."""
        if record.status == "failed":  # nothing is lost
            return True
        self._plan.changes[path] = "vanished"
        return self._prune and not is_below(place_of(path), self._unpruned)

    def _is_due(self, record: DocumentRecord, held: Iterable[DocumentFile]) -> bool:
        """Return whether a document is to be read again."""
        if record.status == "replaced":  # by an ingest that was cut short: the content has come back
            return True
        if record.status != "failed":
            return self._retry_failed and bool(record.skipped)
        renamed = not _suffixes(held) <= _suffixes(record.files)  # a name may tell what kind of file it is
        outdated = record.tool_version != colret.__version__
        return self._retry_failed or renamed or outdated or record.reason in self._retry

    def _read(self, doc_id: str, held: dict[DocumentFile, SourceFile], files: tuple[DocumentFile, ...]) -> None:
        self._plan.new.append(NewDocument(doc_id, held[min(held)], files))
        if doc_id in self._known and self._known[doc_id].status == "done":
            self._plan.reread.add(doc_id)
        for file in held:
            again: Change = "changed" if file.path in self._paths else "new"
            self._plan.changes[file.path] = "retried" if doc_id in self._known else again

    def _keep(
        self, record: DocumentRecord, held: Mapping[DocumentFile, SourceFile], files: tuple[DocumentFile, ...]
    ) -> None:
        """Plan for a document that is not read, wherever it is now."""
        failed = record.status == "failed"
        before = {file.path for file in record.files}
        for file in held:
            place: Change = "unchanged" if file.path in before else "moved"
            self._plan.changes[file.path] = "unusable" if failed else place
        if held and (failed or record.skipped):
            self._plan.flawed.append(replace(record, files=tuple(sorted(held))))  # told by the path found now
        if held and not failed:
            self._plan.n_unchanged += 1
        if files != record.files:
            self._plan.updated.append(replace(record, files=files))

    def _tell_refused(self) -> None:
        """Say what was not pruned, for it may not have been deleted at all."""
        gone = [place_of(path) for path, change in self._plan.changes.items() if change == "vanished"]
        for root in self._unpruned if self._prune else ():
            if n := sum(is_below(path, [root]) for path in gone):
                problem = f"holds no document any more, so the {n} known below it are kept: is its disk mounted"
                remedy = f"if they are gone for good: colret remove {root}"
                self._plan.problems.append(DocumentError(root, problem, remedy, reason="missing"))


def _suffixes(files: Iterable[DocumentFile]) -> set[str]:
    return {PurePath(file.path).suffix.lower() for file in files}
