"""The process that reads: ``python -m colret.readers.child``, one document at a time.

It takes a ``Setup`` and ``Job`` after ``Job`` from standard input and answers on standard output.
PDFium is used from the main thread alone; another thread waits for jobs, so that the process and
its children end with the one that started it, whatever the main thread is at.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import IO

from colret.documents import display_path
from colret.errors import ColretError, DocumentError, one_line
from colret.readers.messages import Counted, Job, JobDone, PageDone, Ready, Refused, Setup, receive, send
from colret.reading import Document, open_document
from colret.types import PageRef

_REOPEN_PAGES = 100  # of one document; PDFium keeps what it has parsed of it (0.1 MB a page of a paper)

_FAILING_SHARE = 2  # times the limit of memory
_FAILING_MIN = 1 << 30  # code and threads of libraries count


class _Reader:
    """Serves jobs; the last document stays open, as the next job is mostly of the same."""

    def __init__(self, answers: IO[bytes], setup: Setup) -> None:
        self._answers = answers
        self._setup = setup
        self._document: Document | None = None
        self._opened = ""  # identity of the document
        self._n_read = 0  # pages since it was opened

    def serve(self, job: Job) -> None:
        """Read the pages of ``job`` and answer each."""
        try:
            document = self._open(job)
        except Exception as error:
            send(self._answers, Refused(_explained(error, display_path(job.path))))
        else:
            n_pages = min(document.n_pages, job.sample or document.n_pages)
            send(self._answers, Counted(n_pages))
            last = min(job.last, n_pages) if job.starts else job.last
            for number in range(job.first, last + 1):
                place = 1 + (number - 1) * document.n_pages // n_pages  # the same, unless a sample is read
                send(self._answers, _read_page(document, place, job)._replace(number=number))
                self._n_read += 1
        send(self._answers, JobDone())

    def _open(self, job: Job) -> Document:
        if self._document is not None and (self._opened != job.doc_id or self._n_read >= _REOPEN_PAGES):
            self._document.close()
            self._document = None
        if self._document is None:
            self._document = open_document(
                job.path,
                passwords=self._setup.passwords,
                seconds=self._setup.seconds,
                conversion_seconds=self._setup.conversion_seconds,
                keep_at=job.converted,
            )
            self._opened, self._n_read = job.doc_id, 0
        return self._document


def main() -> None:
    """Serve until standard input ends."""
    requests, answers = _take_pipes()
    os.environ.pop("PYTHONPATH", None)  # ours; other programs have modules of their own
    setup: Setup = receive(requests)
    _limit_memory(setup.bytes)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_receive_jobs, args=(requests, jobs, setup.folder), daemon=True).start()
    reader = _Reader(answers, setup)
    send(answers, Ready())
    _silence(sys.stderr.fileno())  # what kept it from starting was told there; libraries' chatter is not
    while True:
        reader.serve(jobs.get())


def _read_page(document: Document, number: int, job: Job) -> PageDone:
    before = document.ocr_seconds
    try:
        ref = PageRef(job.doc_id, number)
        result = document.read_page(number, ref=ref, pixels=job.pixels, ocr=job.ocr)
    except Exception as error:
        failure = _explained(error, f"{display_path(job.path)} page {number}")
        return PageDone(number, failure, document.ocr_seconds - before)
    return PageDone(number, result, document.ocr_seconds - before)


def _explained(error: Exception, subject: str) -> DocumentError:
    """Return ``error`` as one of the document: whatever parsing runs into costs this page alone."""
    if isinstance(error, DocumentError):
        return error
    if isinstance(error, MemoryError):
        problem = "one piece of it needs more memory than a page may take"
        return DocumentError(subject, problem, "give pages more memory, or go without it", reason="render_memory")
    cause = str(error) if isinstance(error, ColretError) else f"{type(error).__name__}: {error}"
    return DocumentError(
        subject, f"cannot be read ({one_line(cause)})", "repair it, or go without it", reason="page_unreadable"
    )


def _receive_jobs(requests: IO[bytes], jobs: queue.SimpleQueue[Job], folder: Path) -> None:
    """Pass jobs on; when their source is gone, end this process and its children at once."""
    try:
        while True:
            jobs.put(receive(requests))
    except EOFError:
        shutil.rmtree(folder, ignore_errors=True)
        if hasattr(os, "killpg"):
            os.killpg(os.getpgrp(), signal.SIGKILL)  # a group of our own: see process.py
        os._exit(0)


def _take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return both ends of the talk, under numbers of their own: no library writes there, no child reads there."""
    pipes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _silence(0)
    _silence(1)
    return pipes


def _silence(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def _limit_memory(n_bytes: int) -> None:
    """Let one huge allocation fail here, before it takes the machine down.

    The process that started this one ends it when it exceeds its limit, but only looks now and then.
    """
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        failing = max(_FAILING_MIN, _FAILING_SHARE * n_bytes)
        failing = min(failing, sys.maxsize if most == resource.RLIM_INFINITY else most)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is told, not dumped
        resource.setrlimit(resource.RLIMIT_DATA, (failing, failing))


if __name__ == "__main__":
    main()
