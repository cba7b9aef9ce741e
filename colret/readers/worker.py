"""A thread and its process: reads chunks of documents, and starts a new process after each death."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from colret.documents import display_path
from colret.errors import ColretError, DocumentError
from colret.readers.events import Limits
from colret.readers.messages import Counted, Job, PageDone, Refused
from colret.readers.process import Death, ReaderProcess

_IDLE_SECONDS = 0.2  # after which a worker looks whether it was closed
_STARTS = 3  # of a process: where memory is short, the system may kill one before it has read anything

ChunkAnswer = Counted | Refused | PageDone


@dataclass(order=True, slots=True)
class Chunk:
    """Some pages of a document, in the queue of those to read.

    Of a job that ``starts`` its document the first answer is ``Counted`` or ``Refused``; all
    others are ``PageDone``, one for each page.
    """

    place: tuple[int, int]  # in the order of reading: of the document, of its first page
    job: Job = field(compare=False)
    cancelled: threading.Event = field(compare=False)  # one for all chunks of the document
    answers: queue.SimpleQueue[ChunkAnswer | Exception] = field(compare=False, default_factory=queue.SimpleQueue)


class Worker:
    """Reads chunks from a queue, the first in order first, until it is closed.

    Args:
        chunks: The queue, shared with other workers.
        start: Starts a process.
        limits: Of one page, for messages.
    """

    def __init__(self, chunks: queue.PriorityQueue[Chunk], start: Callable[[], ReaderProcess], limits: Limits) -> None:
        self._chunks = chunks
        self._start = start
        self._limits = limits
        self._lock = threading.Lock()
        self._process: ReaderProcess | None = None
        self._chunk: Chunk | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="colret reader", daemon=True)
        self._thread.start()

    def check(self, seconds: float) -> None:
        """Kill the process if it exceeds its limits; ``seconds`` passed since the last check."""
        process = self._process
        if process is not None:
            process.check(seconds)

    def drop_cancelled(self) -> None:
        """Leave off reading a chunk that was cancelled."""
        with self._lock:
            if self._process is not None and self._chunk is not None and self._chunk.cancelled.is_set():
                self._process.kill()

    def close(self) -> None:
        """Kill the process and let the thread end."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(seconds)

    def _serve(self) -> None:
        while not self._closed:
            try:
                chunk = self._chunks.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                continue
            with self._lock:
                self._chunk = chunk
            try:
                for answer in self._read(chunk):
                    chunk.answers.put(answer)
            except Exception as error:  # no process can be started: for the consumer to raise
                chunk.answers.put(error)
            with self._lock:
                self._chunk = None
        self._bury()

    def _read(self, chunk: Chunk) -> Iterator[ChunkAnswer]:
        """Yield a chunk's answers; a page that costs a process its life gets the reason, and the next one another."""
        job = chunk.job
        while job.first <= job.last and not (chunk.cancelled.is_set() or self._closed):
            process = self._running()
            try:
                for answer in process.ask(job):
                    match answer:
                        case Counted(n_pages) if job.starts:
                            job = job._replace(last=min(job.last, n_pages), starts=False)
                            yield answer
                        case Refused() if job.starts:
                            job = job._replace(last=0)
                            yield answer
                        case Refused(error):  # though it could be opened before
                            yield PageDone(job.first, error, 0.0)
                            job = job._replace(first=job.first + 1)
                        case PageDone():
                            yield answer
                            job = job._replace(first=job.first + 1)
            except EOFError:
                failure = self._blamed(job)
                if failure is not None and job.starts:
                    job = job._replace(last=0)
                    yield Refused(failure)
                elif failure is not None:
                    yield PageDone(job.first, failure, 0.0)
                    job = job._replace(first=job.first + 1)

    def _running(self) -> ReaderProcess:
        """Return a process that can be asked."""
        if self._process is not None and not self._process.usable:
            self._bury()
        n_starts = 0
        while self._process is None:
            n_starts += 1
            process = self._start()
            with self._lock:
                self._process = process
                if self._closed:
                    process.kill()
            try:
                process.wait_until_ready()
            except ColretError:
                self._bury()
                if n_starts == _STARTS or self._closed:
                    raise
        return self._process

    def _bury(self) -> Death | None:
        with self._lock:
            process, self._process = self._process, None
        return None if process is None else process.bury()

    def _blamed(self, job: Job) -> DocumentError | None:
        """Return what the process died of as the error of the page it was at, or of opening its document."""
        death = self._bury()
        if death is None:
            return None
        name = display_path(job.path)
        subject = name if job.starts else f"{name} page {job.first}"
        if death.excess == "render_timeout":
            seconds = job.opening_seconds if job.starts else self._limits.seconds
            problem = f"took more than {seconds:g} s of processor time to read"
            remedy = "allow --page-seconds more, or go without it"
        elif death.excess == "render_memory":
            problem = f"took more than {self._limits.bytes / 10**6:,.0f} MB of memory to read"
            remedy = "allow --page-memory more, or go without it"
        else:
            problem = f"crashed the process that read it ({_status(death.status)})"
            remedy = "repair it, or go without it"
        return DocumentError(subject, problem, remedy, reason=death.excess or "reader_crashed")


def _status(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"
