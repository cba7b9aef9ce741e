"""Snippets: the words of a page that a query's tokens matched best."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from colret.types import WHOLE_PAGE, Boxes, Float32, QueryEmbedding, Words

SNIPPET_WORDS: Final = 30


def word_weights(query: QueryEmbedding, vectors: Float32, boxes: Boxes, words: Words) -> NDArray[np.float64]:
    """Return how much each word of a page did for a query's score.

    Each query token gives the words inside its best vector's box how far that vector's
    similarity stands above the token's mean over the page: a token that matches everywhere
    points nowhere.

    Args:
        query: T tokens.
        vectors: (P, D) float32, the page's vectors.
        boxes: (P, 4), where each vector comes from.
        words: The page's W words.

    Returns:
        (W,) float64, 0 where nothing matched.
    """
    weights = np.zeros(len(words.texts))
    similarities = query.vectors @ vectors.T  # (T, P)
    placed = np.any(boxes != np.array(WHOLE_PAGE), axis=1)
    if not placed.any() or not len(weights):
        return weights
    similarities = np.where(placed, similarities, -np.inf)
    gains = similarities.max(axis=1) - similarities[:, placed].mean(axis=1)
    for winner, gain in zip(similarities.argmax(axis=1), gains, strict=True):
        inside = _centres_inside(words.boxes, boxes[winner])
        weights[inside] += max(float(gain), 0.0) / max(int(inside.sum()), 1)
    return weights


def snippet(words: Words, weights: NDArray[np.float64], n_words: int = SNIPPET_WORDS) -> str:
    """Return the run of ``n_words`` words with the largest weight, the earliest of equals."""
    n = len(words.texts)
    if n <= n_words:
        return words.text
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    runs = np.round(sums[n_words:] - sums[:-n_words], 9)  # equal runs must not differ by rounding
    best = int(runs.argmax())
    start = _centred(weights[best : best + n_words], best, n_words, n)
    text = " ".join(words.texts[start : start + n_words])
    return ("… " if start else "") + text + (" …" if start + n_words < n else "")


def _centred(weights: NDArray[np.float64], start: int, n_words: int, n: int) -> int:
    """Move a run so that what matched stands in its middle."""
    matched = np.flatnonzero(weights > 0)
    if not len(matched):
        return start
    middle = start + int(matched[0] + matched[-1]) // 2
    return min(max(middle - n_words // 2, 0), n - n_words)


def _centres_inside(boxes: Boxes, box: NDArray[np.uint16]) -> NDArray[np.bool_]:
    centres = (boxes[:, :2].astype(np.int64) + boxes[:, 2:]) // 2  # (W, 2)
    inside = (centres >= box[:2]) & (centres <= box[2:])
    return np.asarray(inside.all(axis=1))
