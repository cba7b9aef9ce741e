"""Search: candidate pages are chosen, then scored by their stored vectors, their words, or both.

A page's rank depends on the query and the index alone: scores come from what is stored, never
from the database, and equal scores are ordered by page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from colret.compression import Compression
from colret.database import StaleReadError
from colret.encoders import Encoder
from colret.errors import FilterError, StoreError
from colret.filters import page_mask
from colret.lane_scoring import LaneScoring
from colret.lanes import LANES, Lane, default_lane
from colret.matches import match
from colret.prefilter import DEFAULT_PREFILTER, SMALL, Prefilter
from colret.rescoring import StageSeconds as StageSeconds
from colret.scoring import float_vectors, mean_direction
from colret.snippets import snippet, word_weights
from colret.store import PageStore
from colret.text_lane import TextLane, unquoted
from colret.types import Candidate, Hit, Int64, PageDetails, QueryEmbedding

DEFAULT_CANDIDATES: Final = 100
"""Pages that the prefilter keeps for MaxSim."""

RECENT_SECONDS: Final = 1.0
"""Within which a search may miss what was committed to an index in an object store."""

LONGEST_QUERY: Final = 10_000
"""Characters of a query, some 1,500 words: time and memory grow with it."""

_QUERIES_TOGETHER = 64  # that share reads
_ATTEMPTS = 4  # at reading what another process may be compacting

Result = TypeVar("Result")


class Ranking(NamedTuple):
    """The best pages for one query, and the field they won against."""

    hits: list[Hit]  # best first
    n_pages: int  # N, all that could have won: those with the quoted phrases, in lanes that read words
    n_scored: int  # N, or how many were candidates
    lane: Lane = "visual"


class Explanation(NamedTuple):
    """What a person wants to know of a hit."""

    paths: list[str]  # files that hold the page
    snippet: str  # its words around what matched
    highlights: tuple[tuple[int, int], ...] = ()  # what matched, in characters of the snippet: start, end


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pages may be found; by default all."""

    where: str | None = None  # an SQL condition: see ``filters``
    docs: tuple[str, ...] = ()  # globs, paths or ids of documents


def embed(store: PageStore, encoder: Encoder, texts: Sequence[str]) -> list[QueryEmbedding]:
    """Encode queries with the encoder that made the index, without the marks around quoted phrases.

    Raises:
        ValueError: If a text has no tokens, or more than ``LONGEST_QUERY`` characters.
        StoreError: If the index is another encoder's.
    """
    _refuse_long(texts)
    store.check_encoder(encoder.info)
    embeddings = encoder.encode_queries([unquoted(text) for text in texts])
    return [replace(embedding, text=text) for embedding, text in zip(embeddings, texts, strict=True)]


