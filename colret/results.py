"""What a search of ``colret.open`` returns: pages, and why they were found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING

from colret import types
from colret.characters import running_text
from colret.encoders import Encoder
from colret.evidence import Evidence, find_evidence
from colret.lanes import Lane
from colret.matches import TokenMatch
from colret.originals import find_original
from colret.overlay import MAX_SIDE, MIN_SIDE
from colret.page_images import page_image
from colret.regions import Region
from colret.search import Explanation, Ranking
from colret.store import PageStore
from colret.types import QueryEmbedding
from colret.verdicts import Verdict

if TYPE_CHECKING:
    from PIL.Image import Image


class Asked:
    """A query of an index and where its hits look things up, one at a time.

    Args:
        store: The index.
        encoder: The encoder that made it.
        lock: Of the store and the encoder.
        embed: Encodes the query; called when something wants its vectors.
    """

    def __init__(
        self, store: PageStore, encoder: Encoder, lock: threading.RLock, embed: Callable[[], QueryEmbedding]
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._lock = lock
        self._embed = cache(embed)

    def evidence(self, hits: Sequence[types.Hit], *, again: bool = True) -> list[Evidence]:
        """Return what of hits' pages matches; ``again``: encode a page again where its boxes were pooled away."""
        with self._lock:
            encoder = self._encoder if again else None
            return find_evidence(self._store, self._embed(), hits, encoder=encoder)

    def draw(self, hit: types.Hit, size: int, evidence: Evidence | None, token: int | None, full: float) -> Image:
        """Return the image of a hit's page, read from its file."""
        with self._lock:
            path = find_original(self._store, hit.ref.doc_id)
        return page_image(path, hit.ref, size=size, evidence=evidence, token=token, full=full)


@dataclass(frozen=True)
class Hit:
    """One page that was found.

    Its regions, tokens and image are looked up when they are first asked for, from the index as
    it is then; the image needs the file as it was ingested.
    """

    rank: int  # from 1
    file: str  # absolute path; the first of ``paths``
    page: int  # physical, from 1
    score: float  # what it is ranked by, higher is better: see ``lanes``
    snippet: str  # words around what matched
    highlights: tuple[tuple[int, int], ...]  # what matched, in characters of the snippet: start, end
    paths: tuple[str, ...]  # all files that hold this content
    page_id: str
    maxsim: float  # sum over query tokens of the best similarity; 0 in the text lane
    bm25: float  # as a share of its upper bound; 0 in the visual lane
    contents_page: bool  # a list of contents, demoted where words are read
    below_floor: bool  # probably no answer: see ``Results.verdict``
    _asked: Asked = field(repr=False, compare=False)
    _ranked: types.Hit = field(repr=False, compare=False)
    _first: types.Hit = field(repr=False, compare=False)

    @property
    def doc_id(self) -> str:
        """The document's id, the same for all of its pages."""
        return self._ranked.ref.doc_id

    @cached_property
    def evidence(self) -> Evidence:
        """What of the page matched; in the text lane this loads the model.

        Raises:
            StoreError: If the page has been removed from the index.
            ModelError: If the model cannot be loaded.
        """
        [found] = self._asked.evidence([self._ranked])
        return found

    @property
    def regions(self) -> tuple[Region, ...]:
        """At most four rectangles in points that matched, that which contributes most first."""
        return self.evidence.regions

    @property
    def tokens(self) -> list[TokenMatch]:
        """The query's tokens, each with its best similarity on the page and where that is."""
        return self.evidence.tokens

    @property
    def text(self) -> str:
        """The page's words in reading order, spaces between them where their script has any."""
        return running_text(self.evidence.page.words.texts)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the page in points, as displayed."""
        return self.evidence.page.width, self.evidence.page.height

    def image(self, *, overlay: bool = True, token: int | None = None, size: int = 1200) -> Image:
        """Return the page's image, RGB.

        Args:
            overlay: Whether to draw heat and regions on it; heat is normalised per query, so that
                the first hit is the hottest as a rule.
            token: Index of the one of ``tokens`` whose heat to draw; by default that of all.
            size: Long side in pixels.

        Raises:
            ValueError: If ``size`` or ``token`` is out of range.
            DocumentError: If no file holds the page any more, or it cannot be read.
        """
        if not MIN_SIDE <= size <= MAX_SIDE:
            raise ValueError(f"size is from {MIN_SIDE} to {MAX_SIDE} pixels, not {size}")
        if token is not None and not 0 <= token < len(self.tokens):
            raise ValueError(f"there are {len(self.tokens)} tokens that have a place: {token} is none of their indices")
        if not overlay:
            return self._asked.draw(self._ranked, size, None, None, 0.0)
        first = self.evidence if self._first == self._ranked else self._asked.evidence([self._first], again=False)[0]
        return self._asked.draw(self._ranked, size, self.evidence, token, first.matches.strength)


@dataclass(frozen=True)
class Results:
    """The best pages for one query, best first, and the field they won against; a sequence of hits."""

    query: str
    hits: tuple[Hit, ...]
    n_pages: int  # that could have won
    n_scored: int  # of them
    lane: Lane  # what they are ranked by
    verdict: Verdict | None  # whether any page answers; None for a query by example

    def __len__(self) -> int:
        """Return the number of hits."""
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        """Yield the hits, best first."""
        return iter(self.hits)

    def __getitem__(self, place: int) -> Hit:
        """Return the hit at ``place``, from 0."""
        return self.hits[place]

    def evidence(self, most: int | None = None) -> list[Evidence]:
        """Return what of each hit's page matched, all of it read at once and no page encoded again.

        Args:
            most: Of the first so many hits; by default of all.

        Raises:
            StoreError: If a page has been removed from the index.
            ModelError: If the model cannot be loaded.
        """
        if not self.hits:
            return []
        return self.hits[0]._asked.evidence([hit._ranked for hit in self.hits[:most]], again=False)


def results_of(
    text: str, ranking: Ranking, explanations: Sequence[Explanation], verdict: Verdict | None, asked: Asked
) -> Results:
    """Return a ranking as programs use it.

    Args:
        text: The query, or what stands for it.
        ranking: What it found.
        explanations: Of each hit.
        verdict: On the ranking.
        asked: The query, for what hits look up later.
    """
    below = verdict.below if verdict else (False,) * len(ranking.hits)
    hits = tuple(
        Hit(
            rank=rank,
            file=explained.paths[0],
            page=hit.ref.number,
            score=hit.score,
            snippet=explained.snippet,
            highlights=explained.highlights,
            paths=tuple(explained.paths),
            page_id=hit.ref.page_id,
            maxsim=hit.maxsim,
            bm25=hit.bm25,
            contents_page=hit.contents,
            below_floor=is_below,
            _asked=asked,
            _ranked=hit,
            _first=ranking.hits[0],
        )
        for rank, (hit, explained, is_below) in enumerate(zip(ranking.hits, explanations, below, strict=True), start=1)
    )
    return Results(text, hits, ranking.n_pages, ranking.n_scored, ranking.lane, verdict)
