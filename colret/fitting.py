"""Fit an index's projection to the vectors of a few of its pages, before the first is stored."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from colret.encoders import Encoder
from colret.errors import ModelError
from colret.projection import fit
from colret.readers import PageRead, Readers
from colret.settings import COARSE_CODECS
from colret.store import PageStore
from colret.sync import NewDocument
from colret.types import Float32, Page
from colret.worker import Worker

PILOT_PAGES: Final = 128  # read and encoded twice: once to fit, once to store
PAGE_VECTORS: Final = 256  # of each that count

_BATCH = 16  # pages encoded together


def fit_projection(
    store: PageStore, encoder: Encoder, processes: Readers, documents: Sequence[NewDocument], writing: Worker
) -> int:
    """Give the index its projection, if it needs one and has none.

    A pilot reads pages evenly spread over evenly spread documents, so that no single document
    decides. A projection is never changed: what comes later is stored by the same.

    Args:
        store: The index.
        encoder: The encoder that made it.
        processes: What reads documents.
        documents: What is to be ingested.
        writing: The thread that writes to the index.

    Returns:
        The number of vectors that it was fitted to; 0 if there was nothing to fit, or, in which
        case ``fit_to`` must follow, nothing to fit it to.
    """
    settings = store.settings
    if not settings.projected or writing.call(store.projection) is not None:
        return 0
    if settings.stored_dim == settings.dim:  # a rotation alone needs no data: no direction comes before another
        writing.call(lambda: fit_to(store, [np.eye(settings.dim, dtype=np.float32)]))
        return 0
    sample = _sample(encoder, processes, documents)
    return writing.call(lambda: fit_to(store, sample))


def fit_to(store: PageStore, pages: Sequence[Float32]) -> int:
    """Fit the index's projection to pages' vectors, each (P, D) float32, if there are any; return their number."""
    n_vectors = sum(map(len, pages))
    if n_vectors:
        settings = store.settings
        balance = settings.codec in COARSE_CODECS
        store.put_projection(fit(np.concatenate(pages), settings.stored_dim, balance=balance))
    return n_vectors


def _sample(encoder: Encoder, processes: Readers, documents: Sequence[NewDocument]) -> list[Float32]:
    """Return the vectors of the pilot's pages, encoded in a thread so that the wait for it can be interrupted."""
    sample: list[Float32] = []
    with closing(_pilot(encoder, processes, documents)) as pages, Worker("colret-pilot", waiting=1) as encoding:
        while batch := list(islice(pages, _BATCH)):
            encoding.put(partial(_encode, encoder, batch, sample))
    return sample


def _pilot(encoder: Encoder, processes: Readers, documents: Sequence[NewDocument]) -> Generator[Page]:
    """Yield a few pages; what cannot be read is told when it is its turn to be stored."""
    chosen = [documents[i] for i in _spread(len(documents), PILOT_PAGES)]
    each = -(-PILOT_PAGES // len(chosen))
    info = encoder.info
    events = processes.read(chosen, pixels=info.render_pixels, ocr=info.reads == "words", sample=each)
    with closing(events):
        yield from (event.page for event in events if isinstance(event, PageRead))


def _encode(encoder: Encoder, pages: Sequence[Page], sample: list[Float32]) -> None:
    try:
        embeddings = encoder.encode_pages(pages)
    except ModelError:  # told when they are to be stored
        return
    sample += [embedding.vectors[_spread(len(embedding.vectors), PAGE_VECTORS)] for embedding in embeddings]


def _spread(n: int, most: int) -> list[int]:
    """Return at most ``most`` of the numbers below n, evenly spread."""
    return list(range(n)) if n <= most else [i * n // most for i in range(most)]
