"""Ingest: documents are read, encoded and stored page by page; doing it again is a sync.

Nothing is held in memory beyond a batch. A document is committed by its record, written after
its last page, so an ingest that dies leaves whole documents and pages nobody sees; the next one
clears those away and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import colret
from colret.documents import check_unchanged, display_path, find_documents
from colret.encoders import Encoder
from colret.errors import DocumentError, ModelError
from colret.reading import Document, open_document
from colret.store import PageStore
from colret.sync import NewDocument, Plan, make_plan
from colret.types import DocumentRecord, EncodedPage, Page, PageRef, SkippedPage

ENCODE_PAGES: Final = 16  # pages encoded together
COMMIT_PAGES: Final = 64  # pages held before they are written
MANY_UNREADABLE: Final = 20  # pages in a row, after which a document's others are not tried
PASSING: Final = frozenset({"missing", "unreadable", "changed_while_read"})  # reasons not to be remembered
COMMIT_SECONDS: Final = 30.0  # or this long, so that a kill costs little


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
    n_pages: int = 0
    fraction: float = 0.0  # of the bytes to read


@dataclass(slots=True)
class IngestReport:
    """What an ingest did."""

    n_added: int = 0  # documents
    n_unchanged: int = 0
    n_moved: int = 0  # paths that are new for known content
    n_replaced: int = 0  # documents whose file has other content now
    n_pages: int = 0
    n_blank: int = 0
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(slots=True)
class _Reading:
    """A document on its way into the index."""

    document: NewDocument
    n_pages: int = 0
    n_blank: int = 0
    n_encoded: int = 0
    skipped: list[SkippedPage] = field(default_factory=list)
    failure: DocumentError | None = None
    finished: bool = False  # every page was read

    @property
    def path(self) -> str:
        return display_path(self.document.source.path)

    @property
    def may_pass(self) -> bool:
        """Whether it failed for a reason of the moment, which must not be remembered."""
        return self.failure is not None and self.failure.reason in PASSING


def ingest(
    paths: Sequence[Path],
    store: PageStore,
    encoder: Encoder,
    *,
    retry_failed: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> IngestReport:
    """Bring the index up to date with the documents below ``paths``.

    Args:
        paths: Files and folders.
        store: The index.
        encoder: The encoder that made it.
        retry_failed: Read documents again that this version of colret could not use.
        on_progress: Called after each page.

    Returns:
        What was done. Documents and pages that cannot be used are listed in it, not raised.

    Raises:
        StoreError: If the index is another encoder's, is being written to, or cannot be written.
    """
    sources, problems = find_documents(paths)
    with store.writing():
        n_orphans = store.remove_orphans()
        records = store.documents()
        plan = make_plan(sources, records, retry_failed=retry_failed)
        report = _report(plan, problems)
        if plan.new:  # before that, an encoder may not even be loaded
            store.check_encoder(encoder.info)
            known = {record.doc_id for record in records}
            store.remove_documents([document.doc_id for document in plan.new if document.doc_id in known])
        run = _Run(store, encoder, report, on_progress, plan.obsolete)
        run.read(plan.new)
        store.put_documents(plan.updated)
        # A file that was changing has no successor in the index yet, and keeps what it had.
        obsolete = [each for each in plan.obsolete if run.unsettled.isdisjoint(file.path for file in each.files)]
        report.n_replaced = len(obsolete)
        store.remove_documents([record.doc_id for record in obsolete])
        if run.unsettled:
            store.remove_orphans()
        if n_orphans or plan.new or plan.updated or obsolete:
            store.compact()
    return report


def _report(plan: Plan, problems: Sequence[DocumentError]) -> IngestReport:
    report = IngestReport(n_unchanged=plan.n_unchanged, n_moved=plan.n_moved)
    report.skipped += [_skipped(error) for error in [*problems, *plan.unreadable]]
    for record in plan.flawed:
        report.skipped += _told(record, record.files[0].path)
    return report


def _skipped(error: DocumentError) -> Skipped:
    return Skipped(error.subject, None, error.reason, f"{error.problem}; {error.remedy}")


class _Run:
    """The pages an ingest holds between the file and the index."""

    def __init__(
        self,
        store: PageStore,
        encoder: Encoder,
        report: IngestReport,
        on_progress: Callable[[Progress], None],
        obsolete: Sequence[DocumentRecord],
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._obsolete = {file.path: record for record in obsolete for file in record.files}
        self.unsettled: set[str] = set()  # paths of files that could not be read for a reason that may pass
        self._report = report
        self._on_progress = on_progress
        self._read: list[tuple[_Reading, Page]] = []
        self._encoded: list[EncodedPage] = []
        self._waiting: list[_Reading] = []  # documents whose record is still to be written
        self._committed_at = time.monotonic()

    def read(self, documents: Sequence[NewDocument]) -> None:
        """Bring documents into the index, in order."""
        total = sum(document.source.size for document in documents) or 1
        progress = Progress(n_documents=len(documents))
        bytes_before = 0
        for document in documents:
            reading = _Reading(document)
            self._waiting.append(reading)
            for number in self._read_pages(reading):
                progress.n_pages += 1
                progress.fraction = (bytes_before + document.source.size * number / reading.n_pages) / total
                self._on_progress(progress)
            bytes_before += document.source.size
            progress.n_documents_read += 1
            self._commit_if_due()
        self._encode()
        self._commit()

    def _read_pages(self, reading: _Reading) -> Iterator[int]:
        """Read a document's pages into the batch; yield the number of each when it is done with."""
        try:
            with open_document(reading.document.source.path) as document:
                reading.n_pages = document.n_pages
                n_failed = 0  # in a row
                for number in range(1, document.n_pages + 1):
                    n_failed = 0 if self._read_page(reading, document, number) else n_failed + 1
                    self._commit_if_due()
                    yield number
                    if n_failed == MANY_UNREADABLE:  # a false page count, most likely
                        reading.n_pages = number
                        break
            check_unchanged(reading.document.source)
        except DocumentError as error:
            reading.failure = error
        reading.finished = True

    def _read_page(self, reading: _Reading, document: Document, number: int) -> bool:
        """Read a page into the batch; return whether that was possible."""
        info = self._encoder.info
        ref = PageRef(reading.document.doc_id, number)
        try:
            page = document.read_page(number, ref=ref, pixels=info.render_pixels, ocr=info.reads == "words")
        except DocumentError as error:
            reading.skipped.append(SkippedPage(number, error.reason, f"{error.problem}; {error.remedy}"))
            return False
        self._read.append((reading, page))
        if len(self._read) >= ENCODE_PAGES:
            self._encode()
        return True

    def _encode(self) -> None:
        batch, self._read = self._read, []
        if not batch:
            return
        try:
            embeddings = self._encoder.encode_pages([page for _, page in batch])
        except ModelError as error:
            self._encode_one_by_one(batch, error)
            return
        for (reading, page), embedding in zip(batch, embeddings, strict=True):
            if len(embedding.vectors):
                reading.n_encoded += 1
                self._encoded.append(EncodedPage(replace(page, image=None), embedding))  # pixels are done with
            else:
                reading.n_blank += 1

    def _encode_one_by_one(self, batch: Sequence[tuple[_Reading, Page]], error: ModelError) -> None:
        """Find the page that the model failed on; the others keep their place."""
        if len(batch) == 1:
            [(reading, page)] = batch
            message = f"{error.problem}; {error.remedy}"
            reading.skipped.append(SkippedPage(page.ref.number, "encoding_failed", message))
            return
        for item in batch:
            self._read = [item]
            self._encode()

    def _commit_if_due(self) -> None:
        waited = time.monotonic() - self._committed_at
        n_held = max(len(self._encoded), len(self._waiting))
        if n_held >= COMMIT_PAGES or (waited > COMMIT_SECONDS and n_held):
            self._encode()
            self._commit()

    def _commit(self) -> None:
        """Write the pages held, then the records of the documents that they complete."""
        self._store.add_pages(self._encoded)
        complete = [reading for reading in self._waiting if reading.finished]
        lasting = [reading for reading in complete if not reading.may_pass]
        records = [_record(reading) for reading in lasting]
        self._store.put_documents([*records, *self._replaced(records)])
        for reading, record in zip(lasting, records, strict=True):
            _note(self._report, reading, record)
        for reading in complete:
            if reading.failure and reading.may_pass:  # what it wrote stays unseen, and goes at the end
                self._report.skipped.append(_skipped(reading.failure))
                self.unsettled.update(file.path for file in reading.document.files)
        self._waiting = [reading for reading in self._waiting if not reading.finished]
        self._encoded = []
        self._committed_at = time.monotonic()

    def _replaced(self, records: Sequence[DocumentRecord]) -> list[DocumentRecord]:
        """Return, made invisible, the documents whose files hold these now: one commit shows the change whole."""
        paths = {file.path for record in records for file in record.files}
        old = {self._obsolete[path].doc_id: self._obsolete[path] for path in paths & self._obsolete.keys()}
        return [replace(record, status="replaced", files=()) for record in old.values()]


def _record(reading: _Reading) -> DocumentRecord:
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


def _note(report: IngestReport, reading: _Reading, record: DocumentRecord) -> None:
    report.skipped += _told(record, reading.path)
    if record.status == "done":
        report.n_added += 1
        report.n_pages += reading.n_encoded
        report.n_blank += reading.n_blank


def _told(record: DocumentRecord, path: str) -> list[Skipped]:
    """Return what of a document could not be used: all of it, or some pages."""
    if record.status == "failed":
        return [Skipped(path, None, record.reason, record.message)]
    return [Skipped(path, page.number, page.reason, page.message) for page in record.skipped]
