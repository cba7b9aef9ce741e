"""The index of the service. Only the search thread of ``batching`` touches it.

Each read sees what is committed by then, whoever wrote it. An index that was replaced, or whose
files went away, is opened again once before a request fails.
"""

from __future__ import annotations

import bisect
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from colret.api import Index
from colret.encoders import blamed_on_model
from colret.errors import StoreError
from colret.evidence import find_evidence
from colret.index_encoder import EncoderWhenNeeded, load_encoder_of
from colret.location import Location, StrPath
from colret.results import Results
from colret.search import embed, fresh
from colret.service.findings import Found, How, ShownPage
from colret.service.limits import MOST_WITH_EVIDENCE
from colret.service.telling import evidence_answer
from colret.store import PageStore
from colret.types import Candidate, DocumentRecord, IndexInfo, Page, PageRef, QueryEmbedding

Value = TypeVar("Value")

_LOOK_SECONDS = 60  # between looks whether another index has taken this one's place, which no read would tell
_QUERIES_KEPT = 256  # encoded: a viewer asks the same query of page after page


class Library:
    """An index, open.

    Args:
        path: Where it is.
        device: Where the model runs: see ``colret.open``.
        model: Another name for the index's model.

    Raises:
        StoreError: If there is none.
    """

    def __init__(self, path: Location | StrPath, *, device: str = "auto", model: str | None = None) -> None:
        self._path = path
        self._device = device
        self._store = PageStore.open(path)
        store = self._store
        self._encoder = EncoderWhenNeeded(
            functools.partial(load_encoder_of, store, device=device, model=model, queries_only=True)
        )
        self._index = Index(store, self._encoder, device=device)
        self._look_at = time.monotonic() + _LOOK_SECONDS
        self._embedded = functools.lru_cache(_QUERIES_KEPT)(self._embed)

    @property
    def storage_options(self) -> Mapping[str, str]:
        """What opens object storage, where documents may be too: see ``object_storage``."""
        return self._store.location.options

    def load(self) -> EncoderWhenNeeded:
        """Load the model, and return it: it reads images for ``search_page`` in a thread of its own.

        Raises:
            ModelError: If it cannot be had.
        """
        self._store.check_encoder(self._encoder.info)
        return self._encoder

    @property
    def version(self) -> str:
        """What is seen: another after each commit."""
        return ".".join(map(str, self._store.version))

    @property
    def n_pages(self) -> int:
        """Pages that can be found."""
        return self._read(lambda: self._store.n_pages())

    def search(self, texts: Sequence[str], how: How) -> list[Found]:
        """Return what is found for each text; arguments as for ``Index.search_many``.

        Raises:
            ValueError: If a text has no tokens.
            FilterError: If the filters let nothing pass.
            StoreError: If the index cannot be read, or is another model's now.
        """

        def read() -> list[Found]:
            found = self._index.search_many(
                texts, how.k, lane=how.lane, where=how.where, docs=how.docs, per_document=how.per_document
            )
            return [self._found(results, how) for results in found]

        return self._again(read)

    def like(self, doc_id: str, number: int, how: How) -> Found:
        """Return the pages most like a page of the index, by its id; raises as ``Index.like``."""

        def read() -> Found:
            options = {"where": how.where, "docs": how.docs, "per_document": how.per_document}
            return self._found(self._index.like(doc_id, number, how.k, **options), how)  # type: ignore[arg-type]

        return self._again(read)

    def like_page(self, page: Page, name: str, how: How) -> Found:
        """Return the pages most like one that was read from elsewhere; raises as ``Index.search_page``."""

        def read() -> Found:
            options = {"where": how.where, "docs": how.docs, "per_document": how.per_document}
            return self._found(self._index.search_page(page, name, how.k, **options), how)  # type: ignore[arg-type]

        return self._again(read)

    def document(self, doc_id: str) -> DocumentRecord | None:
        """Return what is known of a document; None if there is none of this id."""
        return self._read(lambda: self._records().get(doc_id))

    def documents(self, after: int, most: int) -> tuple[list[DocumentRecord], int]:
        """Return at most ``most`` documents after the first ``after``, by path, and how many there are."""

        def read() -> tuple[list[DocumentRecord], int]:
            records = list(self._records().values())
            return records[after : after + most], len(records)

        return self._read(read)

    def page(self, doc_id: str, number: int, text: str | None) -> ShownPage | None:
        """Return a page and what of it matches ``text``; None if no document that was read has it.

        No page is encoded again: where the index pooled vectors, boxes are coarse, and evidence says so.

        Raises:
            ValueError: If the text has no tokens.
        """

        def read() -> ShownPage | None:
            record = self._records().get(doc_id)
            if record is None or record.status != "done" or not 1 <= number <= record.n_pages:
                return None
            ref = PageRef(doc_id, number)
            place = self._place(ref)
            if place is None:
                return ShownPage(record, ref, None, None)
            if text is None:
                return ShownPage(record, ref, self._store.details([place.row_id])[0], None)
            [evidence] = find_evidence(self._store, self._embedded(text), [place])
            return ShownPage(record, ref, evidence.page, evidence)

        return self._read(read)

    def info(self) -> IndexInfo:
        """Count what the index holds, once for each version of it."""
        info: IndexInfo = self._read(lambda: self._store.derived("info", self._store.info))
        return info

    def _found(self, results: Results, how: How) -> Found:
        # Told here: it takes time that the thread of the connections has not, and far less memory than what it is of.
        evidence = (
            [evidence_answer(each) for each in results.evidence(MOST_WITH_EVIDENCE)] if how.with_evidence else None
        )
        records = self._records()
        return Found(results, evidence, {hit.doc_id: records[hit.doc_id] for hit in results if hit.doc_id in records})

    def _records(self) -> dict[str, DocumentRecord]:
        """Return all documents by id, in the order of their paths, read once for each version."""

        def read() -> dict[str, DocumentRecord]:
            # What was replaced is of no path any more, and goes with the end of the ingest that is at it.
            return {record.doc_id: record for record in self._store.documents() if record.status != "replaced"}

        records: dict[str, DocumentRecord] = self._store.derived("records", read)
        return records

    def _place(self, ref: PageRef) -> Candidate | None:
        """Return where the index keeps a page; None if it has no vectors."""
        table = self._store.page_table()
        at = bisect.bisect_left(table.doc_ids, ref.doc_id)
        if at == len(table.doc_ids) or table.doc_ids[at] != ref.doc_id:
            return None
        first, last = np.searchsorted(table.documents, [at, at + 1])
        place = int(first + np.searchsorted(table.numbers[first:last], ref.number))
        return table.candidates(np.array([place]))[0] if place < last and table.numbers[place] == ref.number else None

    def _embed(self, text: str) -> QueryEmbedding:
        with blamed_on_model(self._store.settings.model, but=(ValueError,)):
            return embed(self._store, self._encoder, [text])[0]

    def _read(self, read: Callable[[], Value]) -> Value:
        return self._again(lambda: fresh(self._store, read))

    def _again(self, read: Callable[[], Value]) -> Value:
        """Read; where that fails open the index anew, which may have been replaced, and read again."""
        if time.monotonic() >= self._look_at:
            self._open(keep=self._look_at > 0)
        try:
            return read()
        except StoreError:
            self._look_at = 0.0  # also next time, unless this succeeds
            self._open(keep=False)
            return read()

    def _open(self, *, keep: bool) -> None:
        """Open the index; ``keep``: go on with the open one, with what was read of it, if it is still the same."""
        store = PageStore.open(self._path)
        store.check_encoder(self._encoder.info)  # of another model: only a restart helps
        self._look_at = time.monotonic() + _LOOK_SECONDS
        if keep and store.settings == self._store.settings:
            return
        self._store = store
        self._index = Index(store, self._encoder, device=self._device)
        self._embedded.cache_clear()
