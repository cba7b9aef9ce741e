"""What each prefilter keeps of the exact ranking, and what it takes, on one index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colret.prefilter import Prefilter
from colret.search import Ranking, StageSeconds, rank
from colret.store import PageStore
from colret.types import QueryEmbedding
from colret_eval.bench.clock import Stopwatch, milliseconds
from colret_eval.stages import kept

PREFILTERS = ("single", "sketch", "binary", "single+binary")
CANDIDATES = (20, 50, 100, 200)
CUTOFFS = (1, 5, 10)


def measure_prefilters(
    store: PageStore,
    queries: Sequence[QueryEmbedding],
    prefilters: Sequence[str] = PREFILTERS,
    candidates: Sequence[int] = CANDIDATES,
) -> list[dict[str, Any]]:
    """Compare prefilters with exact search of the same index, one query at a time.

    Args:
        store: The index.
        queries: At least one.
        prefilters: Names, as for ``search``; "none" is measured first anyway.
        candidates: Numbers of pages to keep; those of all pages or more are left out.

    Returns:
        A row for exact search and for each prefilter and number: ``prefilter``,
        ``n_candidates``, ``top1``, ``top5``, ``top10`` (shares of the exact top-k kept in the
        final ranking), ``p50_ms``, ``p95_ms`` and ``cpu_ms`` a query, and the mean milliseconds of
        each stage.

    Raises:
        ValueError: If a prefilter is unknown.
        StoreError: If the index holds no pages.
    """
    for name in prefilters:
        Prefilter.parse(name)
    n_pages = store.n_pages()
    exact, row = _ask(store, queries, "none", max(n_pages, 1))
    rows = [_shares(exact, exact) | row]
    for name in prefilters:
        for n_candidates in candidates:
            if n_candidates < n_pages and name != "none":
                found, row = _ask(store, queries, name, n_candidates)
                rows.append(_shares(exact, found) | row)
    return rows


def _ask(
    store: PageStore, queries: Sequence[QueryEmbedding], prefilter: str, n_candidates: int
) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Return the pages found for each query, and the row of figures but for what was kept."""
    rank(store, queries[:1], k=max(CUTOFFS), prefilter=prefilter, n_candidates=n_candidates)  # warms up
    seconds, times, found = StageSeconds(), [], {}
    for i, query in enumerate(queries):
        watch = Stopwatch()
        [ranking] = rank(
            store, [query], k=max(CUTOFFS), prefilter=prefilter, n_candidates=n_candidates, seconds=seconds
        )
        times.append(watch.elapsed())
        found[str(i)] = _page_ids(ranking)
    stages = {f"{stage}_ms": getattr(seconds, stage) / len(queries) * 1000 for stage in StageSeconds.__slots__}
    return found, {"prefilter": prefilter, "n_candidates": n_candidates, **milliseconds(times), **stages}


def _page_ids(ranking: Ranking) -> list[str]:
    return [hit.ref.page_id for hit in ranking.hits]


def _shares(exact: dict[str, list[str]], found: dict[str, list[str]]) -> dict[str, float]:
    return {f"top{k}": float(kept(exact, found, k).mean()) for k in CUTOFFS}
