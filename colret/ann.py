"""Building the ANN index over single vectors, and judging it against the flat search.

LanceDB's flat search is exact and takes half a microsecond a page (D = 384), so an index pays
from some ten thousand pages on. Measured with 58 real questions over 100,000 vectors, each the
mean of runs of vectors of two real pages; 316 partitions, one for ``hnsw_sq``:

======== ============== ======= ============ ====== ============ ==============
kind     probes, refine size    recall@100   @500   CPU for 100  for 500 pages
======== ============== ======= ============ ====== ============ ==============
flat                                       1      1        52 ms          63 ms
ivf_flat 316, 0         154 MB             1      1         8 ms          11 ms
ivf_flat 64, 0          154 MB          .991   .980         5 ms           6 ms
ivf_sq   316, 2         39 MB              1      1        33 ms          46 ms
ivf_rq   316, 4         7 MB            .992   .998        12 ms          37 ms
ivf_pq   64, 4          4 MB            .850   .931        15 ms          32 ms
hnsw_sq  1, 2           59 MB           .997      1         9 ms          25 ms
======== ============== ======= ============ ====== ============ ==============

They were built in 7 s (``ivf_flat``, ``ivf_rq``), 10 s, 47 s (``ivf_pq``) and 72 s of CPU time.
So vectors as they are (``ivf_flat``) win wherever they fit into memory.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from colret.column_indexes import AnnKind, AnnSettings
from colret.errors import StoreError
from colret.scoring import float_vectors, mean_direction
from colret.store import PageStore
from colret.types import Float32

WORTH_PAGES: Final = 50_000
"""Pages below which the flat search is fast enough."""

GOOD_RECALL: Final = 0.99
"""What settings are chosen for."""

MOST_REFINE: Final = 1000
CUTOFFS: Final = (100, 500)
"""Numbers of candidates that recall is measured at."""

SAMPLE: Final = 64  # queries

_MEMORY_BYTES = 4e9  # of single vectors, above which an index keeps a bit a dimension instead
_PQ_ROWS = 256  # codewords are trained from as many rows; LanceDB would index nothing of fewer
_REFINES = (1, 2, 4, 8, 16)
_RUN = (8, 24)  # consecutive vectors of a page that make a query
_BLOCK_PAGES = 16


class Recall(NamedTuple):
    """What an index keeps of the flat search's pages, and what each takes."""

    n_candidates: int
    recall: float  # share of the flat search's pages that the index finds, mean over queries
    flat_seconds: float  # a query, median
    index_seconds: float


@dataclass(frozen=True, slots=True)
class AnnReport:
    """An ANN index that was built, and how good it is."""

    settings: AnnSettings
    n_pages: int
    n_bytes: int
    build_seconds: float
    n_queries: int  # that recall was measured with; others chose the settings
    recalls: tuple[Recall, ...]


def choose_kind(n_pages: int, dim: int) -> AnnKind | None:
    """Return the kind of index that suits so many vectors; None if that is none."""
    if n_pages < WORTH_PAGES:
        return None
    return "ivf_flat" if n_pages * dim * 4 <= _MEMORY_BYTES else "ivf_rq"


