"""Write a colret index of vectors at hand, as ingest writes what it encodes: no document is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import colret
from colret.compression import Compression
from colret.fitting import fit_to
from colret.ingest import COMMIT_PAGES
from colret.prefilter import prepare
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import (
    Codec,
    DocumentRecord,
    EncodedPage,
    EncoderInfo,
    Float32,
    Page,
    PageEmbedding,
    PageRef,
    QueryEmbedding,
    Words,
)

DOCUMENT_PAGES = 100  # of each document but the last


def page_number(ref: PageRef) -> int:
    """Return which page of ``write_index`` a reference is, from 0."""
    return int(ref.doc_id) * DOCUMENT_PAGES + ref.number - 1


def as_query(vectors: Float32) -> QueryEmbedding:
    """Return a query of (T, D) vectors whose tokens nobody asks for."""
    return QueryEmbedding(vectors, ("",) * len(vectors))


def write_index(
    path: Path,
    pages: Iterator[PageEmbedding],
    n_pages: int,
    encoder: EncoderInfo,
    codec: Codec | None,
    *,
    dim: int | None = None,
    pool: int = 1,
    sample: Float32 | None = None,
) -> PageStore:
    """Write an index of ``n_pages`` pages without words.

    Args:
        path: Where there is none yet.
        pages: Vectors and boxes of each page.
        n_pages: How many pages there are.
        encoder: What made the vectors.
        codec: As for ``settings_for``, like ``dim`` and ``pool``.
        dim: Dimensions to store.
        pool: Vectors that become one.
        sample: (n, D) float32 vectors that a projection to fewer dimensions is fitted on.
    """
    store = PageStore.create(path, settings_for(encoder, codec, dim=dim, pool=pool))
    settings = store.settings
    with store.writing():
        if settings.projected:
            rotation = np.eye(settings.dim, dtype=np.float32)  # fits no direction before another
            source = rotation if sample is None or settings.stored_dim == settings.dim else sample
            fit_to(store, [source])
        compression = Compression(pool, store.projection())
        for start in range(0, n_pages, COMMIT_PAGES):
            some = enumerate(itertools.islice(pages, COMMIT_PAGES), start)
            store.add_pages([_encoded(i, compression.page(embedding)) for i, embedding in some])
        store.put_documents([_record(first, n_pages) for first in range(0, n_pages, DOCUMENT_PAGES)])
        store.compact()
        prepare(store)
    return store


def _encoded(i: int, embedding: PageEmbedding) -> EncodedPage:
    ref = PageRef(f"{i // DOCUMENT_PAGES:08d}", i % DOCUMENT_PAGES + 1)
    return EncodedPage(Page(ref, 612.0, 792.0, Words.none(), None, 0), embedding)


def _record(first: int, n_pages: int) -> DocumentRecord:
    return DocumentRecord(
        doc_id=f"{first // DOCUMENT_PAGES:08d}",
        files=(),
        size=0,
        n_pages=min(DOCUMENT_PAGES, n_pages - first),
        n_blank=0,
        status="done",
        reason="",
        message="",
        tool_version=colret.__version__,
    )
