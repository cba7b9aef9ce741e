"""A labelled set in an index: its pages as columns, its queries as rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from colret.documents import display_path
from colret.errors import StoreError
from colret.ingest import ENCODE_PAGES, ingest
from colret.location import Location, StrPath
from colret.reading import open_document
from colret.report import Progress, Skipped
from colret.store import PageStore
from colret.types import Float32, IndexSettings, Int64, PageRef
from colret_eval.datasets import Dataset, DatasetError
from colret_eval.evaluation.page_documents import batches, name_in_keys, readable_pages, store_page_documents
from colret_eval.evaluation.recorder import PageRecord, RecordingEncoder
from colret_eval.matrices import Bool, page_order, relevant_pages
from colret_eval.measures import Qrels


@dataclass(frozen=True, slots=True)
class Corpus:
    """A set and its index. Rows are the queries with an answer, then those without; columns are pages."""

    dataset: Dataset
    store: PageStore
    keys: tuple[str, ...]  # (N,) page keys in ``page_order``, labelled pages that cannot be found included
    page_ids: tuple[str, ...]  # (N,) of the index; "" where it has no such page
    places: Int64  # (N,) in the store's page table, -1 where it has no such page
    records: Mapping[str, PageRecord]  # by page id
    qrels: Qrels  # by the first name of each document
    query_ids: tuple[str, ...]  # with an answer
    relevant: Bool  # (Q, N)

    @property
    def documents(self) -> list[str]:
        """The document of each column, as page keys name it."""
        return [PageRef.parse(key).doc_id for key in self.keys]

    @property
    def sources(self) -> list[str]:
        """The document that each query is about."""
        return [self.dataset.sources[query_id] for query_id in self.query_ids]

    @property
    def findable(self) -> Bool:
        """(N,) whether the index has the page."""
        return self.places >= 0

    @property
    def n_pages(self) -> int:
        """N as it is reported: the pages that are searched."""
        return int(self.findable.sum())

    @property
    def texts(self) -> list[str]:
        """The queries with an answer, in order, then those without."""
        return [*(self.dataset.queries[query_id] for query_id in self.query_ids), *self.dataset.no_answer.values()]

    @property
    def all_ids(self) -> list[str]:
        """Ids of all rows."""
        return [*self.query_ids, *self.dataset.no_answer]

    def page_texts(self) -> dict[str, str]:
        """Return the words of each page that can be found, by key."""
        return {key: self.records[page].text for key, page in zip(self.keys, self.page_ids, strict=True) if page}

    def page(self, key: str) -> dict[str, Any]:
        """Return a page as it stands in a report."""
        document, number = PageRef.parse(key)
        return {"key": key, "file": unquote(document), "page": number}

    def columns(self, row: Float32) -> Float32:
        """Return values of the store's pages (..., n) as columns (..., N), ``-inf`` where there is no page."""
        values = np.full((*row.shape[:-1], len(self.keys)), -np.inf, np.float32)
        values[..., self.findable] = row[..., self.places[self.findable]]
        return values


class Ingested(NamedTuple):
    """What making the index took."""

    n_encoded: int  # pages
    seconds: float  # reading, encoding and storing them, without what was only measured
    n_blank: int  # pages without anything to encode
    n_identical: int  # files that hold what another one holds
    skipped: tuple[Skipped, ...]


def open_corpus(
    dataset: Dataset,
    place: Location | StrPath,
    settings: IndexSettings,
    recorder: RecordingEncoder,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Corpus, Ingested]:
    """Bring the index at ``place`` up to date with a set, and see to it that every page was recorded.

    Args:
        dataset: The set.
        place: Of the index; made where there is none.
        settings: Of a new index.
        recorder: The encoder.
        on_progress: As for ``ingest``.

    Raises:
        ColretError: The index is of other settings or documents, cannot be made, or holds no pages.
    """
    recorder.begin_set()
    store = _open_store(place, settings)
    before, noted, started = recorder.n_encoded, recorder.seconds, time.perf_counter()
    report = ingest(dataset.pdfs, store, recorder, on_progress=on_progress) if dataset.documents else None
    skipped = list(report.skipped) if report else []
    if dataset.page_documents:
        skipped += store_page_documents(dataset, store, recorder)
    n_encoded = recorder.n_encoded - before
    seconds = time.perf_counter() - started - (recorder.seconds - noted)
    store.refresh()
    names = _names(dataset, store)
    _record_missing(dataset, store, recorder, names)
    corpus = _corpus(dataset, store, recorder, names)
    n_blank = sum(record.n_blank for record in store.documents())
    return corpus, Ingested(n_encoded, seconds, n_blank, len(names) - len(set(names.values())), tuple(skipped))


