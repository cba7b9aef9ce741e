"""Word pieces of a page: cut into windows, put between special tokens, traced to their words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from colret.types import WHOLE_PAGE, Boxes, Int64, Words

NO_PIECE = -1
"""Stands for a special token where pieces are numbered, and is the index of its box."""


def windows(n_pieces: int, longest: int) -> Iterator[Int64]:
    """Yield the numbers of pieces cut into windows of two lengths at most, each length as (n, length)."""
    nwindows = -(-n_pieces // longest)
    length, n_longer = divmod(n_pieces, nwindows)
    longer, others = np.split(np.arange(n_pieces), [n_longer * (length + 1)])
    for numbers, size in ((longer, length + 1), (others, length)):
        if len(numbers):
            yield numbers.reshape(-1, size)


def framed(rows: Int64, before: Sequence[int], after: Sequence[int]) -> Int64:
    """Put the same values before and after each row."""
    n = len(rows)
    return np.hstack([np.tile(np.array(before, np.int64), (n, 1)), rows, np.tile(np.array(after, np.int64), (n, 1))])


def piece_boxes(words: Words, offsets: Sequence[tuple[int, int]]) -> Boxes:
    """Return the box of the word that each piece is from, (n + 1, 4): the last is that of no piece.

    A piece may begin with the space before its word, or be that space.
    """
    starts = np.cumsum([0] + [len(word) + 1 for word in words.texts[:-1]]) - 1
    ends = np.array([end for _, end in offsets], np.int64)
    of_word = np.searchsorted(starts, ends - 1, side="right") - 1
    whole = np.array([WHOLE_PAGE], np.uint16)
    return np.concatenate([words.boxes[np.maximum(of_word, 0)], whole])
