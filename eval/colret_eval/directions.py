"""Both directions of retrieval, as the field of images and captions reports them.

Text to page asks which page belongs to a query; page to text asks which query belongs to a page.
Several queries may belong to one page, or several pages to one query: any of them counts, as for
the five captions of a photograph in Flickr30k and COCO. R@k there is what ``measures`` calls
Success@k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colret_eval.matrices import Bool, Float32, best_relevant_ranks
from colret_eval.measures import Float64, Int64, none_drawn


@dataclass(frozen=True, slots=True)
class Direction:
    """Where the best match stands, for each item that has any."""

    ranks: Float64  # (M,) from 1; inf where no match can be had
    matches: Int64  # (M,) how many candidates match the item
    items: Int64  # (M,) row or column of the score matrix that the item is
    n_candidates: int

    def success(self, k: int) -> Float64:
        """Return whether any match is among the first k: (M,) of 0 and 1."""
        return (self.ranks <= k).astype(np.float64)

    def chance(self, k: int) -> Float64:
        """Return the exact expectation of ``success`` for a random order, (M,)."""
        none = [none_drawn(min(k, self.n_candidates), int(n), self.n_candidates) for n in self.matches]
        return 1.0 - np.array(none, np.float64)


def text_to_page(scores: Float32, relevant: Bool) -> Direction:
    """Return, for each query with a relevant page, where its best one stands among the N pages.

    Args:
        scores: (Q, N) float32.
        relevant: (Q, N) bool.

    Raises:
        ValueError: If the shapes differ.
    """
    if scores.shape != relevant.shape:
        raise ValueError(f"{scores.shape} scores need labels of the same shape, not {relevant.shape}")
    items = np.flatnonzero(relevant.any(axis=1))
    ranks = best_relevant_ranks(scores[items], relevant[items])
    return Direction(ranks, relevant[items].sum(axis=1).astype(np.int64), items, scores.shape[1])


def page_to_text(scores: Float32, relevant: Bool, n_tokens: Int64 | None = None) -> Direction:
    """Return, for each page with a query, where the best of its queries stands among the Q queries.

    MaxSim adds up over a query's tokens, so that long queries would be ahead for every page:
    give the number of tokens, and scores are compared per token. Scores that are cosines need none.

    Args:
        scores: (Q, N) float32.
        relevant: (Q, N) bool.
        n_tokens: (Q,) tokens of each query, all above 0.

    Raises:
        ValueError: If the shapes differ.
    """
    if n_tokens is not None:
        if len(n_tokens) != len(scores):
            raise ValueError(f"{len(scores)} queries need as many numbers of tokens, not {len(n_tokens)}")
        scores = (scores / n_tokens[:, None]).astype(np.float32)
    return text_to_page(np.ascontiguousarray(scores.T), np.ascontiguousarray(relevant.T))
