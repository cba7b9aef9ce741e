"""Documents in, events out, in order, while processes read ahead within bounds."""

from __future__ import annotations

import functools
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from colret.closing import Closing
from colret.readers.ahead import ReadAhead
from colret.readers.events import DEFAULT_LIMITS, Event, Limits
from colret.readers.process import ReaderProcess
from colret.readers.worker import Chunk, ChunkAnswer, Worker
from colret.scratch import no_room, scratch_folder
from colret.spool import Spool
from colret.sync import NewDocument

_PREFIX = "colret-readers-"
_MAX_WORKERS = 8
_CHECK_SECONDS = 0.05
_WAKE_SECONDS = 0.5  # Ctrl-C does not end a wait for another thread on every system


class Readers(Closing):
    """Processes that read documents: they start at the first read and serve until ``close``.

    Args:
        n_workers: Processes; by default one for each core, at most 8.
        limits: Of one page.
        passwords: To try on documents that need one.
        spool: Where copies of objects are, or are to be made; by default in one of their own.
    """

    def __init__(
        self,
        *,
        n_workers: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        passwords: Sequence[str] = (),
        spool: Spool | None = None,
    ) -> None:
        self._n_workers = n_workers or min(_MAX_WORKERS, _n_cores())
        self._limits = limits
        self._passwords = tuple(passwords)
        self._chunks: queue.PriorityQueue[Chunk] = queue.PriorityQueue()
        self._workers: list[Worker] = []
        self._folder: Path | None = None
        self._closed = threading.Event()
        self._spool = spool or Spool()
        self._owned = ExitStack()
        if spool is None:
            self._owned.enter_context(self._spool)

    def read(
        self, documents: Iterable[NewDocument], *, pixels: int, ocr: bool, sample: int | None = None
    ) -> Generator[Event]:
        """Yield what becomes of documents, in their order, and of their pages in order.

        Each document yields ``Finished`` last and, if it could be opened, first ``Opened`` and
        then one ``PageRead`` or ``PageFailed`` for each of the ``Finished.n_pages`` pages tried.
        Closing the generator drops what was read ahead.

        Args:
            documents: To read; taken one by one, not far ahead of their events.
            pixels: Largest number of pixels of a page's image; 0 leaves it out.
            ocr: Read the image of pages without a useful text layer.
            sample: Read at most so many pages of a document, evenly spread.

        Raises:
            ColretError: No process can be started, or there is no room for temporary files.
        """
        self._start()
        assert self._folder is not None
        yield from ReadAhead(
            iter(documents),
            pixels=pixels,
            ocr=ocr,
            sample=sample,
            limits=self._limits,
            folder=self._folder,
            spool=self._spool,
            put=self._chunks.put,
            take=self._take,
            drop=self._drop,
        ).events()

    def close(self) -> None:
        """Kill the processes and what they started; no more can be read."""
        self._closed.set()
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            worker.join(_WAKE_SECONDS)
        self._workers = []
        self._owned.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        """Start the threads; each starts its process when it has something to read."""
        if self._closed.is_set():
            raise ValueError("these readers are closed")
        if not self._workers:
            try:
                self._folder = folder = Path(tempfile.mkdtemp(dir=scratch_folder(_PREFIX)))
            except OSError as error:
                raise no_room(error) from error
            start = functools.partial(ReaderProcess, self._limits, self._passwords, folder)
            self._workers = [Worker(self._chunks, start, self._limits) for _ in range(self._n_workers)]
            threading.Thread(target=self._guard, name="colret guard", daemon=True).start()

    def _guard(self) -> None:
        """Hold the processes to their limits."""
        checked = time.monotonic()
        while not self._closed.wait(_CHECK_SECONDS):
            last, checked = checked, time.monotonic()
            for worker in self._workers:
                worker.check(checked - last)

    def _take(self, chunk: Chunk) -> ChunkAnswer:
        while not self._closed.is_set():
            try:
                answer = chunk.answers.get(timeout=_WAKE_SECONDS)
            except queue.Empty:
                continue
            if isinstance(answer, Exception):
                raise answer
            return answer
        raise ValueError("these readers were closed")

    def _drop(self) -> None:
        for worker in self._workers:
            worker.drop_cancelled()


def _n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
