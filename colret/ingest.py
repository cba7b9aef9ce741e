"""Ingest: documents are read, encoded and stored page by page; doing it again is a sync.

Nothing is held in memory beyond a batch. A document is committed by its record, written after
its last page, so an ingest that dies leaves whole documents and pages nobody sees; the next one
clears those away and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from colret.compression import Compression
from colret.documents import check_unchanged, find_documents
from colret.encoders import Encoder, blamed_on_model
from colret.errors import DocumentError, ModelError
from colret.fitting import fit_projection, fit_to
from colret.prefilter import prepare
from colret.reading import Document, open_document
from colret.report import IngestReport, Progress, Reading, make_record, note, skipped_whole, start_report
from colret.store import PageStore
from colret.sync import NewDocument, make_plan
from colret.types import DocumentRecord, EncodedPage, Page, PageEmbedding, PageRef, SkippedPage

ENCODE_PAGES: Final = 16  # pages encoded together
COMMIT_PAGES: Final = 64  # pages held before they are written
MANY_UNREADABLE: Final = 20  # pages in a row, after which a document's others are not tried
COMMIT_SECONDS: Final = 30.0  # or this long, so that a kill costs little


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
        report = start_report(plan, problems)
        if plan.new:  # before that, an encoder may not even be loaded
            store.check_encoder(encoder.info)
            known = {record.doc_id for record in records}
            store.remove_documents([document.doc_id for document in plan.new if document.doc_id in known])
            report.n_fitted = fit_projection(store, encoder, plan.new)
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
            prepare(store)
    return report


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
        self._read: list[tuple[Reading, Page]] = []
        self._encoded: list[EncodedPage] = []
        self._waiting: list[Reading] = []  # documents whose record is still to be written
        self._committed_at = time.monotonic()

    def read(self, documents: Sequence[NewDocument]) -> None:
        """Bring documents into the index, in order."""
        total = sum(document.source.size for document in documents) or 1
        progress = Progress(n_documents=len(documents))
        bytes_before = 0
        for document in documents:
            reading = Reading(document)
            self._waiting.append(reading)
            for number in self._read_pages(reading):
                progress.n_pages += 1
                progress.fraction = (bytes_before + document.source.size * number / reading.n_pages) / total
                self._on_progress(progress)
            bytes_before += document.source.size
            progress.n_documents_read += 1
            progress.fraction = bytes_before / total
            self._on_progress(progress)
            self._commit_if_due()
        self._encode()
        self._commit()

    def _read_pages(self, reading: Reading) -> Iterator[int]:
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

    def _read_page(self, reading: Reading, document: Document, number: int) -> bool:
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
            with blamed_on_model(batch[0][1].ref.page_id):
                embeddings = self._encoder.encode_pages([page for _, page in batch])
        except ModelError as error:
            self._encode_one_by_one(batch, error)
            return
        compression = self._compression(embeddings)
        for (reading, page), embedding in zip(batch, embeddings, strict=True):
            if len(embedding.vectors):
                reading.n_encoded += 1
                stored = compression.page(embedding)
                self._encoded.append(EncodedPage(replace(page, image=None), stored))  # pixels are done with
            else:
                reading.n_blank += 1

    def _compression(self, embeddings: Sequence[PageEmbedding]) -> Compression:
        """Return how pages are compressed; if no page could be read ahead, these decide the projection."""
        store = self._store
        if store.settings.projected and store.projection() is None:
            self._report.n_fitted = fit_to(store, [embedding.vectors for embedding in embeddings])
        return Compression(store.settings.pool, store.projection())

    def _encode_one_by_one(self, batch: Sequence[tuple[Reading, Page]], error: ModelError) -> None:
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
        records = [make_record(reading) for reading in lasting]
        self._store.put_documents([*records, *self._replaced(records)])
        for reading, record in zip(lasting, records, strict=True):
            note(self._report, reading, record)
        for reading in complete:
            if reading.failure and reading.may_pass:  # what it wrote stays unseen, and goes at the end
                self._report.skipped.append(skipped_whole(reading.failure))
                self.unsettled.update(file.path for file in reading.document.files)
        self._waiting = [reading for reading in self._waiting if not reading.finished]
        self._encoded = []
        self._committed_at = time.monotonic()

    def _replaced(self, records: Sequence[DocumentRecord]) -> list[DocumentRecord]:
        """Return, made invisible, the documents whose files hold these now: one commit shows the change whole."""
        paths = {file.path for record in records for file in record.files}
        old = {self._obsolete[path].doc_id: self._obsolete[path] for path in paths & self._obsolete.keys()}
        return [replace(record, status="replaced", files=()) for record in old.values()]
