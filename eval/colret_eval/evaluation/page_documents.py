"""Pages that are no files, texts and images out of tables: stored as ingest stores what it reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

import colret
from colret.compression import Compression
from colret.errors import DocumentError
from colret.ingest import COMMIT_PAGES, ENCODE_PAGES
from colret.prefilter import prepare
from colret.projection import fit
from colret.report import Skipped
from colret.settings import COARSE_CODECS
from colret.store import PageStore
from colret.types import DocumentRecord, EncodedPage, EncoderInfo, Float32, Page, PageRef
from colret_eval.datasets import Dataset, PageDocument, page_key
from colret_eval.evaluation.recorder import RecordingEncoder

_PILOT_VECTORS: Final = 50_000  # that a projection is fitted on


def store_page_documents(dataset: Dataset, store: PageStore, recorder: RecordingEncoder) -> list[Skipped]:
    """Store the pages of the set's page documents that the index lacks; return what could not be read."""
    skipped: list[Skipped] = []
    with store.writing():
        store.remove_orphans()
        done = {record.doc_id for record in store.documents() if record.status == "done"}
        new = {name: document for name, document in dataset.page_documents.items() if name_in_keys(name) not in done}
        if not new:
            return []
        n_blank = dict.fromkeys(map(name_in_keys, new), 0)
        held: list[EncodedPage] = []
        for batch in batches(readable_pages(new, recorder.info, skipped), ENCODE_PAGES):
            embeddings = recorder.encode_pages(batch)
            _put_projection(store, [embedding.vectors for embedding in embeddings if len(embedding.vectors)])
            compression = Compression(store.settings.pool, store.projection())
            for page, embedding in zip(batch, embeddings, strict=True):
                n_blank[page.ref.doc_id] += not len(embedding.vectors)
                held.append(EncodedPage(replace(page, image=None), compression.page(embedding)))
            if len(held) >= COMMIT_PAGES:
                store.add_pages(held)
                held = []
        store.add_pages(held)
        store.put_documents(
            [_record(name_in_keys(n), len(d.numbers), n_blank[name_in_keys(n)]) for n, d in new.items()]
        )
        store.compact()
        prepare(store)
    return skipped


def readable_pages(documents: Mapping[str, PageDocument], info: EncoderInfo, skipped: list[Skipped]) -> Iterator[Page]:
    """Yield the pages that can be read, and note the others in ``skipped``."""
    for name, document in documents.items():
        for number in document.numbers:
            ref = PageRef(name_in_keys(name), number)
            try:
                yield document.read_page(number, ref=ref, pixels=info.render_pixels, ocr=info.reads == "words")
            except DocumentError as error:
                skipped.append(Skipped(name, number, error.reason, f"{error.problem}; {error.remedy}"))


def batches(pages: Iterator[Page], n: int) -> Iterator[list[Page]]:
    """Yield pages n at a time."""
    while batch := list(itertools.islice(pages, n)):
        yield batch


def _put_projection(store: PageStore, vectors: Sequence[Float32]) -> None:
    """Give the index its projection, if it needs one and has none, fitted on its first pages."""
    settings = store.settings
    if not settings.projected or store.projection() is not None:
        return
    sample = np.concatenate(vectors) if vectors else np.eye(settings.dim, dtype=np.float32)
    sample = sample[:: len(sample) // _PILOT_VECTORS + 1]
    store.put_projection(fit(sample, settings.stored_dim, balance=settings.codec in COARSE_CODECS))


def _record(doc_id: str, n_pages: int, n_blank: int) -> DocumentRecord:
    return DocumentRecord(doc_id, (), 0, n_pages, n_blank, "done", "", "", colret.__version__)


def name_in_keys(name: str) -> str:
    """Return how page keys write a document's name, which is its id in an index too."""
    return PageRef.parse(page_key(name, 1)).doc_id
