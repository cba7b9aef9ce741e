"""Snippets: the words of a page that a query's tokens matched best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colret.characters import running_text, spaces_before
from colret.matches import Matches, centres_inside, token_gains
from colret.types import Words

SNIPPET_WORDS: Final = 30
_TELLING_VECTORS = 256  # those that did most; the rest of a page of thousands would cost time for nothing
_HIGHLIGHTED = 0.2  # of the page's largest weight


class Snippet(NamedTuple):
    """A run of a page's words, and what of it matched."""

    text: str
    highlights: tuple[tuple[int, int], ...]  # spans of matched words in characters of ``text``: start, end

    def marked(self, before: str, after: str) -> str:
        """Return the text with ``before`` and ``after`` around each span."""
        parts, at = [], 0
        for start, end in self.highlights:
            parts += [self.text[at:start], before, self.text[start:end], after]
            at = end
        return "".join([*parts, self.text[at:]])


def word_weights(matches: Matches, words: Words) -> NDArray[np.float64]:
    """Return how much each word of a page did for a query's score.

    A vector counts by its gains (``matches.token_gains``): a token that matches everywhere
    points nowhere. A word counts as its best vector does, shared with the other words in that
    vector's box.

    Args:
        matches: Of the query and the page.
        words: The page's W words.

    Returns:
        (W,) float64, 0 where nothing matched.
    """
    if not matches.similarities.size or not words.texts:
        return np.zeros(len(words.texts))
    gains = token_gains(matches.similarities).sum(axis=0)  # (P,)
    telling = np.argsort(-gains, kind="stable")[:_TELLING_VECTORS]
    inside = centres_inside(words.boxes, matches.boxes[telling])  # (telling, W)
    shares = gains[telling, None] * inside / np.maximum(inside.sum(axis=1), 1)[:, None]
    return np.asarray(shares.max(axis=0), np.float64)


def snippet(words: Words, weights: NDArray[np.float64], n_words: int = SNIPPET_WORDS) -> Snippet:
    """Return the run of ``n_words`` words with the largest weight, in reading order.

    Of equal runs that overlap, the middle one, so that what matched does not stand at an edge;
    of several such places, the first. Highlighted are words of at least a fifth of the page's
    largest weight.
    """
    start, end = _heaviest_run(weights, n_words)
    before = "… " if start else ""
    shown = words.texts[start:end]
    text = before + running_text(shown) + (" …" if end < len(words.texts) else "")
    matched = weights[start:end] >= max(_HIGHLIGHTED * weights.max(initial=0.0), 1e-12)
    return Snippet(text, tuple(_spans(shown, matched, len(before))))


def _heaviest_run(weights: NDArray[np.float64], n_words: int) -> tuple[int, int]:
    n = len(weights)
    if n <= n_words:
        return 0, n
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    runs = np.round(sums[n_words:] - sums[:-n_words], 9)  # equal runs must not differ by rounding
    best = np.flatnonzero(runs == runs.max()) if runs.any() else np.zeros(1, np.int64)
    n_overlapping = int(np.argmax(np.diff(best, append=n + 1) > 1)) + 1
    start = int(best[n_overlapping // 2])
    return start, start + n_words


def _spans(texts: Sequence[str], matched: NDArray[np.bool_], at: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of matched words, those side by side as one; ``at`` is where the first word begins."""
    begin = end = at
    inside = False
    for space, text, is_matched in zip(spaces_before(texts), texts, matched.tolist(), strict=True):
        if inside and not is_matched:
            yield begin, end
        if is_matched and not inside:
            begin = end + len(space)
        inside = is_matched
        end += len(space) + len(text)
    if inside:
        yield begin, end
