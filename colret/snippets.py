"""Snippets: the words of a page that a query's tokens matched best."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from colret.types import WHOLE_PAGE, Boxes, Float32, QueryEmbedding, Words

SNIPPET_WORDS: Final = 30
_TELLING_VECTORS = 256  # those that did most; the rest of a page of thousands would cost time for nothing
_SHARPNESS = 4  # the power that a near-best similarity is raised to


def word_weights(query: QueryEmbedding, vectors: Float32, boxes: Boxes, words: Words) -> NDArray[np.float64]:
    """Return how much each word of a page did for a query's score.

    A vector counts, for each query token, by how far its similarity stands above the token's
    mean over the page, most of all for the token's best vector: a token that matches everywhere
    points nowhere. A word counts as its best vector does, shared with the other words in that
    vector's box.

    Args:
        query: T tokens.
        vectors: (P, D) float32, the page's vectors.
        boxes: (P, 4), where each vector comes from.
        words: The page's W words.

    Returns:
        (W,) float64, 0 where nothing matched.
    """
    placed = np.any(boxes != np.array(WHOLE_PAGE), axis=1)
    if not placed.any() or not words.texts:
        return np.zeros(len(words.texts))
    gains = _vector_gains(query.vectors @ vectors[placed].T)  # (placed,)
    telling = np.argsort(-gains, kind="stable")[:_TELLING_VECTORS]
    inside = _centres_inside(words.boxes, boxes[placed][telling])  # (telling, W)
    shares = gains[telling, None] * inside / np.maximum(inside.sum(axis=1), 1)[:, None]
    return np.asarray(shares.max(axis=0), np.float64)


def _vector_gains(similarities: Float32) -> NDArray[np.float64]:
    """Return what each vector did for the query, (P,) from (T, P).

    Near a token's best counts, the rest little; and a token that found something outweighs one,
    such as an article, that is nearly as far from everything.
    """
    above = similarities.astype(np.float64) - similarities.mean(axis=1, keepdims=True)
    best = above.max(axis=1, keepdims=True)
    share_of_best = np.clip(above / np.maximum(best, 1e-12), 0, 1)
    return np.asarray((best**2 * share_of_best**_SHARPNESS).sum(axis=0))


def snippet(words: Words, weights: NDArray[np.float64], n_words: int = SNIPPET_WORDS) -> str:
    """Return the run of ``n_words`` words with the largest weight.

    Of equal runs that overlap, the middle one, so that what matched does not stand at an edge;
    of several such places, the first.
    """
    n = len(words.texts)
    if n <= n_words:
        return words.text
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    runs = np.round(sums[n_words:] - sums[:-n_words], 9)  # equal runs must not differ by rounding
    best = np.flatnonzero(runs == runs.max()) if runs.any() else np.zeros(1, np.int64)
    n_overlapping = int(np.argmax(np.diff(best, append=n + 1) > 1)) + 1
    start = int(best[n_overlapping // 2])
    text = " ".join(words.texts[start : start + n_words])
    return ("… " if start else "") + text + (" …" if start + n_words < n else "")


def _centres_inside(words: Boxes, boxes: Boxes) -> NDArray[np.bool_]:
    """Tell which words' centres lie in which boxes: (boxes, W)."""
    centres = (words[:, :2].astype(np.int64) + words[:, 2:]) // 2  # (W, 2)
    inside = (centres >= boxes[:, None, :2]) & (centres <= boxes[:, None, 2:])
    return np.asarray(inside.all(axis=2))
