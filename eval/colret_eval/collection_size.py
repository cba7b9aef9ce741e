"""Success and recall against the size of the collection, in closed form.

One ranking of N pages tells what every smaller collection would have given on average. A
collection of n pages keeps a query's R relevant ones and n - R of the N - R others, the
distractors; when these are drawn at random, those that stand above a relevant page follow the
hypergeometric distribution. So the curve needs no resampling and has none of its noise. Beyond
N, ``extrapolated_success`` goes as far as twice the distractors, where its error is still bounded.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from colret_eval.matrices import Bool, Float32
from colret_eval.measures import Float64, Int64


@dataclass(frozen=True, slots=True)
class Placement:
    """What stands above the relevant pages of one query."""

    n_relevant: int  # R, with a score or not
    n_missing: int  # relevant pages that are not among those searched: no collection holds them
    n_distractors: int  # pages of the collection that are not relevant
    n_siblings: int  # distractors from a document that holds a relevant page
    above: Int64  # (F,) distractors above each relevant page that has a score, in rank order
    siblings_above: Int64  # (F,) those of them that are siblings


class HalfSize(NamedTuple):
    """Where Success@1 has fallen to half of what it is in a small collection."""

    start: int  # pages of the small collection
    at_start: float  # Success@1 there
    size: int | None  # the smallest collection with half of that or less; None where none is in reach
    extrapolated: bool  # whether that is larger than what was ranked
    furthest: int  # the largest collection that was looked at
    at_furthest: float  # Success@1 there


def placements(
    scores: Float32, relevant: Bool, documents: Sequence[str], searched: Bool | None = None
) -> list[Placement]:
    """Return what stands above each query's relevant pages.

    Args:
        scores: (Q, N) float32 of every page, not of a ranking's head: ``-inf`` is for pages that no
            collection of any size would return, such as those without vectors.
        relevant: (Q, N) bool, at least one page a query.
        documents: Document of each page, length N.
        searched: (N,) whether the page is one of the collection, by default all are; others only count as not found.

    Raises:
        ValueError: If a query has no relevant page.
    """
    if not relevant.any(axis=1).all():
        raise ValueError(f"query {int(relevant.any(axis=1).argmin())} has no relevant page")
    _, labels = np.unique(np.asarray(documents), return_inverse=True)
    inside = np.ones(len(labels), np.bool_) if searched is None else searched
    missing = (relevant & ~inside).sum(axis=1).tolist()
    rows = zip(scores[:, inside], relevant[:, inside], missing, strict=True)
    return [_placement(row, right, labels[inside], n_missing) for row, right, n_missing in rows]


def size_grid(n_pages: int, start: int = 10) -> list[int]:
    """Return sizes for a curve: 1, 2 and 5 times powers of ten from ``start`` up, and N itself.

    >>> size_grid(635)
    [10, 20, 50, 100, 200, 500, 635]
    """
    series = (step * 10**power for power in range(len(str(n_pages))) for step in (1, 2, 5))
    return [*(size for size in series if start <= size < n_pages), n_pages]


def success_curve(placed: Sequence[Placement], sizes: Sequence[int], k: int, *, hardest: bool = False) -> Float64:
    """Return the expected Success@k of each query in collections of the given sizes.

    Args:
        placed: Of Q queries.
        sizes: Pages of each collection, with the query's relevant pages among them; a collection
            smaller than these holds nothing else.
        k: Success@k is the probability that fewer than k distractors stand above the best
            relevant page: with a of D above it and m = n - R drawn, the sum over j < k of
            C(a, j) C(D - a, m - j) / C(D, m).
        hardest: Draw the siblings first, pages of the same documents as the relevant ones, and
            others when these are used up: the pessimistic curve.

    Returns:
        (S, Q) float64, to be averaged, or resampled, over queries.

    Raises:
        ValueError: If k is below 1 or a size is not between 1 and N.
    """
    best = [_found(each, sizes, k, hardest)[:1] for each in placed]
    return np.stack([rows.sum(axis=0) for rows in best], axis=1)


def recall_curve(placed: Sequence[Placement], sizes: Sequence[int], k: int, *, hardest: bool = False) -> Float64:
    """Return the expected Recall@k, as ``success_curve``: the mean over relevant pages of being among the first k.

    Before the i-th relevant page stand i - 1 others, so fewer than k - i + 1 distractors may.
    """
    counts = [each.n_relevant + each.n_missing for each in placed]
    found = [_found(each, sizes, k, hardest).sum(axis=0) for each in placed]
    return np.stack([rows / count for rows, count in zip(found, counts, strict=True)], axis=1)


def extrapolated_success(placed: Sequence[Placement], sizes: Sequence[int]) -> Float64:
    """Return an unbiased estimate of Success@1 in collections larger than the one that was ranked.

    With e further pages like the D distractors, a query with a of D above its best relevant page
    counts (-e/D)^a: Good and Toulmin's estimator ("The number of new species, and the increase in
    population coverage, when a sample is increased", Biometrika 1956), applied to the pages that
    outrank an answer. No model of the scores is needed; up to e = D a term is at most 1, beyond
    that its variance grows without bound, so the curve ends there.

    Args:
        placed: Of Q queries.
        sizes: Pages of each collection, from N to N + D.

    Returns:
        (S, Q) float64, to be averaged, or resampled, over queries. Single values are no
        probabilities, and means may leave [0, 1] by their error.

    Raises:
        ValueError: If a size is out of reach.
    """
    columns = []
    for each in placed:
        n_pages, reach = _reach(each)
        if not all(n_pages <= size <= reach for size in sizes):
            raise ValueError(f"sizes are between the {n_pages} pages that were ranked and {reach}")
        further = (np.asarray(sizes, np.float64) - n_pages) / max(each.n_distractors, 1)
        columns.append((-further) ** each.above[0] if len(each.above) else np.zeros(len(sizes)))
    return np.stack(columns, axis=1)


def half_size(placed: Sequence[Placement], start: int = 10) -> HalfSize:
    """Return the size at which Success@1 is half of what it is among ``start`` pages.

    It is looked for among the pages that were ranked, then by ``extrapolated_success`` in steps of
    one hundredth, no further than that goes; its mean over queries has a sampling error, so an
    interval at the size belongs beside it.

    Raises:
        ValueError: If there are no queries.
    """
    if not placed:
        raise ValueError("no queries, so no curve")
    n_pages, reach = map(min, zip(*map(_reach, placed), strict=True))
    start = min(start, n_pages)

    def at(size: int) -> float:
        return float(success_curve(placed, [size], 1).mean())

    half = at(start) / 2
    if half and at(n_pages) <= half:
        # More distractors never help, so the curve falls and can be searched by halving.
        place = bisect.bisect_left(range(start, n_pages + 1), True, key=lambda size: at(size) <= half)
        return HalfSize(start, 2 * half, start + place, False, n_pages, at(n_pages))
    sizes = np.linspace(n_pages, reach, 101).astype(np.int64)
    curve = extrapolated_success(placed, sizes.tolist()).mean(axis=1)
    reached = np.flatnonzero(curve <= half)
    size = int(sizes[reached[0]]) if half and len(reached) else None  # half of nothing is nothing
    return HalfSize(start, 2 * half, size, size is not None, reach, float(curve[-1]))


def _placement(row: Float32, relevant: Bool, documents: Int64, n_missing: int) -> Placement:
    """Return the placement of one query; (N,) each."""
    home = np.zeros(documents.max() + 1, np.bool_)
    home[documents[relevant]] = True
    sibling = home[documents] & ~relevant
    columns = np.flatnonzero(relevant & (row > -np.inf))
    columns = columns[np.argsort(-row[columns], kind="stable")]
    everywhere = np.arange(len(row))
    ahead = [((row > row[at]) | ((row == row[at]) & (everywhere < at))) & ~relevant for at in columns]
    return Placement(
        n_relevant=int(relevant.sum()),
        n_missing=n_missing,
        n_distractors=int((~relevant).sum()),
        n_siblings=int(sibling.sum()),
        above=np.array([each.sum() for each in ahead], np.int64),
        siblings_above=np.array([(each & sibling).sum() for each in ahead], np.int64),
    )


def _reach(placed: Placement) -> tuple[int, int]:
    """Return how many pages were ranked, and how many an extrapolation may speak of."""
    n_pages = placed.n_relevant + placed.n_distractors
    return n_pages, n_pages + placed.n_distractors


def _found(placed: Placement, sizes: Sequence[int], k: int, hardest: bool) -> Float64:
    """Return the probability that each relevant page with a score is among the first k: (F, S)."""
    if k < 1:
        raise ValueError(f"a cutoff is at least 1, not {k}")
    largest, _ = _reach(placed)
    if not all(1 <= size <= largest for size in sizes):
        raise ValueError(f"sizes are between 1 and the {largest} pages that were ranked")
    drawn = np.maximum(np.asarray(sizes, np.int64) - placed.n_relevant, 0)
    n_first = placed.n_siblings if hardest else 0  # what is drawn first
    first_above = placed.siblings_above if hardest else np.zeros_like(placed.siblings_above)
    first = np.minimum(drawn, n_first)
    rest, n_rest = drawn - first, placed.n_distractors - n_first
    rows = []
    for place, (above, near) in enumerate(zip(placed.above.tolist(), first_above.tolist(), strict=True)):
        allowed = k - place  # distractors above must be fewer
        before = _fewer(allowed, near, n_first, first)
        after = _fewer(allowed - near, above - near, n_rest, rest)  # every one of the first is there by then
        rows.append(np.where(rest > 0, after, before))
    return np.array(rows, np.float64).reshape(-1, len(drawn))


def _fewer(n: int, above: int, distractors: int, drawn: Int64) -> Float64:
    """Return the probability that fewer than n of the ``above`` are among those drawn: (S,)."""
    j = np.arange(max(min(n, above + 1), 0))[:, None]
    log_share = _log_choose(above, j) + _log_choose(distractors - above, drawn - j) - _log_choose(distractors, drawn)
    share: Float64 = np.exp(log_share).sum(axis=0)
    return np.minimum(share, 1.0)


def _log_choose(n: int, k: Int64) -> Float64:
    """Return the logarithm of C(n, k), -inf where k is not between 0 and n."""
    from scipy.special import gammaln

    inside = np.clip(k, 0, n)
    value = gammaln(n + 1) - gammaln(inside + 1) - gammaln(n - inside + 1)
    return np.where(inside == k, value, -np.inf)
