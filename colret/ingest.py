"""Ingest: documents are read, encoded and stored page by page; doing it again is a sync.

Reading, encoding and writing overlap: processes read, one thread encodes, another writes, and
each waits for the next when it is a few batches ahead, so that what is held does not grow with
the documents. The calling thread only passes batches on, so it can be interrupted at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from colret import committing, readers
from colret.committing import Committer, PageEncoded
from colret.encoders import Encoder, blamed_on_model
from colret.errors import DocumentError, ModelError, Reason
from colret.fitting import fit_projection
from colret.folders import Found, find_documents
from colret.memory import bound_memory
from colret.planning import make_plan, passed_reasons
from colret.prefilter import prepare
from colret.readers import DEFAULT_LIMITS, Limits, PageFailed, PageRead, Readers
from colret.report import IngestReport, Progress, start_report
from colret.store import PageStore
from colret.sync import NewDocument, Plan
from colret.worker import Worker

ENCODE_PAGES: Final = 16  # pages encoded together
COMMIT_PAGES: Final = 64  # pages held before they are written
COMMIT_SECONDS: Final = 30.0  # or this long, so that a kill costs little

_BATCHES = 2  # that wait for the encoder, and for the index
_PATIENCE = 1.0  # seconds that an interrupted ingest waits for a write under way


def ingest(
    paths: Sequence[Path] | Found,
    store: PageStore,
    encoder: Encoder,
    *,
    retry_failed: bool = False,
    retry: Collection[Reason] | None = None,
    prune: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    passwords: Sequence[str] = (),
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> IngestReport:
    """Bring the index up to date with the documents below ``paths``.

    An exception that ``on_progress`` raises, and Ctrl-C, end it within 2 seconds, though the
    encoder may work on for a moment in its thread: what is committed stays, and the next ingest
    goes on from there.

    Args:
        paths: Files and folders, or what ``find_documents`` found there.
        store: The index. It is used from another thread meanwhile.
        encoder: The encoder that made it.
        retry_failed: Read documents again that this version of colret could not use.
        retry: The same for those that failed for these reasons; by default what ``passed_reasons``
            gives, as where there are passwords now.
        prune: Take documents out of the index whose files are gone.
        limits: What reading a page may take.
        passwords: To try on documents that need one.
        on_progress: Called after each page, each document and each commit, in the calling thread.

    Returns:
        What was done. Documents and pages that cannot be used are listed in it, not raised.

    Raises:
        StoreError: If the index is another encoder's, is being written to, or cannot be written.
    """
    bound_memory()
    found = paths if isinstance(paths, Found) else find_documents(paths)
    retry = passed_reasons(passwords=bool(passwords)) if retry is None else retry
    tellings: SimpleQueue[Progress] = SimpleQueue()

    def tell() -> None:
        for _ in range(tellings.qsize()):
            on_progress(tellings.get())

    try:
        with Worker("colret-write", waiting=_BATCHES, context=store.writing(), patience=_PATIENCE) as writing:
            n_orphans = writing.call(store.remove_orphans)
            records = writing.call(store.documents)
            plan = make_plan(found, records, retry_failed=retry_failed, retry=retry, prune=prune)
            report = start_report(plan)
            committer = Committer(store, report, plan, tellings.put, most_pages=COMMIT_PAGES, seconds=COMMIT_SECONDS)
            if plan.new:  # before that, an encoder may not even be loaded
                store.check_encoder(encoder.info)
                known = {record.doc_id for record in records} - plan.reread
                again = [document.doc_id for document in plan.new if document.doc_id in known]
                writing.call(lambda: store.remove_documents(again))
                with Readers(limits=limits, passwords=passwords) as processes:
                    report.n_fitted = fit_projection(store, encoder, processes, plan.new, writing)
                    _run(processes, encoder, plan.new, committer, writing, tell)
            writing.call(lambda: _conclude(store, plan, committer, report, changed=bool(n_orphans)))
    except KeyboardInterrupt:
        tell()  # what is in, after all
        raise
    return report


def _run(
    processes: Readers,
    encoder: Encoder,
    documents: Sequence[NewDocument],
    committer: Committer,
    writing: Worker,
    tell: Callable[[], None],
) -> None:
    """Bring documents into the index, in order; ``tell`` is called now and then."""
    info = encoder.info
    reading = processes.read(documents, pixels=info.render_pixels, ocr=info.reads == "words")
    with closing(reading) as events, Worker("colret-encode", waiting=_BATCHES) as encoding:
        for batch in _batches(events):

            def work(batch: Sequence[readers.Event] = batch) -> None:
                encoded = _encoded(encoder, batch)
                writing.put(lambda: committer.take(encoded))

            encoding.put(work, meanwhile=tell)
            tell()
        encoding.finish(meanwhile=tell)
    writing.call(committer.commit, meanwhile=tell)
    tell()


def _batches(events: Iterable[readers.Event]) -> Iterator[list[readers.Event]]:
    """Yield events together that hold enough pages to encode, or have waited for long."""
    batch: list[readers.Event] = []
    n_pages, started = 0, time.monotonic()
    for event in events:
        batch.append(event)
        n_pages += isinstance(event, PageRead)
        waited = time.monotonic() - started
        if n_pages >= ENCODE_PAGES or len(batch) >= 8 * ENCODE_PAGES or waited > COMMIT_SECONDS:
            yield batch
            batch, n_pages, started = [], 0, time.monotonic()
    if batch:
        yield batch


def _encoded(encoder: Encoder, events: Sequence[readers.Event]) -> list[committing.Event]:
    """Return the events with their pages encoded."""
    pages = iter(_encode(encoder, [event for event in events if isinstance(event, PageRead)]))
    return [next(pages) if isinstance(event, PageRead) else event for event in events]


def _encode(encoder: Encoder, pages: Sequence[PageRead]) -> list[PageEncoded | PageFailed]:
    """Encode pages together; if the model fails, one by one, so that it costs no more than the page it fails on."""
    if not pages:
        return []
    try:
        with blamed_on_model(pages[0].page.ref.page_id):
            embeddings = encoder.encode_pages([each.page for each in pages])
    except ModelError as error:
        if len(pages) > 1:
            return [result for each in pages for result in _encode(encoder, [each])]
        failure = DocumentError(error.subject, error.problem, error.remedy, reason="encoding_failed")
        return [PageFailed(pages[0].document, pages[0].page.ref.number, failure)]
    return [
        PageEncoded(each.document, replace(each.page, image=None), embedding, each.ocr_seconds)
        for each, embedding in zip(pages, embeddings, strict=True)
    ]


def _conclude(store: PageStore, plan: Plan, committer: Committer, report: IngestReport, *, changed: bool) -> None:
    """Write what needs no page, take out what is over, and tidy the index up."""
    store.put_documents(plan.updated)
    # A file that was changing has no successor in the index yet, and keeps what it had.
    obsolete = [each for each in plan.obsolete if committer.unsettled.isdisjoint(file.path for file in each.files)]
    report.n_replaced = len(obsolete)
    store.remove_documents([record.doc_id for record in [*obsolete, *plan.dropped]])
    if committer.unsettled:
        store.remove_orphans()
    if changed or plan.new or plan.updated or obsolete or plan.dropped:
        store.compact()
        prepare(store)
