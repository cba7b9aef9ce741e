"""In which order documents are read and told: reading runs ahead within bounds, telling keeps the order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from colret.documents import OFFICE_SUFFIXES, check_unchanged
from colret.errors import ColretError, DocumentError, Reason
from colret.readers.events import Event, Finished, Limits, Opened, PageFailed, PageRead
from colret.readers.messages import Counted, Job, PageDone, Refused
from colret.readers.worker import Chunk, ChunkAnswer
from colret.spool import Spool
from colret.sync import NewDocument
from colret.types import Page

MANY_UNREADABLE: Final = 20
"""Pages in a row that cannot be read, after which a document's others are not tried."""

MANY_KILLED: Final = 3
"""The same of pages that each cost a process its life, and maybe a minute."""

_KILLED: Final[frozenset[Reason]] = frozenset({"render_timeout", "render_memory", "reader_crashed"})
_NOT_HERE: Final = Path()  # the file of a job, until it is known
_CHUNK_PAGES = 4
_MAX_PAGES = 256
_MAX_BYTES = 256 << 20
_PAGE_BYTES = 100_000  # words of a full page, and the objects around them


class ReadAhead:
    """One reading of documents.

    Args:
        documents: To read; taken one by one.
        limits: Of one page.
        folder: Where to keep what documents are converted to.
        spool: Where to keep copies of objects.
        put: Takes a chunk, to be read in its turn.
        take: Waits for a chunk's next answer.
        drop: Makes it known that chunks were cancelled.
    """

    def __init__(
        self,
        documents: Iterator[NewDocument],
        *,
        pixels: int,
        ocr: bool,
        sample: int | None,
        limits: Limits,
        folder: Path,
        spool: Spool,
        put: Callable[[Chunk], None],
        take: Callable[[Chunk], ChunkAnswer],
        drop: Callable[[], None],
    ) -> None:
        self._documents = documents
        self._pixels = pixels
        self._ocr = ocr
        self._sample = sample
        self._limits = limits
        self._folder = folder
        self._spool = spool
        self._put, self._take, self._drop = put, take, drop
        self._tasks: deque[_Task] = deque()  # the first is being told
        self._n_tasks = 0
        self._room = max(_CHUNK_PAGES, min(_MAX_PAGES, _MAX_BYTES // (3 * pixels + _PAGE_BYTES)))  # pages

    def events(self) -> Generator[Event]:
        """Yield what becomes of the documents."""
        try:
            self._ask()
            while self._tasks:
                yield from self._tell(self._tasks[0])
                self._end(self._tasks.popleft())
                self._ask()
        finally:
            for task in self._tasks:
                self._end(task)

    def _tell(self, task: _Task) -> Iterator[Event]:
        """Yield the events of one document."""
        opening = self._next_answer(task)
        if isinstance(opening, Refused):
            task.chunks.clear()
            yield Finished(task.document, opening.error, 0)
            return
        assert isinstance(opening, Counted)
        self._count(task, opening.n_pages)
        yield Opened(task.document, opening.n_pages)
        n_failed = n_killed = 0  # in a row
        while task.n_told < opening.n_pages and n_failed < MANY_UNREADABLE and n_killed < MANY_KILLED:
            answer = self._next_answer(task)
            assert isinstance(answer, PageDone)
            task.n_told += 1
            self._room += 1
            if isinstance(answer.result, Page):
                n_failed = n_killed = 0
                yield PageRead(task.document, answer.result, answer.ocr_seconds)
            else:
                n_failed += 1
                n_killed = n_killed + 1 if answer.result.reason in _KILLED else 0
                given_up = n_failed == MANY_UNREADABLE or n_killed == MANY_KILLED
                n_left = opening.n_pages - task.n_told if given_up else 0
                yield PageFailed(task.document, answer.number, _with_rest(answer.result, n_left))
        yield Finished(task.document, _change(task.document), task.n_told)

    def _next_answer(self, task: _Task) -> ChunkAnswer:
        self._ask()
        chunk = task.chunks[0]
        answer = self._take(chunk)
        if isinstance(answer, PageDone) and answer.number == min(chunk.job.last, task.n_pages or chunk.job.last):
            task.chunks.popleft()
        return answer

    def _ask(self) -> None:
        """Let be read what there is room for: of the first document, then of those to come."""
        if self._tasks and self._tasks[0].n_pages:
            task = self._tasks[0]
            while task.n_asked < task.n_pages:
                if self._room < _CHUNK_PAGES and task.chunks:
                    return
                self._ask_chunk(task)
        while self._room >= _CHUNK_PAGES and (document := next(self._documents, None)) is not None:
            self._tasks.append(_Task(document, self._folder / f"{document.doc_id}.pdf", self._n_tasks))
            self._n_tasks += 1
            self._ask_chunk(self._tasks[-1])

    def _ask_chunk(self, task: _Task) -> None:
        source = task.document.source
        starts = task.n_asked == 0
        converting = starts and source.path.suffix.lower() in OFFICE_SUFFIXES
        job = Job(
            _NOT_HERE,
            task.document.doc_id,
            first=task.n_asked + 1,
            last=min(task.n_asked + _CHUNK_PAGES, task.n_pages or _CHUNK_PAGES),
            starts=starts,
            pixels=self._pixels,
            ocr=self._ocr,
            opening_seconds=self._limits.seconds + (self._limits.conversion_seconds if converting else 0),
            converted=task.converted,
            sample=self._sample,
        )
        self._room -= job.last - task.n_asked
        task.n_asked = job.last
        task.chunks.append(Chunk((task.number, job.first), job, task.cancelled))
        self._spool.when_here(source, task.document.doc_id, partial(self._put_here, task.chunks[-1]))

    def _put_here(self, chunk: Chunk, here: Path | ColretError) -> None:
        """Let a chunk be read from a file on this machine, or answer it with why there is none."""
        if isinstance(here, Path):
            chunk.job = chunk.job._replace(path=here)
            self._put(chunk)
        else:
            chunk.answers.put(Refused(here) if isinstance(here, DocumentError) else here)

    def _count(self, task: _Task, n_pages: int) -> None:
        """Note how many pages a document has; the first chunk may have been asked for more."""
        task.n_pages = n_pages
        self._room += max(0, task.n_asked - n_pages)
        task.n_asked = min(task.n_asked, n_pages)

    def _end(self, task: _Task) -> None:
        """Forget a document, and leave off reading it."""
        self._room += task.n_asked - task.n_told
        if task.chunks:
            task.cancelled.set()
            self._drop()
        task.converted.unlink(missing_ok=True)
        self._spool.release(task.document.source)


class _Task:
    """A document to read, and how far it is."""

    def __init__(self, document: NewDocument, converted: Path, number: int) -> None:
        self.document = document
        self.converted = converted  # what it is converted to, if it is
        self.number = number  # in the order of reading
        self.cancelled = threading.Event()
        self.chunks: deque[Chunk] = deque()  # whose answers were not all told
        self.n_pages = 0  # not known yet
        self.n_asked = 0
        self.n_told = 0


def _with_rest(error: DocumentError, n_left: int) -> DocumentError:
    """Return a page's error, with what it means for the ``n_left`` pages after it."""
    if not n_left:
        return error
    problem = f"{error.problem}, like those before it, so that the document's last {n_left:,} pages are not tried"
    return DocumentError(error.subject, problem, error.remedy, reason=error.reason)


def _change(document: NewDocument) -> DocumentError | None:
    try:
        check_unchanged(document.source)
    except DocumentError as error:
        return error
    return None
