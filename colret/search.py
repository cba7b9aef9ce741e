"""Search: a prefilter chooses candidate pages, then MaxSim on their stored vectors ranks them.

A page's rank depends on the query and the index alone: scores come from the stored vectors,
never from the database, and equal scores are ordered by page.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Final, NamedTuple, TypeVar

import numpy as np

from colret.codecs import bytes_per_vector
from colret.compression import Compression
from colret.database import StaleReadError
from colret.encoders import Encoder
from colret.errors import FilterError, StoreError
from colret.filters import page_mask
from colret.prefilter import DEFAULT_PREFILTER, NO_PREFILTER, SMALL, Prefilter, Prefiltering
from colret.scoring import float_vectors, maxsim, mean_direction
from colret.snippets import snippet, word_weights
from colret.store import PageStore
from colret.types import Candidate, Float32, Hit, Int64, Multivectors, QueryEmbedding

DEFAULT_CANDIDATES: Final = 100
"""Pages that the prefilter keeps for MaxSim."""

_AT_ONCE_BYTES = 30_000_000  # of codes that are read in one go: a thread would cost more than it saves
_BLOCK_BYTES = 8_000_000  # of more, read together: larger buffers go back to the system after each read
_READS_AHEAD = 2  # blocks read while another is scored
_QUERIES_TOGETHER = 64  # that share reads
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


@dataclass(slots=True)
class StageSeconds:
    """Where the time of a search went, in wall-clock seconds."""

    prefilter: float = 0.0
    fetch: float = 0.0  # waiting for stored vectors that were not there yet
    rescore: float = 0.0

    @contextmanager
    def adding(self, stage: str) -> Iterator[None]:
        """Add the time of a block to ``stage``."""
        started = time.perf_counter()
        yield
        setattr(self, stage, getattr(self, stage) + time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pages may be found; by default all."""

    where: str | None = None  # an SQL condition: see ``filters``
    docs: tuple[str, ...] = ()  # globs, paths or ids of documents


def embed(store: PageStore, encoder: Encoder, texts: Sequence[str]) -> list[QueryEmbedding]:
    """Encode queries with the encoder that made the index.

    Raises:
        ValueError: If a text has no tokens.
        StoreError: If the index is another encoder's.
    """
    store.check_encoder(encoder.info)
    embeddings = encoder.encode_queries(texts)
    return [replace(embedding, text=text) for embedding, text in zip(embeddings, texts, strict=True)]


def search(
    store: PageStore,
    encoder: Encoder,
    texts: Sequence[str],
    *,
    k: int = 10,
    prefilter: str | None = None,
    n_candidates: int | None = None,
    scope: Scope = Scope(),
    device: str = "cpu",
) -> list[Ranking]:
    """Return the best ``k`` pages for each text.

    Args:
        store: The index.
        encoder: The encoder that made it.
        texts: Queries.
        k: Pages to return; an index of fewer returns them all.
        prefilter: How candidates are chosen: see ``prefilter``. By default, where neither this
            nor ``n_candidates`` is given, not at all among at most ``SMALL`` pages; else by
            ``DEFAULT_PREFILTER``.
        n_candidates: Pages that the prefilter keeps for MaxSim, at least ``k``; by default
            ``DEFAULT_CANDIDATES``.
        scope: Which pages may be found.
        device: Where MaxSim is computed.

    Raises:
        ValueError: If ``k`` or ``n_candidates`` is below 1, the prefilter is unknown, or a text
            has no tokens.
        StoreError: If the index is another encoder's, or holds no pages.
        ColretError: If the scope is no condition, or names no document.
    """
    embeddings = embed(store, encoder, texts)
    return rank(store, embeddings, k=k, prefilter=prefilter, n_candidates=n_candidates, scope=scope, device=device)


def rank(
    store: PageStore,
    queries: Sequence[QueryEmbedding],
    *,
    k: int = 10,
    prefilter: str | None = None,
    n_candidates: int | None = None,
    scope: Scope = Scope(),
    device: str = "cpu",
    seconds: StageSeconds | None = None,
) -> list[Ranking]:
    """Return the best ``k`` pages for each encoded query.

    Arguments as for ``search``; ``seconds``, if given, is told where the time went.
    """
    if k < 1 or (n_candidates is not None and n_candidates < 1):
        raise ValueError("k and the number of candidates must be at least 1")
    if prefilter is None and n_candidates is not None:
        prefilter = DEFAULT_PREFILTER
    chosen = None if prefilter is None else Prefilter.parse(prefilter)
    if chosen and chosen.text and not all(query.text for query in queries):
        raise ValueError("a prefilter by words needs queries with their text: see embed")
    n_kept = max(n_candidates or DEFAULT_CANDIDATES, k)
    spent = seconds or StageSeconds()

    def read() -> list[Ranking]:
        projected = [Compression(matrix=store.projection()).query(query) for query in queries]
        allowed = pages_in_scope(store, scope)
        plan = chosen or Prefilter.parse("none" if len(allowed) <= SMALL else DEFAULT_PREFILTER)
        with spent.adding("prefilter"):
            stages = Prefiltering(store, plan, n_kept) if plan != NO_PREFILTER and n_kept < len(allowed) else None
        rankings = []
        for start in range(0, len(queries), _QUERIES_TOGETHER):
            group = projected[start : start + _QUERIES_TOGETHER]
            with spent.adding("prefilter"):
                kept = [stages.candidates(query, allowed) if stages else allowed for query in group]
            scores = _score(store, group, kept, device, spent)
            rankings += [
                Ranking(_best(store, query, places, row, k), len(allowed), len(places))
                for query, places, row in zip(group, kept, scores, strict=True)
            ]
        return rankings

    return _fresh(store, read)


