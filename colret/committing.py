"""Brings pages and documents into the index: pages first, a document's record after its last.

The record makes a document's pages visible, so an ingest that dies leaves whole documents and
pages that nobody sees.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from colret.compression import Compression
from colret.encoding import Event, PageEncoded
from colret.fitting import fit_to
from colret.memory import release_memory
from colret.readers import Finished, Opened, PageFailed
from colret.report import IngestReport, Progress, Reading, make_record, note, skipped_whole
from colret.store import PageStore
from colret.sync import NewDocument, Plan
from colret.types import DocumentRecord, EncodedPage, PageEmbedding, SkippedPage


class Committer:
    """The pages an ingest holds between the encoder and the index.

    Args:
        store: The index, under ``writing``.
        report: What was done goes in here once it is committed.
        plan: Its new documents are to come: the events of each in order, those of several in any.
        tell: Called after each page, each document and each commit.
        most_pages: Pages, or documents, held before they are written.
        seconds: Or this long, so that a kill costs little.
    """

    def __init__(
        self,
        store: PageStore,
        report: IngestReport,
        plan: Plan,
        tell: Callable[[Progress], None],
        *,
        most_pages: int,
        seconds: float,
    ) -> None:
        self.unsettled: set[str] = set()  # paths of files that could not be read for a reason that may pass
        self._store = store
        self._report = report
        self._reread = set(plan.reread)
        self._obsolete = {record.doc_id: record for record in plan.obsolete}  # with the paths that still hold them
        self._holding = {file.path: record.doc_id for record in plan.obsolete for file in record.files}
        self._tell = tell
        self._most_pages = most_pages
        self._seconds = seconds
        self._encoded: list[EncodedPage] = []
        self._waiting: dict[str, Reading] = {}  # by id, documents whose record is still to be written
        self._committed_at = time.monotonic()
        self._progress = Progress(n_documents=len(plan.new))
        self._bytes = sum(document.source.size for document in plan.new) or 1
        self._bytes_before = 0  # of the documents that are finished

    def take(self, events: Iterable[Event]) -> None:
        """Take what became of the next pages, and commit when enough is held.

        Raises:
            StoreError: If the index cannot be written.
        """
        for event in events:
            reading = self._reading(event.document)
            match event:
                case Opened():
                    reading.n_pages = event.n_pages
                    self._make_way(reading)
                    continue
                case PageEncoded():
                    self._hold(reading, event)
                    self._progress = replace(self._progress, n_ocr=self._progress.n_ocr + event.page.ocr)
                case PageFailed(_, number, error):
                    reading.skipped.append(SkippedPage(number, error.reason, f"{error.problem}; {error.remedy}"))
                case Finished():
                    reading.n_pages, reading.failure, reading.finished = event.n_pages, event.error, True
                    if not reading.may_pass:
                        self._make_way(reading)
            self._advance(reading)
            self._commit_if_due()

    def commit(self) -> None:
        """Write the pages held, then the records of the documents that they complete."""
        self._store.add_pages(self._encoded)
        complete = [reading for reading in self._waiting.values() if reading.finished]
        lasting = [reading for reading in complete if not reading.may_pass]
        records = [make_record(reading) for reading in lasting]
        self._store.put_documents([*records, *self._replaced(records)])
        for reading, record in zip(lasting, records, strict=True):
            note(self._report, reading, record)
        for reading in complete:
            if reading.failure and reading.may_pass:  # what it wrote stays unseen, and goes at the end
                self._report.skipped.append(skipped_whole(reading.failure))
                self.unsettled.update(file.path for file in reading.document.files)
        self._waiting = {doc_id: reading for doc_id, reading in self._waiting.items() if not reading.finished}
        self._encoded = []
        release_memory()
        self._committed_at = time.monotonic()
        in_now = {"n_documents_in": self._report.n_added, "n_pages_in": self._report.n_pages}
        self._progress = replace(self._progress, **in_now)
        self._tell(self._progress)

    def _reading(self, document: NewDocument) -> Reading:
        """Return the state of a document; its first event begins it."""
        return self._waiting.setdefault(document.doc_id, Reading(document))

    def _make_way(self, reading: Reading) -> None:
        """Take out the pages that the index has of a document which is read again, now that it can be read."""
        if reading.document.doc_id in self._reread:
            self._reread.remove(reading.document.doc_id)
            self._store.remove_documents([reading.document.doc_id])

    def _hold(self, reading: Reading, event: PageEncoded) -> None:
        reading.n_ocr += event.page.ocr
        reading.ocr_seconds += event.ocr_seconds
        if not len(event.embedding.vectors):
            reading.n_blank += 1
            return
        reading.n_encoded += 1
        self._encoded.append(EncodedPage(event.page, self._compression(event.embedding).page(event.embedding)))

    def _compression(self, embedding: PageEmbedding) -> Compression:
        """Return how pages are compressed; if none could be read ahead, the first decides the projection."""
        store = self._store
        if store.settings.projected and store.projection() is None:
            self._report.n_fitted = fit_to(store, [embedding.vectors])
        return Compression(store.settings.pool, store.projection())

    def _commit_if_due(self) -> None:
        n_held = max(len(self._encoded), sum(reading.finished for reading in self._waiting.values()))
        waited = time.monotonic() - self._committed_at
        if n_held >= self._most_pages or (waited > self._seconds and n_held):
            self.commit()

    def _advance(self, reading: Reading) -> None:
        """Tell how far the ingest has come."""
        if reading.finished:
            self._bytes_before += reading.document.source.size
        under_way = sum(each.bytes_done for each in self._waiting.values() if not each.finished)
        self._progress = replace(
            self._progress,
            n_documents_read=self._progress.n_documents_read + reading.finished,
            n_pages=self._progress.n_pages + (not reading.finished),
            fraction=(self._bytes_before + under_way) / self._bytes,
        )
        self._tell(self._progress)

    def _replaced(self, records: Sequence[DocumentRecord]) -> list[DocumentRecord]:
        """Return the documents whose files hold these now, without those files: one commit shows the change whole.

        What no other file holds becomes invisible.
        """
        paths = {file.path for record in records for file in record.files}
        touched = {self._holding[path] for path in paths & self._holding.keys()}
        for doc_id in touched:
            old = self._obsolete[doc_id]
            files = tuple(file for file in old.files if file.path not in paths)
            self._obsolete[doc_id] = replace(old, files=files, status=old.status if files else "replaced")
        return [self._obsolete[doc_id] for doc_id in sorted(touched)]