def build(
    store: PageStore,
    kind: AnnKind,
    *,
    n_partitions: int | None = None,
    n_probes: int | None = None,
    refine: int | None = None,
    queries: Float32 | None = None,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> AnnReport:
    """Build an ANN index over single vectors, choose how it is asked, and measure its recall.

    Half of the queries choose what is not given, the cheapest settings whose recall is
    ``GOOD_RECALL`` at each of ``CUTOFFS``, or else the most thorough ones; the other half
    measure.

    Args:
        store: The index.
        kind: What the ANN index keeps of each vector, and how it walks them.
        n_partitions: Clusters of vectors; by default about the square root of their number,
            and one for ``hnsw_sq``, whose graph needs none.
        n_probes: Clusters that a query looks into.
        refine: k times this many pages are scored again by their exact vectors; for
            ``ivf_flat``, which keeps those, by default not at all.
        queries: At least two unit vectors (n, d) float32; by default ``corpus_queries``.
        on_phase: Told what begins.

    Raises:
        StoreError: If there are too few pages, or another process is writing.
        ValueError: If ``refine`` is above ``MOST_REFINE``.
    """
    if refine is not None and not 0 <= refine <= MOST_REFINE:
        raise ValueError(f"refine is from 0 to {MOST_REFINE:,}")
    with store.writing():
        n_pages = store.n_pages()
        least = _PQ_ROWS if kind == "ivf_pq" else 2
        if n_pages < least:
            raise StoreError(store.path, f"holds {n_pages} pages, {kind} needs {least}", "leave it without")
        asked = corpus_queries(store, SAMPLE) if queries is None else queries
        n_clusters = min(n_partitions or (1 if kind == "hnsw_sq" else round(math.sqrt(n_pages))), n_pages)
        thorough = 0 if kind == "ivf_flat" else _REFINES[-1]
        settings = AnnSettings(
            kind, n_clusters, min(n_probes or n_clusters, n_clusters), thorough if refine is None else refine
        )
        on_phase(f"building {kind} with {n_clusters:,} partitions over {n_pages:,} pages")
        started = time.perf_counter()
        store.build_ann_index(settings)
        seconds = time.perf_counter() - started
        built = store.column_indexes()["single"]
        if built.n_unindexed:
            store.drop_index("single")
            raise StoreError(store.path, f"{kind} left {built.n_unindexed} pages out", "choose another type")
        on_phase(f"comparing with the flat search, {len(asked)} queries")
        settings = _choose_settings(store, asked[::2], settings, fixed=(n_probes is not None, refine is not None))
        store.put_ann_settings(settings)  # once, when chosen: whoever interrupts keeps the most thorough ones
        recalls = tuple(measure(store, asked[1::2], n) for n in _cutoffs(n_pages))
        return AnnReport(settings, n_pages, built.n_bytes, seconds, len(asked[1::2]), recalls)


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


def measure(store: PageStore, queries: Float32, n_candidates: int) -> Recall:
    """Return the recall of the ANN index against the flat search, and the time of both.

    Args:
        store: An index with an ANN index.
        queries: Unit vectors, (n, d) float32.
        n_candidates: Pages to ask for, C.
    """
    flat, flat_seconds = _ask(store, queries, n_candidates, None)
    found, index_seconds = _ask(store, queries, n_candidates, store.ann_settings())
    return Recall(n_candidates, _overlap(flat, found), flat_seconds, index_seconds)


def _choose_settings(
    store: PageStore, queries: Float32, settings: AnnSettings, *, fixed: tuple[bool, bool]
) -> AnnSettings:
    """Return the cheapest settings that are good enough for the queries.

    Args:
        store: The index.
        queries: What is asked.
        settings: The most thorough ones.
        fixed: Whether the number of probes and the refinement are given.
    """
    flat = {n: _ask(store, queries, n, None)[0] for n in _cutoffs(store.n_pages())}

    def good(candidate: AnnSettings) -> bool:
        return all(_overlap(flat[n], _ask(store, queries, n, candidate)[0]) >= GOOD_RECALL for n in flat)

    probes_fixed, refine_fixed = fixed
    if not refine_fixed and settings.refine:
        settings = _first(good, [settings._replace(refine=refine) for refine in _REFINES])
    if not probes_fixed:
        settings = _first(good, [settings._replace(n_probes=n) for n in _doubling(settings.n_partitions)])
    return settings


def _cutoffs(n_pages: int) -> list[int]:
    """Return those of ``CUTOFFS`` that not every search reaches; of a small index, half of its pages."""
    return [n for n in CUTOFFS if n < n_pages] or [-(-n_pages // 2)]


def _first(good: Callable[[AnnSettings], bool], candidates: Sequence[AnnSettings]) -> AnnSettings:
    """Return the first that is good; else the last."""
    return next(filter(good, candidates[:-1]), candidates[-1])


def _doubling(most: int) -> list[int]:
    """Return ``most`` and its halves down to a 64th, ascending."""
    return sorted({max(1, most >> shift) for shift in range(7)})


def _ask(store: PageStore, queries: Float32, k: int, settings: AnnSettings | None) -> tuple[list[set[int]], float]:
    """Return the row ids found for each query, flat without settings, and the median seconds."""
    found, seconds = [], []
    for query in queries:
        started = time.perf_counter()
        pages = store.nearest(query, k, exact=settings is None, trial=settings)
        seconds.append(time.perf_counter() - started)
        found.append({page.row_id for page in pages})
    return found, float(np.median(seconds))


def _overlap(flat: Sequence[set[int]], found: Sequence[set[int]]) -> float:
    """Return the mean share of what the flat search finds that the other finds too."""
    return float(np.mean([len(each & other) / len(each) for each, other in zip(flat, found, strict=True)]))
