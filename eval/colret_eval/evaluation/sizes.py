"""How figures depend on the size of the collection, and both directions of retrieval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from colret_eval.collection_size import HalfSize, extrapolated_success, half_size, placements, size_grid, success_curve
from colret_eval.directions import page_to_text, text_to_page
from colret_eval.evaluation.comparison import Judge
from colret_eval.evaluation.corpus import Corpus
from colret_eval.evaluation.systems import BM25, FLOAT32, REFERENCE, TWO_STAGE
from colret_eval.matrices import Float32
from colret_eval.measures import Float64, Int64

CUTOFFS: Final = (1, 5, 10)

_SUMS = (REFERENCE, FLOAT32, BM25)  # scores that grow with the number of a query's tokens
_EXTRAPOLATED = 5  # sizes beyond N
_WIDEST = 0.5  # interval of an extrapolation that is worth printing


def collection_sizes(corpus: Corpus, matrices: Mapping[str, Float32], judge: Judge) -> dict[str, Any]:
    """Return the ``collection_size`` of a report: Success@1 against the number of pages, for whole rankings."""
    sizes = size_grid(corpus.n_pages)
    return {
        "k": 1,
        "sizes": sizes,
        "systems": [
            {"system": system} | _curves(corpus, scores[: len(corpus.query_ids)], sizes, judge)
            for system, scores in _whole(matrices)
        ],
    }


def _curves(corpus: Corpus, scores: Float32, sizes: list[int], judge: Judge) -> dict[str, Any]:
    placed = placements(scores, corpus.relevant, corpus.documents, corpus.findable)
    reach = min(each.n_relevant + 2 * each.n_distractors for each in placed)
    beyond = np.unique(np.linspace(corpus.n_pages, reach, _EXTRAPOLATED + 1).astype(int))[1:].tolist()
    further = _believable(beyond, _means(extrapolated_success(placed, [corpus.n_pages, *beyond]), judge))
    random = _means(success_curve(placed, sizes, 1), judge)
    return {
        "random": random,
        "hardest": _means(success_curve(placed, sizes, 1, hardest=True), judge),
        "extrapolated": further,
        "half": _half(half_size(placed), corpus.n_pages, random[-1]["mean"], further),
    }


def _half(found: HalfSize, n_pages: int, at_n: float, further: dict[str, Any]) -> dict[str, Any]:
    """Return the half size, unless it lies where the extrapolation says nothing any more."""
    sizes, means = [n_pages, *further["sizes"]], [at_n, *(each["mean"] for each in further["success"])]
    if found.size is not None and found.size <= sizes[-1]:
        return found._asdict()
    return found._replace(size=None, furthest=sizes[-1], at_furthest=means[-1])._asdict()


def _believable(sizes: list[int], intervals: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an extrapolated curve as far as it says anything, made a share that never rises with size.

    The estimator is unbiased and no probability: its error makes single means leave [0, 1] and rise.

    Args:
        sizes: Beyond N.
        intervals: At N, where the curve is known, and at each of ``sizes``.
    """
    curve: list[dict[str, Any]] = []
    before = intervals[0]["mean"]
    for interval in intervals[1:]:
        mean = before = min(max(interval["mean"], 0.0), before)
        low, high = (min(max(interval[end], 0.0), 1.0) for end in ("low", "high"))
        low, high = min(low, mean), max(high, mean)
        if high - low > _WIDEST:
            break
        curve.append(interval | {"mean": mean, "low": low, "high": high})
    return {"sizes": sizes[: len(curve)], "success": curve}


def both_directions(
    corpus: Corpus, matrices: Mapping[str, Float32], n_tokens: Int64, judge: Judge
) -> list[dict[str, Any]]:
    """Return the ``directions`` of a report; ``n_tokens`` is (Q,), of each query."""
    documents = corpus.documents
    present = corpus.relevant & corpus.findable
    rows = []
    for system, scores in _whole(matrices):
        own = scores[: len(corpus.query_ids)]
        tokens = n_tokens if system in _SUMS else None
        to_page, to_text = text_to_page(own, corpus.relevant), page_to_text(own, corpus.relevant, tokens)
        # Labelled pages that are not searched are no candidates: they are never found, nor would chance find them.
        to_page = replace(to_page, matches=present.sum(axis=1)[to_page.items], n_candidates=corpus.n_pages)
        to_text = replace(to_text, matches=present.sum(axis=0)[to_text.items])
        for name, direction, sources in (
            ("text_to_page", to_page, corpus.sources),
            ("page_to_text", to_text, documents),
        ):
            clusters = replace(judge, sources=[sources[item] for item in direction.items.tolist()])
            rows.append(
                {
                    "system": system,
                    "direction": name,
                    "n_items": len(direction.items),
                    "n_candidates": direction.n_candidates,
                    "success": clusters.intervals({str(k): direction.success(k) for k in CUTOFFS}),
                    "random": {str(k): float(direction.chance(k).mean()) for k in CUTOFFS},
                }
            )
    return rows


def _whole(matrices: Mapping[str, Float32]) -> Iterable[tuple[str, Float32]]:
    """Yield the systems that score every page."""
    return ((system, scores) for system, scores in matrices.items() if system not in (TWO_STAGE, FLOAT32))


def _means(curve: Float64, judge: Judge) -> list[dict[str, Any]]:
    """Return the interval at each size of a curve (S, Q)."""
    return list(judge.intervals(dict(enumerate(curve))).values())
