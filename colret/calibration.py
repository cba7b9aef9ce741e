"""Calibration of an index: below which score a page is no answer, by queries without one.

A query whose answer is taken away, with the document that it stands in, has none. How the best
scores of queries with and without an answer differ gives each lane's floor and odds.

Only the score that pages are ranked by counts. Regressions that also weigh its parts apart, the
weakest tokens or the distance from other pages tell queries made of the pages better, but reward
their copied words: of real questions with an answer they refused up to 70 %, see
``docs/score-floor.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from colret.conformal import queries_needed
from colret.encoders import Encoder
from colret.errors import StoreError
from colret.floors import ANSWERED, Floor, Scored, fit_floor
from colret.lanes import LANES, Lane
from colret.near_duplicates import page_groups
from colret.pseudo_queries import pseudo_queries
from colret.search import Ranking, embed, fresh, rank
from colret.store import PageStore
from colret.types import IndexSettings, Int64

N_QUERIES: Final = 200
"""Made of the pages, at most."""

GROWTH: Final = 2.0
"""Times as many pages, or as few, that a floor holds for: see ``docs/score-floor.md``."""

_CANDIDATES = 400  # ranked, so that some are left when a document is taken away
_NOTE = "colret:calibration"


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was fitted, by which queries, for which index."""

    lanes: dict[Lane, Floor]  # without those whose scores tell nothing
    n_answered: int  # queries
    n_unanswered: int
    made_of: str  # where the queries come from
    target: float  # share of the answered queries that floors keep
    n_pages: int  # N then
    created: str  # ISO 8601, UTC
    identity: dict[str, Any]  # of the index: what scores depend on

    def misfit(self, settings: IndexSettings, n_pages: int) -> str:
        """Return why it does not hold for an index as it is now; "" if it does."""
        for name, value in _identity(settings).items():
            if self.identity.get(name) != value:
                return f"it was fitted with {name} {self.identity.get(name)}, and this is {value}"
        if not self.n_pages / GROWTH <= n_pages <= self.n_pages * GROWTH:
            return f"it was fitted to {self.n_pages:,} pages, and now there are {n_pages:,}"
        return ""


def load_calibration(store: PageStore) -> Calibration | None:
    """Return what is kept with an index; None if nothing, or nothing that this version understands."""
    kept = store.note(_NOTE)
    try:
        lanes = {lane: Floor(**kept["lanes"][lane]) for lane in LANES if lane in kept["lanes"]}
        return Calibration(**(kept | {"lanes": lanes}))
    except (AttributeError, KeyError, TypeError):
        return None


def calibrate(
    store: PageStore,
    encoder: Encoder,
    *,
    queries: Sequence[str] | None = None,
    no_answer: Sequence[str] | None = None,
    device: str = "cpu",
    on_phase: Callable[[str], None] = lambda phase: None,
) -> Calibration:
    """Fit the floor of each lane as ``fit_lanes`` does, and keep it with the index.

    Raises:
        StoreError, ValueError: As ``fit_lanes``, or if another process is writing.
    """
    found = fit_lanes(store, encoder, queries=queries, no_answer=no_answer, device=device, on_phase=on_phase)
    with store.writing():
        store.put_note(_NOTE, asdict(found))
    return found


