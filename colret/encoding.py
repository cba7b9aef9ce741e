"""Pages that were read, encoded: a batch of events in, the same events with vectors out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from colret import readers
from colret.encoders import Encoder, blamed_on_model
from colret.errors import DocumentError, ModelError
from colret.readers import Finished, Opened, PageFailed, PageRead
from colret.sync import NewDocument
from colret.types import Page, PageEmbedding

_EVENTS_A_PAGE = 8  # a batch may hold, so that failures alone do not fill it without end


class PageEncoded(NamedTuple):
    """A page was read and encoded."""

    document: NewDocument
    page: Page  # without its image
    embedding: PageEmbedding  # as the encoder gives it
    ocr_seconds: float


Event = Opened | PageEncoded | PageFailed | Finished
"""What becomes of documents and pages on their way to the index."""


def batches(events: Iterable[readers.Event], n_pages: int, seconds: float) -> Iterator[list[readers.Event]]:
    """Yield events together that hold ``n_pages`` to encode, or have waited for ``seconds``."""
    batch: list[readers.Event] = []
    n_read, started = 0, time.monotonic()
    for event in events:
        batch.append(event)
        n_read += isinstance(event, PageRead)
        waited = time.monotonic() - started
        if n_read >= n_pages or len(batch) >= _EVENTS_A_PAGE * n_pages or waited > seconds:
            yield batch
            batch, n_read, started = [], 0, time.monotonic()
    if batch:
        yield batch


def encode_events(encoder: Encoder, events: Sequence[readers.Event]) -> list[Event]:
    """Return the events with their pages encoded; a page that the model fails on becomes a failure."""
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
