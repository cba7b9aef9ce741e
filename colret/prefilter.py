"""Prefilters: cheap scores that choose the pages worth MaxSim on their stored vectors.

A prefilter is one or more stages, joined by ``+``. Each stage but ``text`` scores what the one
before it kept, and keeps less; ``text`` adds the pages that BM25 finds best.

========= =====================================================================================
single    the page's one mean vector (LanceDB: flat, or its ANN index where one was built)
sketch    MaxSim on the signs of the means of 32 contiguous blocks of the page's vectors
binary    MaxSim on the signs of the page's vectors
text      BM25 on the page's words
none      every page is scored
========= =====================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from colret import ann
from colret.scoring import mean_direction
from colret.signatures import KINDS, Kind, Signatures, is_used, merge_segments, open_signatures
from colret.store import PageStore
from colret.text_lane import TextLane
from colret.types import Float32, Int64, QueryEmbedding

NARROWING: Final[dict[str, Kind | None]] = {"single": None, "sketch": "sketch", "binary": "bits"}
TEXT: Final = "text"

DEFAULT_PREFILTER: Final = "binary"

SMALL: Final = 500
"""Pages of an index that is searched exactly unless a prefilter is asked for: it takes no longer."""

WIDER: Final = 20
EARLY_SHARE: Final = 0.2
"""A stage before the last keeps this many times what the last one does, and this share of all pages."""

_SIGNS_FIRST: Final = 4  # times what is kept, by the signs of the query too, before its real values choose


@dataclass(frozen=True, slots=True)
class Prefilter:
    """Stages that narrow, in order, and whether words may add pages."""

    stages: tuple[str, ...]
    text: bool = False

    @classmethod
    def parse(cls, name: str) -> Prefilter:
        """Return the prefilter that ``name`` says, such as ``"single+binary"``.

        Raises:
            ValueError: If a part of it is no stage.
        """
        parts = [] if name == "none" else name.split("+")
        for part in parts:
            if part not in (*NARROWING, TEXT):
                known = ", ".join([*NARROWING, TEXT])
                raise ValueError(f"{name!r} is no prefilter: there are {known}, a+b for one after another, and none")
        if len(set(parts)) < len(parts):
            raise ValueError(f"{name!r} names a stage twice")
        return cls(tuple(part for part in parts if part != TEXT), TEXT in parts)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The signatures that it scans."""
        return tuple(kind for stage in self.stages if (kind := NARROWING[stage]))


NO_PREFILTER: Final = Prefilter(())


def prepare(store: PageStore) -> None:
    """Make ready what prefilters look at; under ``store.writing()``, after pages were added or removed."""
    store.update_indexes()
    ann.update(store)
    wanted = Prefilter.parse(DEFAULT_PREFILTER).kinds if store.n_pages() > SMALL else ()
    for kind in KINDS:
        if kind in wanted or is_used(store, kind):
            merge_segments(store, kind)


class Prefiltering:
    """A prefilter over the visible pages of an index, as of its last refresh."""

    def __init__(self, store: PageStore, prefilter: Prefilter, n_kept: int) -> None:
        self._store = store
        self._prefilter = prefilter
        self._n_kept = n_kept
        self._text_lane = TextLane(store)
        self._signatures: dict[Kind, Signatures] = {kind: open_signatures(store, kind) for kind in prefilter.kinds}

    def candidates(self, query: QueryEmbedding, allowed: Int64) -> Int64:
        """Return the places of the pages to score, ascending, chosen from the places ``allowed``."""
        places = allowed
        stages = self._prefilter.stages
        for i, stage in enumerate(stages):
            last = i == len(stages) - 1
            n_kept = self._n_kept if last else max(self._n_kept * WIDER, int(len(allowed) * EARLY_SHARE))
            if n_kept < len(places):
                places = self._narrow(stage, query, places, n_kept)
        if not self._prefilter.text:
            return places
        named = self._text_lane.candidates(query.text, allowed, self._n_kept)
        return np.union1d(places, named) if stages else named

    def _narrow(self, stage: str, query: QueryEmbedding, places: Int64, n_kept: int) -> Int64:
        kind = NARROWING[stage]
        if kind is None:
            return self._by_single(query, places, n_kept)
        signatures = self._signatures[kind]
        if len(places) > n_kept * _SIGNS_FIRST:
            places = best(places, signatures.scan(query.vectors, places, signs_only=True), n_kept * _SIGNS_FIRST)
        return best(places, signatures.scan(query.vectors, places), n_kept)

    def _by_single(self, query: QueryEmbedding, places: Int64, n_kept: int) -> Int64:
        direction, store = mean_direction(query.vectors), self._store
        table = store.page_table()
        if len(places) == len(table):
            found = store.nearest(direction, n_kept)
            return np.sort(table.places(page.row_id for page in found))
        # The database would read the vectors of what is allowed again for each query.
        singles: Float32 = store.derived("singles", lambda: store.singles(np.arange(len(table))))
        return best(places, singles[places] @ direction, n_kept)


def best(places: Int64, scores: Float32, n: int) -> Int64:
    """Return the ``n`` places of the highest scores, ascending; of equal scores the first places."""
    if n >= len(places):
        return places
    threshold = np.partition(scores, len(scores) - n)[len(scores) - n]
    above = places[scores > threshold]
    return np.sort(np.concatenate([above, places[scores == threshold][: n - len(above)]]))
