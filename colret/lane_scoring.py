"""What each lane asks of the pages: which of them to score, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colret.compression import Compression
from colret.lanes import Lane, fuse
from colret.prefilter import NO_PREFILTER, Prefilter, Prefiltering
from colret.rescoring import StageSeconds, score_pages
from colret.store import PageStore
from colret.text_lane import TextLane, phrases
from colret.types import Float32, Hit, Int64, QueryEmbedding


class Scores(NamedTuple):
    """What pages are ranked by, (C,) float32 each."""

    ranked: Float32
    maxsim: Float32  # 0 in the text lane
    shares: Float32  # of BM25; 0 in the visual lane


class LaneScoring:
    """What a search asks of the pages, as of the store's last refresh."""

    def __init__(self, store: PageStore, lane: Lane, plan: Prefilter, n_kept: int, n_allowed: int) -> None:
        self._store = store
        self._lane = lane
        self._n_kept = n_kept
        self._exact = plan == NO_PREFILTER or n_allowed <= n_kept
        self._stages = None if self._exact or lane == "text" else Prefiltering(store, plan, n_kept)
        self._words = TextLane(store)

    def projected(self, queries: Sequence[QueryEmbedding]) -> list[QueryEmbedding]:
        """Return queries in the dimensions that pages are stored in."""
        if self._lane == "text":
            return list(queries)
        compression = Compression(matrix=self._store.projection())
        return [compression.query(query) for query in queries]

    def eligible(self, query: QueryEmbedding, allowed: Int64) -> Int64:
        """Return those allowed places whose pages have what the query quotes."""
        return allowed if self._lane == "visual" else self._words.with_phrases(query.text, allowed)

    def candidates(self, query: QueryEmbedding, allowed: Int64) -> Int64:
        """Return the places to score, ascending."""
        if self._exact or len(allowed) <= self._n_kept:
            return allowed
        named = allowed[:0]
        if self._lane != "visual":
            named = self._words.candidates(query.text, allowed, self._n_kept)
        return np.union1d(self._stages.candidates(query, allowed), named) if self._stages else named

    def scores(
        self, queries: Sequence[QueryEmbedding], kept: Sequence[Int64], device: str, spent: StageSeconds
    ) -> list[Scores]:
        """Return the scores of each query with the pages kept for it."""
        nothing = [np.zeros(len(places), np.float32) for places in kept]
        maxsims = nothing if self._lane == "text" else score_pages(self._store, queries, kept, device, spent)
        if self._lane == "visual":
            return list(map(Scores, maxsims, maxsims, nothing))
        with spent.adding("rescore"):
            shares = self._words.shares([query.text for query in queries], kept)
        contents = self._store.page_table().contents
        result = []
        for query, places, found, share in zip(queries, kept, maxsims, shares, strict=True):
            similarities = None if self._lane == "text" else found / np.float32(len(query.vectors))
            result.append(Scores(fuse(similarities, share, contents[places]), found, share))
        return result

    def best(self, query: QueryEmbedding, places: Int64, scores: Scores, k: int) -> list[Hit]:
        """Rank pages, given in page order: a stable sort then breaks ties by page."""
        if self._lane == "text" and not phrases(query.text):
            sharing = scores.shares > 0
            places, scores = places[sharing], Scores(*(each[sharing] for each in scores))
        order = np.argsort(-scores.ranked, kind="stable")[:k]
        table = self._store.page_table()
        ranked, maxsims, shares = (each[order].tolist() for each in scores)
        if self._lane == "visual":
            ranked = [min(maxsim / len(query.vectors), 1.0) for maxsim in maxsims]
        contents = table.contents[places[order]].tolist()
        return [
            Hit(page.ref, score, maxsim, page.row_id, share, is_contents)
            for page, score, maxsim, share, is_contents in zip(
                table.candidates(places[order]), ranked, maxsims, shares, contents, strict=True
            )
        ]
