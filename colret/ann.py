"""The ANN index over single vectors: built in place, kept up with the pages, judged against the flat search.

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

So vectors as they are (``ivf_flat``) win wherever they fit into memory.

Pages that are added later are compared one by one until compaction takes them into the index, or
there are so many that it is built anew. LanceDB has no other way to add them: see ``docs/search.md``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from colret.ann_recall import Recall, corpus_queries, cutoffs, flat_search, measure, recall_with
from colret.column_indexes import AnnKind, AnnSettings
from colret.errors import StoreError
from colret.store import PageStore
from colret.types import Float32

WORTH_PAGES: Final = 50_000
"""Pages below which the flat search is fast enough."""

GOOD_RECALL: Final = 0.99
"""What settings are chosen for."""

MOST_REFINE: Final = 1000
SAMPLE: Final = 128  # queries

LAG, LAG_SHARE = 10_000, 1 / 16
"""Pages outside of the index that are put up with: 10,000 make a query 10 ms of CPU slower."""

OUTGROWN: Final = 1.5
"""Times as many partitions as would suit, or as few, that are put up with: 2.25 times the pages."""

_MEMORY_BYTES = 4e9  # of single vectors, above which an index keeps a bit a dimension instead
_PQ_ROWS = 256  # codewords are trained from as many rows; LanceDB would index nothing of fewer
_REFINES = (1, 2, 4, 8, 16)
_NOTE = "colret:ann-report"


class AnnRequest(NamedTuple):
    """What was asked of an ANN index; None leaves it to be chosen, each time that it is built."""

    kind: AnnKind
    n_partitions: int | None = None
    n_probes: int | None = None
    refine: int | None = None


@dataclass(frozen=True, slots=True)
class AnnReport:
    """An ANN index that was built, and how good it was then."""

    settings: AnnSettings
    n_pages: int
    n_bytes: int
    build_seconds: float
    n_queries: int  # that recall was measured with; others chose the settings
    made_of: str  # where they come from
    created: str  # ISO 8601, UTC
    recalls: tuple[Recall, ...]


def choose_kind(n_pages: int, dim: int) -> AnnKind | None:
    """Return the kind of index that suits so many vectors; None if that is none."""
    if n_pages < WORTH_PAGES:
        return None
    return "ivf_flat" if n_pages * dim * 4 <= _MEMORY_BYTES else "ivf_rq"


def suitable_partitions(kind: AnnKind, n_pages: int) -> int:
    """Return how many clusters suit so many vectors: about the square root; one for a graph over all."""
    return 1 if kind == "hnsw_sq" else max(1, round(math.sqrt(n_pages)))


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
    ``GOOD_RECALL`` at each of ``ann_recall.CUTOFFS``, or else the most thorough ones; the other
    half measure. The report is kept with the index.

    Args:
        store: The index.
        kind: What the ANN index keeps of each vector, and how it walks them.
        n_partitions: Clusters of vectors; by default ``suitable_partitions``.
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
        return _build(store, AnnRequest(kind, n_partitions, n_probes, refine), queries, on_phase)


def update(store: PageStore) -> None:
    """Build the ANN index anew, if there is one that too many pages are missing in or that they have outgrown.

    Under ``store.writing()``, after pages were added or removed. Its recall is measured again, with
    queries made of the pages.
    """
    settings = store.ann_settings()
    if settings is None or not store.n_pages():
        return
    request = _request(store, settings)
    built = store.column_indexes()["single"]
    lags = built.n_unindexed > LAG + built.n_indexed * LAG_SHARE
    suitable = suitable_partitions(request.kind, store.n_pages())
    ratio = suitable / settings.n_partitions
    outgrown = request.n_partitions is None and not 1 / OUTGROWN <= ratio <= OUTGROWN
    if (lags or outgrown) and store.n_pages() >= _least_pages(request.kind):
        _build(store, request, None, lambda phase: None)


def kept_report(store: PageStore) -> AnnReport | None:
    """Return what was measured when the ANN index was built; None if there is none, or nothing that holds for it."""
    settings, kept = store.ann_settings(), store.note(_NOTE)
    try:
        values = dict(kept["report"])
        values["settings"] = AnnSettings(**values["settings"])
        values["recalls"] = tuple(Recall(**recall) for recall in values["recalls"])
        report = AnnReport(**values)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return report if report.settings == settings else None


def _build(
    store: PageStore, request: AnnRequest, queries: Float32 | None, on_phase: Callable[[str], None]
) -> AnnReport:
    n_pages, kind = store.n_pages(), request.kind
    if n_pages < _least_pages(kind):
        problem = f"holds {n_pages} pages, {kind} needs {_least_pages(kind)}"
        raise StoreError(store.location, problem, "leave it without")
    asked = corpus_queries(store, SAMPLE) if queries is None else queries
    settings = _most_thorough(request, n_pages)
    on_phase(f"building {kind} with {settings.n_partitions:,} partitions over {n_pages:,} pages")
    started = time.perf_counter()
    store.build_ann_index(settings)
    seconds = time.perf_counter() - started
    built = store.column_indexes()["single"]
    if built.n_unindexed:
        store.drop_index("single")
        raise StoreError(store.location, f"{kind} left {built.n_unindexed} pages out", "choose another type")
    on_phase(f"comparing with the flat search, {len(asked)} queries")
    settings = _choose_settings(store, asked[::2], settings, request)
    store.put_ann_settings(settings)  # once, when chosen: whoever interrupts keeps the most thorough ones
    flat = flat_search(store, asked[1::2])
    report = AnnReport(
        settings=settings,
        n_pages=n_pages,
        n_bytes=built.n_bytes,
        build_seconds=seconds,
        n_queries=len(asked[1::2]),
        made_of="made of the pages" if queries is None else "given",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        recalls=tuple(measure(store, asked[1::2], n, flat=flat) for n in cutoffs(n_pages)),
    )
    store.put_note(_NOTE, {"request": request._asdict(), "report": _as_note(report)})
    return report


def _request(store: PageStore, settings: AnnSettings) -> AnnRequest:
    """Return what was asked of the index; where that is not known, all but the kind is left to be chosen."""
    try:
        request = AnnRequest(**store.note(_NOTE)["request"])
    except (KeyError, TypeError):
        return AnnRequest(settings.kind)
    return request if request.kind == settings.kind else AnnRequest(settings.kind)


def _as_note(report: AnnReport) -> dict[str, Any]:
    values = asdict(report)
    return values | {
        "settings": report.settings._asdict(),
        "recalls": [recall._asdict() for recall in report.recalls],
    }


def _least_pages(kind: AnnKind) -> int:
    return _PQ_ROWS if kind == "ivf_pq" else 2


def _most_thorough(request: AnnRequest, n_pages: int) -> AnnSettings:
    """Return the settings that find most, as far as they are not given."""
    n_partitions = min(request.n_partitions or suitable_partitions(request.kind, n_pages), n_pages)
    n_probes = min(request.n_probes or n_partitions, n_partitions)
    thorough = 0 if request.kind == "ivf_flat" else _REFINES[-1]
    return AnnSettings(request.kind, n_partitions, n_probes, thorough if request.refine is None else request.refine)


def _choose_settings(store: PageStore, queries: Float32, settings: AnnSettings, request: AnnRequest) -> AnnSettings:
    """Return the cheapest settings that are good enough for the queries.

    Args:
        store: The index.
        queries: What is asked.
        settings: The most thorough ones.
        request: What is given.
    """
    flat = flat_search(store, queries)

    def good(candidate: AnnSettings) -> bool:
        n_pages = store.n_pages()
        return all(recall_with(store, queries, n, candidate, flat) >= GOOD_RECALL for n in cutoffs(n_pages))

    if request.refine is None and settings.refine:
        settings = _first(good, [settings._replace(refine=refine) for refine in _REFINES])
    if request.n_probes is None:
        settings = _first(good, [settings._replace(n_probes=n) for n in _doubling(settings.n_partitions)])
    return settings


def _first(good: Callable[[AnnSettings], bool], candidates: Sequence[AnnSettings]) -> AnnSettings:
    """Return the first that is good; else the last."""
    return next(filter(good, candidates[:-1]), candidates[-1])


def _doubling(most: int) -> list[int]:
    """Return ``most`` and its halves down to a 64th, ascending."""
    return sorted({max(1, most >> shift) for shift in range(7)})
