"""What an ANN index over single vectors finds of what the flat search finds, and how fast either is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colret.column_indexes import AnnSettings
from colret.scoring import float_vectors, mean_direction
from colret.store import PageStore
from colret.types import Float32

CUTOFFS: Final = (100, 500)
"""Numbers of candidates that recall is measured at."""

_RUN = (8, 24)  # consecutive vectors of a page that make a query
_BLOCK_PAGES = 16
_RESAMPLES, _LEVEL = 2000, 0.95


class Recall(NamedTuple):
    """What an index keeps of the flat search's pages, and what each takes."""

    n_candidates: int
    recall: float  # share of the flat search's pages that the index finds, mean over queries
    low: float  # of its 95 % interval, by bootstrap over queries
    high: float
    flat_seconds: float  # a query, median
    index_seconds: float


class Flat(NamedTuple):
    """What the flat search finds for queries, nearest first."""

    row_ids: list[list[int]]
    seconds: float  # a query, median


def cutoffs(n_pages: int) -> list[int]:
    """Return those of ``CUTOFFS`` that not every search reaches; of a small index, half of its pages."""
    return [n for n in CUTOFFS if n < n_pages] or [-(-n_pages // 2)]


def corpus_queries(store: PageStore, n: int, *, seed: int = 0) -> Float32:
    """Return queries made of the index itself, (n, d) float32: means of 8 to 24 consecutive vectors of a page.

    Such a mean is as far from its page's mean as a question's is, but closer to what the pages say.
    """
    random = np.random.default_rng(seed)
    places = random.integers(store.n_pages(), size=n)
    runs = []
    for start in range(0, n, _BLOCK_PAGES):
        pages = store.vectors(places[start : start + _BLOCK_PAGES])
        for i in range(len(pages)):
            vectors = float_vectors(pages, i)
            length = min(int(random.integers(_RUN[0], _RUN[1] + 1)), len(vectors))
            first = int(random.integers(len(vectors) - length + 1))
            runs.append(mean_direction(vectors[first : first + length]))
    return np.stack(runs)


def flat_search(store: PageStore, queries: Float32) -> Flat:
    """Compare every page with each of the queries, (n, d) float32, for as many pages as recall is measured at."""
    return Flat(*_ask(store, queries, max(cutoffs(store.n_pages())), None))


def measure(store: PageStore, queries: Float32, n_candidates: int, *, flat: Flat | None = None) -> Recall:
    """Return the recall of the ANN index against the flat search, and the time of both.

    Args:
        store: An index with an ANN index.
        queries: Unit vectors, (n, d) float32.
        n_candidates: Pages to ask for, C.
        flat: What ``flat_search`` finds for the queries, if that is known.
    """
    exact = flat or Flat(*_ask(store, queries, n_candidates, None))
    found, seconds = _ask(store, queries, n_candidates, store.ann_settings())
    shares = _shares(exact, found, n_candidates)
    return Recall(n_candidates, float(shares.mean()), *_interval(shares), exact.seconds, seconds)


def recall_with(store: PageStore, queries: Float32, n_candidates: int, settings: AnnSettings, flat: Flat) -> float:
    """Return the mean recall when the ANN index is asked with other settings than those kept with it."""
    found, _ = _ask(store, queries, n_candidates, settings)
    return float(_shares(flat, found, n_candidates).mean())


def _ask(store: PageStore, queries: Float32, k: int, settings: AnnSettings | None) -> tuple[list[list[int]], float]:
    """Return the row ids found for each query, flat without settings, and the median seconds."""
    found, seconds = [], []
    for query in queries:
        started = time.perf_counter()
        pages = store.nearest(query, k, exact=settings is None, trial=settings)
        seconds.append(time.perf_counter() - started)
        found.append([page.row_id for page in pages])
    return found, float(np.median(seconds))


def _shares(flat: Flat, found: Sequence[Sequence[int]], n: int) -> NDArray[np.float64]:
    """Return, for each query, the share of the ``n`` nearest pages that was found."""
    pairs = zip(flat.row_ids, found, strict=True)
    return np.array([len({*exact[:n]} & {*other}) / len(exact[:n]) for exact, other in pairs])


def _interval(shares: NDArray[np.float64]) -> tuple[float, float]:
    """Return the percentile bootstrap interval of their mean."""
    random = np.random.default_rng(0)
    means = shares[random.integers(len(shares), size=(_RESAMPLES, len(shares)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)
