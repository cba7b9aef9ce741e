"""Copies of objects on this machine, so that they can be read as files: few bytes at a time, each until it was read.

What is downloaded to be hashed is kept while there is room, for it is read next; what did not
fit is downloaded again when its turn comes, ahead of the reading.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from colret.addresses import Address
from colret.closing import Closing
from colret.documents import SourceFile, changed_while_read, document_id
from colret.downloads import Copy, Room
from colret.errors import ColretError, DocumentError
from colret.objects import Downloaded, has_tag
from colret.scratch import no_room, scratch_folder

KEPT_BYTES: Final = 1 << 30
"""Of copies that were hashed and are read next."""

AHEAD_BYTES: Final = 1 << 30
"""Of copies that are made ahead of their reading; a single one may be larger."""

_PREFIX = "colret-objects-"
_DOWNLOADS = 8  # at a time
_FREE_SHARE = 4  # a quarter of what is free on the disk is as much as either may take
_WAKE_SECONDS = 0.5  # Ctrl-C does not end a wait for another thread on every system

Here = Callable[[Path | ColretError], None]
"""Takes the copy of an object, or why there is none."""


class Identified(NamedTuple):
    """A file or object whose content was hashed, or why not."""

    source: SourceFile  # of an object: as it was then
    doc_id: str
    error: DocumentError | None
    begun_ns: int  # when that began: another state of the same second may follow; 0 where it would have another tag


class Spool(Closing):
    """Copies of objects; use it in ``with``. A file is its own copy.

    Args:
        kept_bytes: At most, of what was hashed.
        ahead_bytes: At most, of what is read next.
    """

    def __init__(self, *, kept_bytes: int = KEPT_BYTES, ahead_bytes: int = AHEAD_BYTES) -> None:
        self._kept, self._ahead = Room(kept_bytes), Room(ahead_bytes)
        self._copies: dict[SourceFile, Copy] = {}
        self._waiting: deque[Copy] = deque()  # first come, first served
        self._lock = threading.RLock()
        self._folder: Path | None = None
        self._n_files = self._n_running = 0

    def identified(self, sources: Iterable[SourceFile]) -> Iterator[Identified]:
        """Hash files and objects, several objects at a time, and keep copies of objects while there is room.

        Raises:
            ColretError: There is no place for copies.
        """
        window: deque[tuple[Copy, int]] = deque()
        try:
            for source in sources:
                if not isinstance(source.path, Address):
                    yield _identified(source)
                    continue
                window.append((self._start_hashing(source), time.time_ns()))
                if len(window) == _DOWNLOADS:
                    yield self._finish_hashing(*window.popleft())
            while window:
                yield self._finish_hashing(*window.popleft())
        finally:
            for copy, _ in window:
                copy.stop.set()

    def when_here(self, source: SourceFile, doc_id: str, take: Here) -> None:
        """Have ``take`` called, now or from another thread, as soon as there is a copy of ``source``.

        Copies are made in the order in which they are asked for, and wait for those before them to
        be released where there is no room.

        Args:
            source: A file or object.
            doc_id: What is known of its content: another is told as a change.
            take: Is given the path, or why there is none.

        Raises:
            ColretError: There is no place for copies.
        """
        if not isinstance(source.path, Address):
            take(source.path)
            return
        with self._lock:
            copy = self._copies.get(source)
            if copy is None:
                copy = self._copies[source] = Copy(source, self._new_file(source), self._ahead)
                self._waiting.append(copy)
            wanted = _checked(copy, doc_id, take)
            if not copy.done.is_set():
                copy.takers.append(wanted)
                self._start_waiting()
                return
        wanted()

    def release(self, source: SourceFile) -> None:
        """Delete the copy of an object, or leave off making it: it is not wanted any more."""
        with self._lock:
            copy = self._copies.pop(source, None)
            if copy is None:
                return
            copy.stop.set()
            if copy in self._waiting:
                self._waiting.remove(copy)
            copy.delete()
            self._start_waiting()

    def close(self) -> None:
        """Delete all copies."""
        with self._lock:
            self._waiting.clear()
            for copy in self._copies.values():
                copy.stop.set()
            self._copies.clear()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _start_hashing(self, source: SourceFile) -> Copy:
        with self._lock:
            copy = Copy(source, None, self._kept)
            if self._kept.bytes:
                file = self._new_file(source)
                copy.path = file if self._kept.has_for(source.size) else None
            copy.hold()
            self._start(copy)
        return copy

    def _finish_hashing(self, copy: Copy, begun_ns: int) -> Identified:
        while not copy.done.wait(_WAKE_SECONDS):
            pass
        result = copy.result
        with self._lock:
            if not isinstance(result, Downloaded):
                copy.delete()
            elif copy.path is not None:
                copy.source = result.source
                self._copies[result.source] = copy
        if isinstance(result, Downloaded):
            return Identified(result.source, result.doc_id, None, 0 if has_tag(result.source) else begun_ns)
        if not isinstance(result, DocumentError):
            assert result is not None
            raise result
        return Identified(copy.source, "", result, begun_ns)

    def _start_waiting(self) -> None:
        while self._waiting and self._n_running < _DOWNLOADS:
            if self._ahead.held and not self._ahead.has_for(self._waiting[0].source.size):
                return
            copy = self._waiting.popleft()
            copy.hold()
            self._start(copy)

    def _start(self, copy: Copy) -> None:
        """Make a copy in a thread, which the end of the process does not wait for."""
        self._n_running += 1
        threading.Thread(target=self._run, args=(copy,), name="colret download", daemon=True).start()

    def _run(self, copy: Copy) -> None:
        copy.make()
        with self._lock:
            self._n_running -= 1
            if copy.stop.is_set() and copy.path is not None:  # deleted before it was there
                copy.path.unlink(missing_ok=True)
            copy.done.set()
            takers, copy.takers = copy.takers, []
            self._start_waiting()
        for take in takers:
            take()

    def _new_file(self, source: SourceFile) -> Path:
        """Return where a copy may be made, under the suffix that says what kind of document it is."""
        if self._folder is None:
            try:
                self._folder = Path(tempfile.mkdtemp(dir=scratch_folder(_PREFIX)))
                free = shutil.disk_usage(self._folder).free
            except OSError as error:
                raise no_room(error) from error
            for room in (self._kept, self._ahead):
                room.bytes = min(room.bytes, free // _FREE_SHARE)
        self._n_files += 1
        return self._folder / f"{self._n_files}{source.path.suffix.lower()}"


def identified(sources: Iterable[SourceFile]) -> Iterator[Identified]:
    """Hash files and objects, several objects at a time; no copy is kept."""
    with Spool(kept_bytes=0) as spool:
        yield from spool.identified(sources)


def _checked(copy: Copy, doc_id: str, take: Here) -> Callable[[], None]:
    """Return what hands a copy on once it is done."""

    def hand_on() -> None:
        result = copy.result
        if isinstance(result, Downloaded):
            assert copy.path is not None
            same = result.doc_id == doc_id and result.source == copy.source
            take(copy.path if same else changed_while_read(copy.source.path))
        elif result is not None:
            take(result)

    return hand_on


def _identified(source: SourceFile) -> Identified:
    begun_ns = time.time_ns()
    try:
        return Identified(source, document_id(source.file), None, begun_ns)
    except DocumentError as error:
        return Identified(source, "", error, begun_ns)
