"""What becomes of documents on their way into the index: progress, records, the report at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import colret
from colret.documents import display_path
from colret.errors import DocumentError
from colret.sync import NewDocument, Plan
from colret.types import DocumentRecord, SkippedPage

PASSING: Final = frozenset({"missing", "unreadable", "changed_while_read"})
"""Reasons of the moment, which must not be remembered against a document's content."""


class Skipped(NamedTuple):
    """A document, or one of its pages, that could not be used."""

    path: str
    page: int | None  # None: the whole document
    reason: str
    message: str


@dataclass(slots=True)
class Progress:
    """How far an ingest has come."""

    n_documents: int  # to read in this run
    n_documents_read: int = 0
    n_pages: int = 0  # done with: held for the index, blank or skipped
    n_ocr: int = 0  # of them, whose words were read by OCR
    fraction: float = 0.0  # of the bytes to read
    n_documents_in: int = 0  # added to the index for good, whatever happens now
    n_pages_in: int = 0


@dataclass(slots=True)
class IngestReport:
    """What an ingest did."""

    n_added: int = 0  # documents
    n_unchanged: int = 0
    n_moved: int = 0  # further paths of content that is in the index: copies and renamed files
    n_replaced: int = 0  # documents whose file has other content now
    vanished: list[str] = field(default_factory=list)  # paths that are gone from the folders
    n_pruned: int = 0  # documents taken out because no path is left
    n_pages: int = 0
    n_blank: int = 0
    n_ocr: int = 0  # pages whose words were read by OCR
    ocr_seconds: float = 0.0  # that this took, summed over pages that were read side by side
    n_fitted: int = 0  # vectors that the index's projection was fitted to, if that was now
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(slots=True)
class Reading:
    """A document on its way into the index."""

    document: NewDocument
    n_pages: int = 0
    n_blank: int = 0
    n_encoded: int = 0
    n_ocr: int = 0
    ocr_seconds: float = 0.0
    skipped: list[SkippedPage] = field(default_factory=list)
    failure: DocumentError | None = None
    finished: bool = False  # every page was read

    @property
    def n_done(self) -> int:
        """Pages done with, whatever became of them."""
        return self.n_encoded + self.n_blank + len(self.skipped)

    @property
    def bytes_done(self) -> float:
        """Its share of the file's bytes that the pages done with stand for."""
        return self.document.source.size * self.n_done / max(self.n_pages, self.n_done, 1)

    @property
    def path(self) -> str:
        """The path it is read from."""
        return display_path(self.document.source.path)

    @property
    def may_pass(self) -> bool:
        """Whether it failed for a reason of the moment, which must not be remembered."""
        return self.failure is not None and self.failure.reason in PASSING


def start_report(plan: Plan) -> IngestReport:
    """Return the report of what is known before anything is read."""
    report = IngestReport(
        n_unchanged=plan.n_unchanged, n_moved=plan.n_moved, vanished=plan.paths("vanished"), n_pruned=plan.n_pruned
    )
    report.skipped += map(skipped_whole, plan.problems)
    for record in plan.flawed:
        report.skipped += _told(record, record.files[0].path)
    return report


def skipped_whole(error: DocumentError) -> Skipped:
    """Return what is told of a document that could not be used."""
    return Skipped(error.subject, None, error.reason, f"{error.problem}; {error.remedy}")


def make_record(reading: Reading) -> DocumentRecord:
    """Return the commit record of a document; without any usable page it has failed."""
    first = reading.skipped[0] if reading.skipped else None
    if reading.failure:
        status, reason = "failed", str(reading.failure.reason)
        message = f"{reading.failure.problem}; {reading.failure.remedy}"
    elif first and not reading.n_encoded and not reading.n_blank:
        status, reason, message = "failed", str(first.reason), f"page {first.number}: {first.message}"
    else:
        status, reason, message = "done", "", ""
    return DocumentRecord(
        doc_id=reading.document.doc_id,
        files=reading.document.files,
        size=reading.document.source.size,
        n_pages=reading.n_pages,
        n_blank=reading.n_blank,
        status=status,
        reason=reason,
        message=message,
        tool_version=colret.__version__,
        skipped=tuple(reading.skipped),
    )


def note(report: IngestReport, reading: Reading, record: DocumentRecord) -> None:
    """Add a document that has been committed to the report."""
    report.skipped += _told(record, reading.path)
    if record.status == "done":
        report.n_added += 1
        report.n_moved += len(reading.document.files) - 1
        report.n_pages += reading.n_encoded
        report.n_blank += reading.n_blank
        report.n_ocr += reading.n_ocr
        report.ocr_seconds += reading.ocr_seconds


def _told(record: DocumentRecord, path: str) -> list[Skipped]:
    """Return what of a document could not be used: all of it, or some pages."""
    if record.status == "failed":
        return [Skipped(path, None, record.reason, record.message)]
    return [Skipped(path, page.number, page.reason, page.message) for page in record.skipped]