def _refuse_long(texts: Sequence[str]) -> None:
    longest = max(map(len, texts), default=0)
    if longest > LONGEST_QUERY:
        raise ValueError(f"a query has at most {LONGEST_QUERY:,} characters, not {longest:,}: ask for less of it")


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
    lane: Lane | None = None,
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
        lane: What pages are ranked by; by default ``lanes.default_lane``. In the lanes that read
            words, only pages with all quoted phrases can be found, the ``n_candidates`` best by
            BM25 are candidates too, and the text lane leaves out pages without a word in common.

    Raises:
        ValueError: If ``k`` or ``n_candidates`` is below 1, the prefilter or lane is unknown, or a
            text has no tokens or too many characters.
        StoreError: If the index is another encoder's, or holds no pages.
        ColretError: If the scope is no condition, or names no document.
    """
    lane = lane or default_lane(store.settings)
    embeddings = words_only(texts) if lane == "text" else embed(store, encoder, texts)
    return rank(
        store,
        embeddings,
        k=k,
        prefilter=prefilter,
        n_candidates=n_candidates,
        scope=scope,
        device=device,
        lane=lane,
    )


def words_only(texts: Sequence[str]) -> list[QueryEmbedding]:
    """Return queries for the text lane, which needs no encoder.

    Raises:
        ValueError: If a text has more than ``LONGEST_QUERY`` characters.
    """
    _refuse_long(texts)
    return [QueryEmbedding(np.empty((0, 0), np.float32), (), text) for text in texts]


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
    lane: Lane = "visual",
) -> list[Ranking]:
    """Return the best ``k`` pages for each encoded query.

    Arguments as for ``search``; ``seconds``, if given, is told where the time went.
    """
    if k < 1 or (n_candidates is not None and n_candidates < 1):
        raise ValueError("k and the number of candidates must be at least 1")
    if lane not in LANES:
        raise ValueError(f"{lane!r} is no lane: there are {', '.join(LANES)}")
    if prefilter is None and n_candidates is not None:
        prefilter = DEFAULT_PREFILTER
    chosen = None if prefilter is None else Prefilter.parse(prefilter)
    if (lane != "visual" or (chosen and chosen.text)) and not all(query.text for query in queries):
        raise ValueError(f"{'a prefilter' if lane == 'visual' else 'a lane'} by words needs queries with their text")
    n_kept = max(n_candidates or DEFAULT_CANDIDATES, k)
    spent = seconds or StageSeconds()

    def read() -> list[Ranking]:
        allowed = pages_in_scope(store, scope)
        plan = chosen or Prefilter.parse("none" if len(allowed) <= SMALL else DEFAULT_PREFILTER)
        with spent.adding("prefilter"):
            scoring = LaneScoring(store, lane, plan, n_kept, len(allowed))
        rankings = []
        for start in range(0, len(queries), _QUERIES_TOGETHER):
            group = scoring.projected(queries[start : start + _QUERIES_TOGETHER])
            with spent.adding("prefilter"):
                eligible = [scoring.eligible(query, allowed) for query in group]
                kept = [scoring.candidates(*each) for each in zip(group, eligible, strict=True)]
            scored = scoring.scores(group, kept, device, spent)
            rankings += [
                Ranking(scoring.best(query, places, scores, k), len(own), len(places), lane)
                for query, own, places, scores in zip(group, eligible, kept, scored, strict=True)
            ]
        return rankings

    return fresh(store, read)


def pages_in_scope(store: PageStore, scope: Scope) -> Int64:
    """Return the places of the pages that may be found, ascending; at least one.

    Raises:
        StoreError: If the index holds no pages.
        FilterError: If the scope is no condition, names no document, or no page satisfies it.
    """
    table = store.page_table()
    if not len(table):
        raise StoreError(store.location, "holds no pages", "add some with: colret ingest FOLDER")
    mask = None if scope == Scope() else page_mask(table.as_arrow(), store.documents(), **asdict(scope))
    if mask is None:
        return np.arange(len(table))
    if not mask.any():
        raise FilterError(scope.where or ", ".join(scope.docs), "no page satisfies it", "see: colret list")
    return np.flatnonzero(mask)


def fresh(store: PageStore, read: Callable[[], Result]) -> Result:
    """Read from the index as it is now; again if another process compacted it meanwhile."""
    for attempt in range(_ATTEMPTS):
        store.refresh(within=0 if attempt else RECENT_SECONDS)
        try:
            return read()
        except StaleReadError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def places_of(store: PageStore, pages: Sequence[Hit | Candidate]) -> Int64:
    """Return the places of pages that were found earlier.

    Raises:
        StoreError: If one has been removed since.
    """
    places = store.page_table().places(page.row_id for page in pages)
    if len(places) < len(pages):
        raise StoreError(store.location, f"{len(pages) - len(places)} of the pages found are gone", "search again")
    return places


def explain(store: PageStore, query: QueryEmbedding, hits: Sequence[Hit]) -> list[Explanation]:
    """Look up each hit's paths and cut a snippet around what matched.

    Raises:
        StoreError: If a hit's page has been removed since it was found.
    """
    return fresh(store, lambda: _explain(store, query, hits))


def _explain(store: PageStore, query: QueryEmbedding, hits: Sequence[Hit]) -> list[Explanation]:
    if not hits:
        return []
    places = places_of(store, hits)
    paths = store.paths([hit.ref.doc_id for hit in hits])
    details = store.details([hit.row_id for hit in hits])
    if len(query.vectors):
        weights = _matched(store, query, places, details)
    else:
        words = TextLane(store)
        weights = [words.word_weights(query.text, page.words) for page in details]
    return [
        Explanation(paths[hit.ref.doc_id], *snippet(page.words, row))
        for hit, page, row in zip(hits, details, weights, strict=True)
    ]


def _matched(
    store: PageStore, query: QueryEmbedding, places: Int64, details: Sequence[PageDetails]
) -> list[NDArray[np.float64]]:
    """Return how much each word of the pages did for the query's MaxSim."""
    query = Compression(matrix=store.projection()).query(query)
    vectors = store.vectors(places)
    template = store.settings.query_template
    matches = (match(query, float_vectors(vectors, i), page.boxes, template=template) for i, page in enumerate(details))
    return [word_weights(found, page.words) for found, page in zip(matches, details, strict=True)]


def single_vector_rank(store: PageStore, queries: Sequence[QueryEmbedding], *, k: int = 10) -> list[list[Candidate]]:
    """Return the best ``k`` pages for each query by single vectors alone: the baseline."""

    def read() -> list[list[Candidate]]:
        compression = Compression(matrix=store.projection())
        directions = [mean_direction(compression.query(query).vectors) for query in queries]
        return [store.nearest(direction, k, exact=True) for direction in directions]

    return fresh(store, read)