def pages_in_scope(store: PageStore, scope: Scope) -> Int64:
    """Return the places of the pages that may be found, ascending; at least one.

    Raises:
        StoreError: If the index holds no pages.
        FilterError: If the scope is no condition, names no document, or no page satisfies it.
    """
    table = store.page_table()
    if not len(table):
        raise StoreError(store.path, "holds no pages", "add some with: colret ingest FOLDER")
    mask = None if scope == Scope() else page_mask(table.as_arrow(), store.documents(), **asdict(scope))
    if mask is None:
        return np.arange(len(table))
    if not mask.any():
        raise FilterError(scope.where or ", ".join(scope.docs), "no page satisfies it", "see: colret list")
    return np.flatnonzero(mask)


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
    if not hits:
        return []
    places = store.page_table().places(hit.row_id for hit in hits)
    if len(places) < len(hits):
        raise StoreError(store.path, f"{len(hits) - len(places)} of the pages found are gone", "search again")
    query = Compression(matrix=store.projection()).query(query)
    paths = store.paths([hit.ref.doc_id for hit in hits])
    vectors = store.vectors(places)
    details = store.details([hit.row_id for hit in hits])
    return [
        Explanation(
            paths[hit.ref.doc_id],
            snippet(page.words, word_weights(query, float_vectors(vectors, i), page.boxes, page.words)),
        )
        for i, (hit, page) in enumerate(zip(hits, details, strict=True))
    ]


def single_vector_rank(store: PageStore, queries: Sequence[QueryEmbedding], *, k: int = 10) -> list[list[Candidate]]:
    """Return the best ``k`` pages for each query by single vectors alone: the baseline."""

    def read() -> list[list[Candidate]]:
        compression = Compression(matrix=store.projection())
        directions = [mean_direction(compression.query(query).vectors) for query in queries]
        return [store.nearest(direction, k, exact=True) for direction in directions]

    return _fresh(store, read)


def _score(
    store: PageStore, queries: Sequence[QueryEmbedding], kept: Sequence[Int64], device: str, spent: StageSeconds
) -> list[Float32]:
    """Return the MaxSim of each query with each page kept for it; a page is read once for all queries.

    A page's score does not depend on what else is scored, so sharing the reads changes nothing.
    """
    places = np.unique(np.concatenate(kept))
    own = [np.searchsorted(places, each) for each in kept]  # ascending, as kept is
    scores = [np.empty(len(each), np.float32) for each in kept]
    blocks = _read_ahead(store, places)
    start = 0
    while start < len(places):
        with spent.adding("fetch"):
            block = next(blocks)
        with spent.adding("rescore"):
            for query, mine, row in zip(queries, own, scores, strict=True):
                first, last = np.searchsorted(mine, [start, start + len(block)])
                if first < last:
                    rows = mine[first:last] - start
                    row[first:last] = maxsim(query.vectors, block, rows=rows, device=device)
        start += len(block)
    return scores


def _read_ahead(store: PageStore, places: Int64) -> Iterator[Multivectors]:
    """Yield the vectors of pages block by block, reading the next ones meanwhile."""
    width = bytes_per_vector(store.settings.stored_dim, store.settings.codec)
    ends = np.cumsum(store.page_table().n_vectors[places] * width)
    if ends[-1] <= _AT_ONCE_BYTES:
        yield store.vectors(places)
        return
    chunks = np.split(places, np.flatnonzero(np.diff(ends // _BLOCK_BYTES)) + 1)
    with ThreadPoolExecutor(_READS_AHEAD) as readers:
        coming = deque(readers.submit(store.vectors, chunk) for chunk in chunks[:_READS_AHEAD])
        for chunk in chunks[_READS_AHEAD:]:
            ready = coming.popleft().result()
            coming.append(readers.submit(store.vectors, chunk))
            yield ready
        while coming:
            yield coming.popleft().result()


def _best(store: PageStore, query: QueryEmbedding, places: Int64, scores: Float32, k: int) -> list[Hit]:
    """Rank pages, given in page order: a stable sort then breaks ties by page."""
    n_tokens = len(query.vectors)
    order = np.argsort(-scores, kind="stable")[:k]
    return [
        Hit(page.ref, min(score / n_tokens, 1.0), score, page.row_id)
        for page, score in zip(store.page_table().candidates(places[order]), scores[order].tolist(), strict=True)
    ]
