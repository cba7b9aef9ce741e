"""Query by example: the pages that say or show most of what one page does.

All vectors of the example are the query, some 500 where a question has 20. So a few of them, evenly
spread over the page, choose candidates, and all of them score these. For 20 examples each among 263
and 531 pages the ten best were those by all vectors with all pages, in 89 and 213 ms of CPU time
instead of 97 and 853; a sample alone found 8 of them, and Ward's clusters no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from colret.addresses import Place
from colret.compression import Compression
from colret.documents import display_path
from colret.encoders import Encoder
from colret.errors import DocumentError, StoreError
from colret.originals import local_file, read_page_of
from colret.scoring import float_vectors, maxsim
from colret.search import Ranking, Scope, fresh, places_of, rank
from colret.store import PageStore
from colret.types import Float32, Hit, Page, PageRef, QueryEmbedding

EVERYWHERE: Final = Scope()

SAMPLE_VECTORS: Final = 64
"""Of the example that choose candidates."""

CANDIDATES: Final = 50
"""Pages that all of the example's vectors score; at least, where more pages are wanted."""

MOST_VECTORS: Final = 2048
"""Of the example that score: of a larger page as many, evenly spread."""


def file_vectors(store: PageStore, encoder: Encoder, path: Place, *, number: int = 1) -> Float32:
    """Return the vectors of a page of a file as the index would store them before rounding, (P, d) float32.

    Args:
        store: The index.
        encoder: The encoder that made it.
        path: Of the file or object, an image or a document, in the index or not.
        number: Of its page.

    Raises:
        StoreError: If the index is another encoder's.
        DocumentError: If the file or its page cannot be read, or has nothing to encode.
        ModelError: If the encoder fails.
    """
    store.check_encoder(encoder.info)  # before a page is read, which may take seconds
    info, file = encoder.info, local_file(path)
    page = read_page_of(file, PageRef("example", number), pixels=info.render_pixels, ocr=info.reads == "words")
    return page_vectors(store, encoder, page, f"{display_path(path)} page {number}")


def page_vectors(store: PageStore, encoder: Encoder, page: Page, name: str) -> Float32:
    """Return a page's vectors as the index would store them before rounding, (P, d) float32.

    Args:
        store: The index.
        encoder: The encoder that made it.
        page: As the encoder reads pages: with words or an image.
        name: What to call it in messages.

    Raises:
        StoreError: If the index is another encoder's.
        DocumentError: If the page has nothing to encode.
        ModelError: If the encoder fails.
    """
    store.check_encoder(encoder.info)
    [embedding] = encoder.encode_pages([page])
    if not len(embedding.vectors):
        raise DocumentError(name, "holds nothing that the model reads", "give another page", reason="page_unreadable")
    return Compression(matrix=store.projection()).page(embedding).vectors


def stored_vectors(store: PageStore, ref: PageRef) -> Float32:
    """Return a page's vectors as the index stores them, (P, d) float32.

    Raises:
        StoreError: If it does not hold the page.
    """

    def read() -> Float32:
        table = store.page_table()
        document = table.doc_ids.index(ref.doc_id) if ref.doc_id in table.doc_ids else -1
        places = np.flatnonzero((table.documents == document) & (table.numbers == ref.number))
        if not len(places):
            paths = store.paths([ref.doc_id]).get(ref.doc_id)
            name = f"{ref.number} of {paths[0]}" if paths else ref.page_id
            raise StoreError(store.location, f"does not hold page {name}", "see: colret list")
        return float_vectors(store.vectors(places), 0)

    return fresh(store, read)


def search_vectors(
    store: PageStore,
    vectors: Float32,
    *,
    k: int = 10,
    scope: Scope = EVERYWHERE,
    device: str = "cpu",
    leave_out: PageRef | None = None,
) -> Ranking:
    """Return the ``k`` pages with the highest mean similarity to a page's vectors.

    Args:
        store: The index.
        vectors: (P, d) float32 unit rows in the stored dimensions.
        k: Pages to return.
        scope: Which pages may be found.
        device: Where MaxSim is computed for the choice of candidates.
        leave_out: A page that is not to be found.

    Raises:
        ValueError, FilterError: As ``search.rank``.
    """
    if k < 1:
        raise ValueError("k must be at least 1")
    query = sample_query(store, vectors)
    [ranking] = rank(store, [query], k=max(k, CANDIDATES) + 1, scope=scope, device=device)
    hits = [hit for hit in ranking.hits if hit.ref != leave_out]
    n_left_out = len(ranking.hits) - len(hits)
    scored = fresh(store, lambda: _scores(store, evenly(vectors, MOST_VECTORS), hits))
    hits = [
        hit._replace(score=min(total / min(len(vectors), MOST_VECTORS), 1.0), maxsim=total)
        for hit, total in zip(hits, scored, strict=True)
    ]
    best = sorted(hits, key=lambda hit: (-hit.maxsim, hit.ref))[:k]
    return ranking._replace(hits=best, n_pages=ranking.n_pages - n_left_out, n_scored=ranking.n_scored - n_left_out)


def sample_query(store: PageStore, vectors: Float32) -> QueryEmbedding:
    """Return a few of a page's vectors as a query, in the encoder's dimensions as queries are.

    Args:
        store: The index.
        vectors: (P, d) float32 unit rows in the stored dimensions.
    """
    matrix, sample = store.projection(), evenly(vectors, SAMPLE_VECTORS)
    # Orthonormal columns: ``rank``, which projects queries, gets back what was stored.
    return QueryEmbedding(sample if matrix is None else sample @ matrix.T, ("",) * len(sample))


def evenly(vectors: Float32, n: int) -> Float32:
    """Return at most ``n`` rows, evenly spread from the first to the last."""
    return vectors if len(vectors) <= n else vectors[np.arange(n) * (len(vectors) - 1) // (n - 1)]


def _scores(store: PageStore, vectors: Float32, hits: Sequence[Hit]) -> list[float]:
    """Return the MaxSim of pages with all of an example's vectors."""
    if not hits:
        return []
    totals: list[float] = maxsim(vectors, store.vectors(places_of(store, hits))).tolist()
    return totals
