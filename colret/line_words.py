"""The words of one line that was read as a whole, and where each lies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from colret.characters import split_at_ideographs


def place_words(
    text: str, chars: Sequence[tuple[str, NDArray[np.float64]]], quad: NDArray[np.float64]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield the words of one line and, for each, points that its box must hold.

    Args:
        text: Of the line.
        chars: Its characters but for white space, each with the (4, 2) corners of its place;
            where they do not spell ``text``, words get the line's share of their characters.
        quad: (4, 2) corners of the line: the first two are its upper edge.
    """
    spelt = "".join(char for char, _ in chars) == "".join(text.split())
    done = 0
    search_from = 0
    for word in split_at_ideographs(text):
        if spelt:
            # One entry may be several characters ("".join above), so count what is used up.
            taken, length = done, 0
            while length < len(word):
                length += len(chars[taken][0])
                taken += 1
            yield word, np.concatenate([corners for _, corners in chars[done:taken]])
            done = taken
        else:
            start = text.index(word, search_from)
            search_from = start + len(word)
            yield word, _share(quad, start / len(text), search_from / len(text))


def _share(quad: NDArray[np.float64], start: float, end: float) -> NDArray[np.float64]:
    """Return the corners of the part of a line from ``start`` to ``end``, both of 0..1."""
    upper_left, upper_right, lower_right, lower_left = quad
    return np.array(
        [
            upper_left + start * (upper_right - upper_left),
            upper_left + end * (upper_right - upper_left),
            lower_left + start * (lower_right - lower_left),
            lower_left + end * (lower_right - lower_left),
        ]
    )
