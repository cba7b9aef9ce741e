"""What passes between the pool and the processes that read: pickles, one after the other."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import IO, Any, NamedTuple

from colret.errors import DocumentError
from colret.types import Page


class Setup(NamedTuple):
    """The first message to a process."""

    seconds: float  # for one page
    conversion_seconds: float  # for one document
    bytes: int  # of memory, for one page
    passwords: tuple[str, ...]  # by pipe, where no one else sees them
    folder: Path  # of temporary files, to be removed when the other side is gone


class Job(NamedTuple):
    """Pages of a document to read."""

    path: Path
    doc_id: str
    first: int
    last: int
    starts: bool  # the first of this document, whose end is not known yet: it may be before ``last``
    pixels: int
    ocr: bool
    opening_seconds: float  # that opening the document may take
    converted: Path  # where to keep the PDF that an Office document becomes
    sample: int | None = None  # as if it had at most so many pages: some of its own, evenly spread


class Ready(NamedTuple):
    """The first message from a process."""


class Counted(NamedTuple):
    """The document is open; its pages follow."""

    n_pages: int


class Refused(NamedTuple):
    """The document cannot be opened."""

    error: DocumentError


class PageDone(NamedTuple):
    """A page was read, or why not."""

    number: int
    result: Page | DocumentError
    ocr_seconds: float


class JobDone(NamedTuple):
    """The last message about a job."""


Answer = Ready | Counted | Refused | PageDone | JobDone


def send(stream: IO[bytes], message: Setup | Job | Answer) -> None:
    """Write ``message``, whole and at once."""
    stream.write(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Wait for the next message and return it.

    Raises:
        EOFError: There is none: the other side is gone.
    """
    try:
        return pickle.load(stream)
    except (pickle.UnpicklingError, OSError, ValueError) as error:  # cut off, or closed by another thread
        raise EOFError from error
