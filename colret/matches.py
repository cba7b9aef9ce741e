"""Where on a page a query's tokens find what they look for. Pure functions.

What a vector does for a token is its *gain*: near the token's best vector nearly all, the rest
little; and a token that found something counts for more than one, such as an article, that is
nearly as far from everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colret.types import WHOLE_PAGE, Boxes, Float32, QueryEmbedding

Float64 = NDArray[np.float64]

FULL_HEAT: Final = 0.25
"""How far above a token's mean a similarity must stand at least to be shown as fully hot."""

_SHARPNESS = 4  # the power that a near-best similarity is raised to
_SPECIAL = re.compile(r"\[[^\[\]\s]+\]|<[^<>\s]+>")  # [CLS], [MASK], <pad>, <|endoftext|>
_PIECE_MARKS = re.compile("^##|[\u2581\u0120\u010a\u2191\\s]+")  # of WordPiece, SentencePiece, byte-level BPE


class PageBox(NamedTuple):
    """A rectangle on a page as displayed, in points from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


class TokenMatch(NamedTuple):
    """A query token and what it found on a page."""

    token: str
    similarity: float  # to the best vector that has a place, -1 to 1
    box: PageBox  # of that vector


@dataclass(frozen=True, slots=True)
class Matches:
    """A query against a page: the tokens of its text, the vectors that have a place."""

    tokens: tuple[str, ...]  # T
    similarities: Float64  # (T, P)
    boxes: Boxes  # (P, 4)

    @property
    def above(self) -> Float64:
        """(T, P): how far each similarity stands above the token's mean over the page."""
        if not self.similarities.size:
            return self.similarities
        return np.asarray(self.similarities - self.similarities.mean(axis=1, keepdims=True))

    @property
    def strength(self) -> float:
        """The largest of ``above``; 0 where there is nothing to compare."""
        return float(self.above.max(initial=0.0))


def match(query: QueryEmbedding, vectors: Float32, boxes: Boxes, *, template: str = "{}") -> Matches:
    """Compare a query with a page, leaving out what has no text or no place.

    Args:
        query: T tokens, among them special ones and those of a prompt.
        vectors: (P, D) float32, the page's vectors.
        boxes: (P, 4), where each vector comes from; the whole page is no place.
        template: How the encoder wraps queries: see ``EncoderInfo``.
    """
    placed = np.any(boxes != np.array(WHOLE_PAGE), axis=1)
    kept = content_tokens(query.tokens, template)
    similarities = query.vectors[kept].astype(np.float64) @ vectors[placed].astype(np.float64).T
    similarities = np.round(similarities, 9)  # equal vectors must not differ by rounding
    return Matches(tuple(plain_token(query.tokens[i]) or query.tokens[i] for i in kept), similarities, boxes[placed])


def content_tokens(tokens: Sequence[str], template: str = "{}") -> list[int]:
    """Return which tokens stand for a piece of the query's text.

    Left out are special tokens, white space, and those up to the last word of the prompt that
    ``template`` puts before the text. A query of nothing else keeps all its tokens.
    """
    plain = ["" if _SPECIAL.fullmatch(token) else plain_token(token) for token in tokens]
    prompt = template.partition("{}")[0].split()
    start = 0
    if prompt and not _SPECIAL.fullmatch(prompt[-1]):
        read = ""
        for i, token in enumerate(plain):
            read += token
            if read.casefold().endswith(prompt[-1].casefold()):
                start = i + 1
                break
    kept = [i for i, token in enumerate(plain) if token and i >= start]
    return kept or list(range(len(tokens)))


def plain_token(token: str) -> str:
    """Return a token without the marks that a tokenizer puts at the beginning of words or pieces."""
    return _PIECE_MARKS.sub("", token)


def token_gains(similarities: NDArray[np.floating]) -> Float64:
    """Return what each vector does for each token: best**2 * (above / best)**4, (T, P).

    ``above`` is how far a similarity stands above the token's mean over the page, 0 if it does
    not, and ``best`` the largest of the token's.
    """
    above = similarities.astype(np.float64) - similarities.mean(axis=1, keepdims=True)
    best = above.max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(best**2 * np.clip(above / np.maximum(best, 1e-12), 0, 1) ** _SHARPNESS)


def heat(matches: Matches, *, token: int | None = None, full: float = 0.0) -> Float64:
    """Return how hot each vector is, (P,) from 0 to 1: its largest gain for any token, normalised.

    Gains are divided by the square of the query's strength on the page, or of ``full`` or
    ``FULL_HEAT`` where these are larger: a page that does not match stays pale.

    Args:
        matches: Of the query and the page.
        token: Index of the one token to show; by default the largest over all.
        full: The query's strength on the page whose best place is to be fully hot, such as the first hit.
    """
    if not matches.similarities.size:
        return np.zeros(len(matches.boxes))
    gains = token_gains(matches.similarities)
    shown = gains if token is None else gains[token : token + 1]
    return np.asarray(shown.max(axis=0) / max(matches.strength, full, FULL_HEAT) ** 2)


def token_matches(matches: Matches, width: float, height: float) -> list[TokenMatch]:
    """Return each token's best vector, the first of equals; none where no vector has a place.

    Args:
        matches: Of the query and the page.
        width: Of the page, in points.
        height: Of the page, in points.
    """
    if not matches.similarities.size:
        return []
    best = matches.similarities.argmax(axis=1)
    boxes = in_points(matches.boxes[best], width, height)
    return [
        TokenMatch(token, float(matches.similarities[i, j]), PageBox(*box))
        for i, (token, j, box) in enumerate(zip(matches.tokens, best.tolist(), boxes.tolist(), strict=True))
    ]


def in_points(boxes: Boxes, width: float, height: float) -> Float64:
    """Return boxes in points, (n, 4) float64, on a page of that width and height."""
    return np.asarray(boxes.astype(np.float64) / 65535 * np.array([width, height, width, height]))


def centres_inside(words: Boxes, boxes: Boxes) -> NDArray[np.bool_]:
    """Tell which words' centres lie in which boxes: (boxes, W)."""
    x, y = ((words[:, :2].astype(np.int64) + words[:, 2:]) // 2).astype(np.uint16).T
    left, top, right, bottom = boxes.T[:, :, None]
    # One edge at a time: four comparisons of 16 bits, several times faster than one of pairs.
    inside = (x >= left) & (x <= right)
    inside &= y >= top
    inside &= y <= bottom
    return np.asarray(inside)
