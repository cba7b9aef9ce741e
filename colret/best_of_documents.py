"""Rankings of documents: of each only the best page."""

from __future__ import annotations

from collections.abc import Callable

from colret.search import Ranking
from colret.types import Hit

_MORE = 4  # times as many pages are asked for, where the best are those of too few documents


def best_of_documents(rank: Callable[[int], Ranking], k: int) -> Ranking:
    """Return the best page of each of the ``k`` best documents.

    Args:
        rank: Returns the ranking of the best pages, as many as it is asked for.
        k: Documents.
    """
    n_asked = _MORE * k
    while True:
        ranking = rank(n_asked)
        best: dict[str, Hit] = {}
        for hit in ranking.hits:
            best.setdefault(hit.ref.doc_id, hit)
        if len(best) >= k or len(ranking.hits) < n_asked:
            return ranking._replace(hits=list(best.values())[:k])
        n_asked *= _MORE