def _open_store(place: Location | StrPath, settings: IndexSettings) -> PageStore:
    if not PageStore.exists(place):
        return PageStore.create(place, settings)
    store = PageStore.open(place)
    for name in ("codec", "stored_dim", "pool"):
        if getattr(store.settings, name) != getattr(settings, name):
            problem = f"has {name} {getattr(store.settings, name)}, not {getattr(settings, name)}"
            raise StoreError(place, problem, "give another --index, or the same settings")
    return store


def _names(dataset: Dataset, store: PageStore) -> dict[str, str]:
    """Return for each document name, as page keys write it, the index's document id; files alike share one.

    Raises:
        StoreError: The index holds documents that are not in the set, among which it would search.
    """
    ids = {file.path: record.doc_id for record in store.documents() for file in record.files}
    found = {}
    for name, path in dataset.documents.items():
        doc_id = ids.get(display_path(Path(os.path.abspath(path))))
        if doc_id is not None:
            found[name_in_keys(name)] = doc_id
    held = set(store.page_table().doc_ids)
    found |= {name_in_keys(name): name_in_keys(name) for name in dataset.page_documents if name_in_keys(name) in held}
    if strangers := held - set(found.values()):
        problem = f"holds {len(strangers)} documents that are not in the set"
        raise StoreError(store.location, problem, "remove that index, or give another --index")
    if not held:
        raise DatasetError(dataset.folder, "has no page that can be searched", "the model may need words or images")
    return found


def _corpus(dataset: Dataset, store: PageStore, recorder: RecordingEncoder, names: Mapping[str, str]) -> Corpus:
    first: dict[str, str] = {}  # document id to the name that stands for it
    for name in sorted(names):
        first.setdefault(names[name], name)
    table = store.page_table()
    refs = [candidate.ref for candidate in table.candidates()]
    place_of = {PageRef(first[ref.doc_id], ref.number).page_id: place for place, ref in enumerate(refs)}
    qrels: Qrels = {}
    for query_id, grades in dataset.qrels.items():
        own = qrels.setdefault(query_id, {})
        for key, grade in grades.items():
            name, number = PageRef.parse(key)
            named = PageRef(first[names[name]] if name in names else name, number).page_id
            own[named] = max(grade, own.get(named, grade))
    labelled = {key for grades in qrels.values() for key, grade in grades.items() if grade > 0}
    keys = page_order({*place_of, *labelled})
    places = np.array([place_of.get(key, -1) for key in keys], np.int64)
    page_ids = tuple(refs[place].page_id if place >= 0 else "" for place in places.tolist())
    query_ids = tuple(dataset.queries)
    relevant = relevant_pages(qrels, query_ids, keys)
    return Corpus(dataset, store, tuple(keys), page_ids, places, recorder.records, qrels, query_ids, relevant)


def _record_missing(dataset: Dataset, store: PageStore, recorder: RecordingEncoder, names: Mapping[str, str]) -> None:
    """Encode again the pages of an index that was there before: only this run's queries are compared with them."""
    wanted: dict[str, list[int]] = {}
    for candidate in store.candidates():
        if candidate.ref.page_id not in recorder.records:
            wanted.setdefault(candidate.ref.doc_id, []).append(candidate.ref.number)
    info = recorder.info
    for name, path in dataset.documents.items():
        numbers = wanted.pop(names.get(name_in_keys(name), ""), [])
        if numbers:
            with open_document(path) as document:
                refs = (PageRef(names[name_in_keys(name)], number) for number in numbers)
                read = (
                    document.read_page(ref.number, ref=ref, pixels=info.render_pixels, ocr=info.reads == "words")
                    for ref in refs
                )
                for batch in batches(read, ENCODE_PAGES):
                    recorder.encode_pages(batch)
    rest = {name: document for name, document in dataset.page_documents.items() if name_in_keys(name) in wanted}
    for batch in batches(readable_pages(rest, info, []), ENCODE_PAGES):
        recorder.encode_pages(batch)
