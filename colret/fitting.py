"""Fit an index's projection to the vectors of a few of its pages, before the first is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from colret.encoders import Encoder
from colret.errors import DocumentError, ModelError
from colret.projection import fit
from colret.reading import open_document
from colret.settings import COARSE_CODECS
from colret.store import PageStore
from colret.sync import NewDocument
from colret.types import Float32, Page, PageRef

PILOT_PAGES: Final = 128  # read and encoded twice: once to fit, once to store
PAGE_VECTORS: Final = 256  # of each that count

_BATCH = 16  # pages encoded together


def fit_projection(store: PageStore, encoder: Encoder, documents: Sequence[NewDocument]) -> int:
    """Give the index its projection, if it needs one and has none.

    A pilot reads pages evenly spread over evenly spread documents, so that no single document
    decides. A projection is never changed: what comes later is stored by the same.

    Args:
        store: The index, under ``writing``.
        encoder: The encoder that made it.
        documents: What is to be ingested.

    Returns:
        The number of vectors that it was fitted to; 0 if there was nothing to fit, or, in which
        case ``fit_to`` must follow, nothing to fit it to.
    """
    settings = store.settings
    if not settings.projected or store.projection() is not None:
        return 0
    if settings.stored_dim == settings.dim:  # a rotation alone needs no data: no direction comes before another
        fit_to(store, [np.eye(settings.dim, dtype=np.float32)])
        return 0
    return fit_to(store, list(_sample(encoder, documents)))


def fit_to(store: PageStore, pages: Sequence[Float32]) -> int:
    """Fit the index's projection to pages' vectors, each (P, D) float32, if there are any; return their number."""
    n_vectors = sum(map(len, pages))
    if n_vectors:
        settings = store.settings
        balance = settings.codec in COARSE_CODECS
        store.put_projection(fit(np.concatenate(pages), settings.stored_dim, balance=balance))
    return n_vectors


def _sample(encoder: Encoder, documents: Sequence[NewDocument]) -> Iterator[Float32]:
    batch: list[Page] = []
    for page in _pilot(encoder, documents):
        batch.append(page)
        if len(batch) == _BATCH:
            yield from _encoded(encoder, batch)
            batch = []
    yield from _encoded(encoder, batch)


def _pilot(encoder: Encoder, documents: Sequence[NewDocument]) -> Iterator[Page]:
    chosen = [documents[i] for i in _spread(len(documents), PILOT_PAGES)]
    each = -(-PILOT_PAGES // len(chosen))
    for document in chosen:
        try:
            with open_document(document.source.path) as pages:
                for place in _spread(pages.n_pages, each):
                    ref = PageRef(document.doc_id, place + 1)
                    yield pages.read_page(
                        ref.number, ref=ref, pixels=encoder.info.render_pixels, ocr=encoder.info.reads == "words"
                    )
        except DocumentError:  # told when it is its turn to be stored
            continue


def _encoded(encoder: Encoder, pages: Sequence[Page]) -> Iterator[Float32]:
    try:
        embeddings = encoder.encode_pages(pages)
    except ModelError:  # told when they are to be stored
        return
    for embedding in embeddings:
        yield embedding.vectors[_spread(len(embedding.vectors), PAGE_VECTORS)]


def _spread(n: int, most: int) -> list[int]:
    """Return at most ``most`` of the numbers below n, evenly spread."""
    return list(range(n)) if n <= most else [i * n // most for i in range(most)]
