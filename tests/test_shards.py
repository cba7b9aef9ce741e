"""Documents that are read again after a loss are given on once, whole and in order."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from colret.documents import SourceFile
from colret.encoding import Event, PageEncoded
from colret.errors import DocumentError
from colret.fleet.shards import Shards
from colret.readers import Finished, Opened, PageFailed
from colret.sync import NewDocument
from colret.types import Page, PageEmbedding, PageRef, Words


class Told(NamedTuple):
    """An event, as far as it can be compared."""

    kind: str
    doc_id: str
    number: int


def document(name: str, size: int = 1) -> NewDocument:
    return NewDocument(name, SourceFile(Path(f"/{name}.pdf"), size, 0), ())


def events_of(new: NewDocument, n_pages: int) -> list[Event]:
    """Return what becomes of a document whose every third page fails."""
    vectors, boxes = np.ones((1, 2), np.float32), np.zeros((1, 4), np.uint16)
    error = DocumentError("page", "is torn", "mend it", reason="page_unreadable")
    pages: list[Event] = []
    for number in range(1, n_pages + 1):
        page = Page(PageRef(new.doc_id, number), 1, 1, Words.none(), None, 0)
        read = PageEncoded(new, page, PageEmbedding(vectors, boxes), 0.0)
        pages.append(read if number % 3 else PageFailed(new, number, error))
    return [Opened(new, n_pages), *pages, Finished(new, None, n_pages)]


def told(event: Event) -> Told:
    match event:
        case PageEncoded():
            return Told("page", event.document.doc_id, event.page.ref.number)
        case PageFailed():
            return Told("failed", event.document.doc_id, event.number)
    return Told(type(event).__name__, event.document.doc_id, event.n_pages)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.data())
def test_each_event_is_given_on_once_and_in_order(n_pages: list[int], data: st.DataObject) -> None:
    documents = [document(f"{number}") for number in range(len(n_pages))]
    all_events = {new.doc_id: events_of(new, n) for new, n in zip(documents, n_pages, strict=True)}
    shards, given_on, n_lost = Shards(documents, 1), [], dict.fromkeys(all_events, 0)
    while shards:
        shard = shards.next()
        coming = [event for new in shard for event in all_events[new.doc_id]]
        survives = any(n_lost[new.doc_id] == 2 for new in shard)  # a third loss would be too much
        cut = len(coming) if survives else data.draw(st.integers(0, len(coming)))
        given_on += shards.fresh(coming[:cut])
        finished = {event.document.doc_id for event in given_on if isinstance(event, Finished)}
        unfinished = [new for new in shard if new.doc_id not in finished]
        for new in unfinished:
            n_lost[new.doc_id] += 1
        assert shards.lose(unfinished) == []
    for doc_id, events in all_events.items():
        assert [told(event) for event in given_on if event.document.doc_id == doc_id] == [told(each) for each in events]


def test_a_document_that_is_lost_three_times_is_given_up_for_now() -> None:
    new = document("a")
    shards = Shards([new], 1)
    for _ in range(2):
        assert shards.next() == [new]
        shards.fresh(events_of(new, 4)[:3])
        assert shards.lose([new]) == []
    assert shards.next() == [new]
    [event] = shards.lose([new])
    assert isinstance(event, Finished)
    assert event.error is not None
    assert (event.error.reason, event.n_pages) == ("unreadable", 2)
    assert "/a.pdf: the workers that were at it were lost 3 times" in str(event.error)
    assert not shards


def test_shards_are_small_at_the_end_and_never_heavy() -> None:
    shards = Shards([document(str(number)) for number in range(1000)], 2)
    sizes = []
    while shards:
        sizes.append(len(shards.next()))
    assert sum(sizes) == 1000
    assert (sizes[0], sizes[-1]) == (32, 1)
    assert sizes == sorted(sizes, reverse=True)
    heavy = Shards([document(str(number), size=20 << 20) for number in range(100)], 1)
    assert len(heavy.next()) == 2