def fit_lanes(
    store: PageStore,
    encoder: Encoder,
    *,
    lanes: Sequence[Lane] = LANES,
    queries: Sequence[str] | None = None,
    no_answer: Sequence[str] | None = None,
    device: str = "cpu",
    on_phase: Callable[[str], None] = lambda phase: None,
) -> Calibration:
    """Return the floor of each lane.

    Args:
        store: The index.
        encoder: The encoder that made it.
        lanes: To fit.
        queries: That have an answer; by default ``pseudo_queries``. One that is repeated counts once.
        no_answer: That have none, each counted once; by default those with an answer, the document of the page that
            answers, or of the best page where that is not known, left out.
        device: Where MaxSim is computed.
        on_phase: Told what begins.

    Raises:
        StoreError: If the index holds no pages, there are too few queries or documents, no lane's
            scores tell, or another process has changed the pages meanwhile.
        ValueError: If a query has no tokens.
    """
    on_phase("queries")
    store.refresh()
    texts, places = _with_answer(store, queries)
    table = store.page_table()  # that the places are in
    no_answer = list(dict.fromkeys(no_answer or ()))
    embeddings = embed(store, encoder, [*texts, *no_answer])
    pages = np.empty(0, np.int64)
    if not no_answer:
        on_phase("near-duplicate pages")
        pages = fresh(store, lambda: page_groups(store))
    found: dict[Lane, Floor] = {}
    counts = (0, 0)
    for lane in lanes:
        on_phase(f"lane {lane}")
        rankings = rank(store, embeddings, k=_CANDIDATES, lane=lane, device=device)
        if store.page_table() is not table:
            raise StoreError(store.location, "has changed while it was calibrated", "run it again")
        given = rankings[len(texts) :] if no_answer else None
        scored = _scored(store, rankings[: len(texts)], places, pages, given)
        if (floor := fit_floor(scored)) is not None:
            found[lane] = floor
            counts = int(scored.answered.sum()), int((~scored.answered).sum())
    if not found:
        problem = "queries without an answer score as those with one, or are too few (an index needs several documents)"
        raise StoreError(store.location, problem, "give some with --no-answer FILE")
    made_of = f"{'pages' if queries is None else 'file'}; {'file' if no_answer else 'documents left out'}"
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return Calibration(found, *counts, made_of, ANSWERED, store.n_pages(), created, _identity(store.settings))


def _with_answer(store: PageStore, queries: Sequence[str] | None) -> tuple[list[str], list[int | None]]:
    """Return queries and the place of a page that answers each, None where that is not known.

    Raises:
        StoreError: If they are too few to promise anything.
    """
    made = fresh(store, lambda: pseudo_queries(store, N_QUERIES)) if queries is None else []
    texts = [query.text for query in made] if queries is None else list(dict.fromkeys(queries))
    needed = queries_needed(ANSWERED)
    if len(texts) < needed:
        how = "could be made of its pages" if queries is None else "were given"
        problem = f"{len(texts)} queries {how}, and a floor needs {needed}"
        raise StoreError(store.location, problem, "add --queries FILE")
    return texts, [query.place for query in made] if queries is None else [None] * len(texts)


def _scored(
    store: PageStore,
    rankings: Sequence[Ranking],
    places: Sequence[int | None],
    pages: Int64,
    given: Sequence[Ranking] | None,
) -> Scored:
    """Return the best score of each query, and of those without an answer: ``given``, or with the answer taken away."""
    table = store.page_table()
    rows: list[tuple[float, bool, int]] = []
    for query, (ranking, place) in enumerate(zip(rankings, places, strict=True)):
        found = table.places(hit.row_id for hit in ranking.hits)
        source = place if place is not None else int(found[0]) if len(found) else None
        group = -1 - query if source is None else int(table.documents[source])
        rows.append((ranking.hits[0].score if ranking.hits else 0.0, True, group))
        if given is None and source is not None:
            others = (table.documents[found] != group) & (pages[found] != pages[source])
            if others.any():
                rows.append((ranking.hits[int(others.argmax())].score, False, group))
            elif ranking.lane == "text" and len(table.doc_ids) > 1:  # no other page has a word in common
                rows.append((0.0, False, group))
    rows += [
        (each.hits[0].score if each.hits else 0.0, False, -1 - len(rows) - i) for i, each in enumerate(given or ())
    ]
    scores, answered, groups = zip(*rows, strict=True)
    return Scored(np.array(scores, np.float64), np.array(answered, np.bool_), np.array(groups, np.int64))


def _identity(settings: IndexSettings) -> dict[str, Any]:
    """Return what of an index decides its scores, besides its pages."""
    return {name: getattr(settings, name) for name in ("model", "revision", "codec", "stored_dim", "pool")}
