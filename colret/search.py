"""Search: a single-vector prefilter, then MaxSim on what it keeps.

A page's rank depends on the query and the index alone: scores come from the stored vectors,
never from the database, and equal scores are ordered by page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np

from colret.codecs import decode
from colret.database import StaleReadError
from colret.encoders import Encoder
from colret.errors import StoreError
from colret.scoring import maxsim, mean_direction
from colret.snippets import snippet, word_weights
from colret.store import PageStore
from colret.types import Candidate, Float32, Hit, Multivectors, QueryEmbedding

DEFAULT_CANDIDATES: Final = 500
"""Pages that the prefilter keeps. An index of no more pages is searched exactly."""

_BLOCK_PAGES = 256  # pages in memory at a time
_QUERIES_TOGETHER = 64  # that share reads, and whose candidates are in memory
_ATTEMPTS = 4  # at reading what another process may be compacting

Result = TypeVar("Result")


class Ranking(NamedTuple):
    """The best pages for one query, and the field they won against."""

    hits: list[Hit]  # best first
    n_pages: int  # N, all that could have won
    n_scored: int  # by MaxSim: N, or what the prefilter kept


class Explanation(NamedTuple):
    """What a person wants to know of a hit."""

    paths: list[str]  # files that hold the page
    snippet: str  # its words around what matched


def search(
    store: PageStore,
    encoder: Encoder,
    texts: Sequence[str],
    *,
    k: int = 10,
    n_candidates: int | None = DEFAULT_CANDIDATES,
    device: str = "cpu",
) -> list[Ranking]:
    """Return the best ``k`` pages for each text.

    Args:
        store: The index.
        encoder: The encoder that made it.
        texts: Queries.
        k: Pages to return; an index of fewer returns them all.
        n_candidates: Pages that the prefilter keeps for MaxSim, at least ``k``; None scores
            every page.
        device: Where MaxSim is computed.

    Raises:
        ValueError: If ``k`` or ``n_candidates`` is below 1, or a text has no tokens.
        StoreError: If the index is another encoder's, or holds no pages.
    """
    store.check_encoder(encoder.info)
    return rank(store, encoder.encode_queries(texts), k=k, n_candidates=n_candidates, device=device)


def rank(
    store: PageStore,
    queries: Sequence[QueryEmbedding],
    *,
    k: int = 10,
    n_candidates: int | None = DEFAULT_CANDIDATES,
    device: str = "cpu",
) -> list[Ranking]:
    """Return the best ``k`` pages for each encoded query; arguments as for ``search``."""
    if k < 1 or (n_candidates is not None and n_candidates < 1):
        raise ValueError("k and the number of candidates must be at least 1")
    return _fresh(store, lambda: _rank(store, queries, k, n_candidates, device))


def _rank(
    store: PageStore, queries: Sequence[QueryEmbedding], k: int, n_candidates: int | None, device: str
) -> list[Ranking]:
    n_pages = store.n_pages()
    if not n_pages:
        raise StoreError(store.path, "holds no pages", "add some with: colret ingest FOLDER")
    n_kept = n_pages if n_candidates is None else max(n_candidates, k)
    every_page = store.candidates() if n_kept >= n_pages else None
    rankings = []
    for start in range(0, len(queries), _QUERIES_TOGETHER):
        group = queries[start : start + _QUERIES_TOGETHER]
        kept = [every_page or sorted(store.nearest(mean_direction(query.vectors), n_kept)) for query in group]
        scores = _score(store, group, kept, device)
        rankings += [
            Ranking(_best(query, pages, row, k), n_pages, len(pages))
            for query, pages, row in zip(group, kept, scores, strict=True)
        ]
    return rankings


def _fresh(store: PageStore, read: Callable[[], Result]) -> Result:
    """Read from the index as it is now; again if another process compacted it meanwhile."""
    for attempt in range(_ATTEMPTS):
        store.refresh()
        try:
            return read()
        except StaleReadError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def explain(store: PageStore, query: QueryEmbedding, hits: Sequence[Hit]) -> list[Explanation]:
    """Look up each hit's paths and cut a snippet around what matched.

    Raises:
        StoreError: If a hit's page has been removed since it was found.
    """
    return _fresh(store, lambda: _explain(store, query, hits))


def _explain(store: PageStore, query: QueryEmbedding, hits: Sequence[Hit]) -> list[Explanation]:
    paths = store.paths([hit.ref.doc_id for hit in hits])
    vectors = read_vectors(store, [Candidate(hit.ref, hit.row_id) for hit in hits])
    details = store.details([hit.row_id for hit in hits])
    return [
        Explanation(
            paths[hit.ref.doc_id],
            snippet(page.words, word_weights(query, vectors.page(i), page.boxes, page.words)),
        )
        for i, (hit, page) in enumerate(zip(hits, details, strict=True))
    ]


def single_vector_rank(store: PageStore, queries: Sequence[QueryEmbedding], *, k: int = 10) -> list[list[Candidate]]:
    """Return the best ``k`` pages for each query by single vectors alone: the baseline, and the prefilter."""
    return _fresh(store, lambda: [store.nearest(mean_direction(query.vectors), k) for query in queries])


def read_vectors(store: PageStore, pages: Sequence[Candidate]) -> Multivectors:
    """Return the stored vectors of pages, ready for scoring."""
    return decode(store.vectors([page.row_id for page in pages]), store.settings.dim, store.settings.codec)


def _score(
    store: PageStore, queries: Sequence[QueryEmbedding], kept: Sequence[Sequence[Candidate]], device: str
) -> list[Float32]:
    """Return the MaxSim of each query with each page kept for it; a page is read once for all queries.

    A page's score does not depend on what else is scored, so sharing the reads changes nothing.
    """
    pages = sorted(set().union(*kept))
    place = {page: i for i, page in enumerate(pages)}
    places = [np.array([place[page] for page in each], np.int64) for each in kept]  # ascending, as kept is sorted
    scores = [np.empty(len(each), np.float32) for each in kept]
    for start in range(0, len(pages), _BLOCK_PAGES):
        block = read_vectors(store, pages[start : start + _BLOCK_PAGES])
        for query, own, row in zip(queries, places, scores, strict=True):
            first, last = np.searchsorted(own, [start, start + len(block)])
            if first < last:
                row[first:last] = maxsim(query.vectors, block.select(own[first:last] - start), device=device)
    return scores


def _best(query: QueryEmbedding, pages: Sequence[Candidate], scores: Float32, k: int) -> list[Hit]:
    """Rank pages, given in page order: a stable sort then breaks ties by page."""
    n_tokens = len(query.vectors)
    order = np.argsort(-scores, kind="stable")[:k]
    return [
        Hit(pages[i].ref, min(float(scores[i]) / n_tokens, 1.0), float(scores[i]), pages[i].row_id)
        for i in order.tolist()
    ]
