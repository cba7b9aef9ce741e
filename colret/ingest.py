"""Ingest: documents are read, encoded and stored page by page; doing it again is a sync.

Reading, encoding and writing overlap: processes read, one thread encodes, another writes, and
each waits for the next when it is a few batches ahead, so that what is held does not grow with
the documents. The calling thread only passes batches on, so it can be interrupted at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from queue import SimpleQueue
from typing import Final, Protocol

from colret import readers
from colret.addresses import Place
from colret.committing import Committer
from colret.encoders import Encoder
from colret.encoding import Event, batches, encode_events
from colret.errors import Reason
from colret.fitting import fit_projection
from colret.folders import Found, find_documents
from colret.memory import bound_memory, release_memory
from colret.planning import make_plan, passed_reasons
from colret.prefilter import prepare
from colret.readers import DEFAULT_LIMITS, Limits, Readers
from colret.report import IngestReport, Progress, start_report
from colret.spool import Spool
from colret.store import PageStore
from colret.sync import NewDocument, Plan
from colret.text_lane import drop_damaged_text_index
from colret.worker import Worker

ENCODE_PAGES: Final = 16  # pages encoded together
COMMIT_PAGES: Final = 64  # pages held before they are written
COMMIT_SECONDS: Final = 30.0  # or this long, so that a kill costs little

_BATCHES = 2  # that wait for the encoder, and for the index
_PATIENCE = 1.0  # seconds that an interrupted ingest waits for a write under way

Put = Callable[[list[Event]], None]
"""Takes events, the next of each of their documents, on their way into the index; may wait for it."""


class Engine(Protocol):
    """What reads and encodes documents elsewhere than in this process and its children."""

    def run(
        self,
        documents: Sequence[NewDocument],
        put: Put,
        tell: Callable[[], None],
        *,
        limits: Limits,
        passwords: Sequence[str],
    ) -> None:
        """Read and encode documents, and put every event of each, in the document's order.

        Args:
            documents: In any order, and side by side.
            put: Takes them.
            tell: To be called now and then, in the calling thread.
            limits: Of one page.
            passwords: To try on documents that need one.

        Raises:
            ColretError: If it cannot go on; what was put stays.
        """
        ...


def ingest(
    paths: Sequence[str | Place] | Found,
    store: PageStore,
    encoder: Encoder,
    *,
    retry_failed: bool = False,
    retry: Collection[Reason] | None = None,
    prune: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    passwords: Sequence[str] = (),
    commit_pages: int | None = None,
    engine: Engine | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> IngestReport:
    """Bring the index up to date with the documents below ``paths``.

    An exception that ``on_progress`` raises, and Ctrl-C, end it within 2 seconds, though the
    encoder may work on for a moment in its thread: what is committed stays, and the next ingest
    goes on from there.

    Args:
        paths: Files, folders and addresses of objects, or what ``find_documents`` found there.
        store: The index. It is used from another thread meanwhile.
        encoder: The encoder that made it.
        retry_failed: Read documents again that this version of colret could not use.
        retry: The same for those that failed for these reasons; by default what ``passed_reasons``
            gives, as where there are passwords now.
        prune: Take documents out of the index whose files are gone.
        limits: What reading a page may take.
        passwords: To try on documents that need one.
        commit_pages: Pages, or documents, that are written together; by default 64.
        engine: What reads and encodes; by default this machine, with ``encoder``.
        on_progress: Called after each page, each document and each commit, in the calling thread.

    Returns:
        What was done. Documents and pages that cannot be used are listed in it, not raised.

    Raises:
        StoreError: If the index is another encoder's, is being written to, or cannot be written.
    """
    bound_memory()
    found = paths if isinstance(paths, Found) else find_documents(paths, store.location.options)
    retry = passed_reasons(passwords=bool(passwords)) if retry is None else retry
    tellings: SimpleQueue[Progress] = SimpleQueue()

    def tell() -> None:
        for _ in range(tellings.qsize()):
            on_progress(tellings.get())

    try:
        with (
            Spool() as spool,
            Worker("colret-write", waiting=_BATCHES, context=store.writing(), patience=_PATIENCE) as writing,
        ):
            n_orphans = writing.call(store.remove_orphans)
            records = writing.call(store.documents)
            plan = make_plan(found, records, retry_failed=retry_failed, retry=retry, prune=prune, spool=spool)
            report = start_report(plan)
            most = commit_pages or COMMIT_PAGES
            committer = Committer(store, report, plan, tellings.put, most_pages=most, seconds=COMMIT_SECONDS)
            if plan.new:  # before that, an encoder may not even be loaded
                store.check_encoder(encoder.info)
                known = {record.doc_id for record in records} - plan.reread
                again = [document.doc_id for document in plan.new if document.doc_id in known]
                writing.call(lambda: store.remove_documents(again))
                with Readers(limits=limits, passwords=passwords, spool=spool) as processes:
                    report.n_fitted = fit_projection(store, encoder, processes, plan.new, writing)

                    def put(events: list[Event]) -> None:
                        writing.put(lambda: committer.take(events))

                    if engine is None:
                        _run(processes, encoder, plan.new, put, tell)
                    else:
                        engine.run(plan.new, put, tell, limits=limits, passwords=passwords)
                    writing.call(committer.commit, meanwhile=tell)
                    tell()
            writing.call(lambda: _conclude(store, plan, committer, report, changed=bool(n_orphans)))
    except KeyboardInterrupt:
        tell()  # what is in, after all
        raise
    return report


def _run(
    processes: Readers,
    encoder: Encoder,
    documents: Sequence[NewDocument],
    put: Put,
    tell: Callable[[], None],
) -> None:
    """Read and encode documents on this machine, in order; ``tell`` is called now and then."""
    info = encoder.info
    reading = processes.read(documents, pixels=info.render_pixels, ocr=info.reads == "words")
    with closing(reading) as events, Worker("colret-encode", waiting=_BATCHES) as encoding:
        for batch in batches(events, ENCODE_PAGES, COMMIT_SECONDS):

            def work(batch: Sequence[readers.Event] = batch) -> None:
                put(encode_events(encoder, batch))

            encoding.put(work, meanwhile=tell)
            tell()
        encoding.finish(meanwhile=tell)


def _conclude(store: PageStore, plan: Plan, committer: Committer, report: IngestReport, *, changed: bool) -> None:
    """Write what needs no page, take out what is over, and tidy the index up."""
    store.put_documents(plan.updated)
    # A file that was changing has no successor in the index yet, and keeps what it had.
    obsolete = [each for each in plan.obsolete if committer.unsettled.isdisjoint(file.path for file in each.files)]
    report.n_replaced = len(obsolete)
    store.remove_documents([record.doc_id for record in [*obsolete, *plan.dropped]])
    if committer.unsettled:
        store.remove_orphans()
    changed |= drop_damaged_text_index(store)  # and have it made anew below
    if changed or plan.new or plan.updated or obsolete or plan.dropped:
        release_memory()  # what encoding has left, before these take what they need
        store.compact()
        release_memory()
        prepare(store)
