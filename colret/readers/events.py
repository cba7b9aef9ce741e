"""What reading may take, and what becomes of documents and pages."""

from __future__ import annotations

from typing import Final, NamedTuple

from colret.errors import DocumentError
from colret.sync import NewDocument
from colret.types import Page


class Limits(NamedTuple):
    """What one page may take before the process that reads it is killed."""

    seconds: float = 60.0  # of processor time, or 5 times as long by the clock: to open, and for each page with OCR
    bytes: int = 2 << 30  # resident memory of the process and its children together
    conversion_seconds: float = 180.0  # more, for opening a document that is converted to PDF first


DEFAULT_LIMITS: Final = Limits()


class Opened(NamedTuple):
    """A document is open; its pages follow."""

    document: NewDocument
    n_pages: int  # as the document says: the number may be a lie


class PageRead(NamedTuple):
    """A page was read."""

    document: NewDocument
    page: Page
    ocr_seconds: float  # 0.0: OCR was not asked


class PageFailed(NamedTuple):
    """A page cannot be read."""

    document: NewDocument
    number: int
    error: DocumentError


class Finished(NamedTuple):
    """A document is done with."""

    document: NewDocument
    error: DocumentError | None  # it could not be opened, or changed while it was read
    n_pages: int  # pages tried: those after too many failures in a row are not


Event = Opened | PageRead | PageFailed | Finished
