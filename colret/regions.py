"""A few readable rectangles around what matched on a page. Pure functions.

Parts of the page are put together into candidates: lines of words into passages, cells of an
image into connected hot spots. What a candidate contributes to the query is, token by token, the
largest gain inside it. The candidate that contributes most is the first region; what it has
given counts no more, and the next is chosen for the rest. Longer passages must contribute more:
of a heading and a sentence that says the same among other things, the heading is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colret.matches import Float64, Matches, PageBox, centres_inside, heat, in_points, token_gains
from colret.types import Boxes, Words

MAX_REGIONS: Final = 4
LARGEST_REGION: Final = 0.25
"""Share of the page that a region of several parts covers at most: more points nowhere."""

_LEAST_SHARE = 0.06  # of the query that a region contributes
_LENGTH_POWER = 0.25  # of a passage's words that its contribution is divided by: a doubling must bring 19 % more
_MOST_LINES = 6  # of a passage
_ANSWERED = 0.5  # of a token's largest gain
_TELLING_VECTORS = 512  # those that did most; the rest of a page of thousands would cost time for nothing
_HOT = (0.5, 0.65, 0.8, 0.95)  # shares of the largest heat; a spot that is too large is cut at the next

_SAME_LINE = 0.5  # of the lower word's height that two words of a line share
_WORD_GAP = 2.0  # heights between words of a line at most; more is another column or cell
_LINE_GAP = 1.0  # heights between lines of a passage at most
_LINE_HEIGHTS = 1.6  # the higher of two lines of a passage by the lower: a heading is a passage of its own
_OVERLAP = 0.2  # of the smaller of two regions at most: lines set tight touch each other
_TOUCHING = 66  # 1/65535 of the page between cells that touch: a thousandth


class Region(NamedTuple):
    """A rectangle that matched."""

    box: PageBox
    score: float  # share of the query that it adds to what was chosen before it; above 0, at most 1
    tokens: tuple[str, ...]  # those to which it gives at least half of what their best vector does


_Edges = tuple[float, float, float, float]


class _Candidate(NamedTuple):
    box: _Edges  # points
    gains: Float64  # (T,)
    length: float = 1.0  # what its contribution is divided by, to weigh it against others


def find_regions(matches: Matches, width: float, height: float, words: Words | None = None) -> tuple[Region, ...]:
    """Return at most ``MAX_REGIONS`` rectangles that hardly overlap, that which contributes most first.

    Of equal ones the first in reading order.

    Args:
        matches: Of the query and the page.
        width: Of the page, in points.
        height: Of the page, in points.
        words: The page's words, where vectors come from words; None where they come from cells
            of the page's image.
    """
    if not matches.similarities.size:
        return ()
    gains = token_gains(matches.similarities)
    total = float(gains.max(axis=1).sum())
    if total <= 0:
        return ()
    boxes = in_points(matches.boxes, width, height)
    candidates = (
        list(_hot_spots(matches, gains, boxes, width * height))
        if words is None
        else list(_passages(matches, gains, words, width, height))
    )
    chosen = _cover(matches.tokens, candidates, gains.max(axis=1), total)
    return tuple(sorted(chosen, key=lambda region: -round(region.score, 9)))


def _cover(tokens: Sequence[str], candidates: list[_Candidate], best: Float64, total: float) -> Iterator[Region]:
    """Choose candidates greedily by what they add for their length."""
    covered = np.zeros(len(tokens))
    gains = np.array([each.gains for each in candidates]).reshape(len(candidates), len(tokens))
    lengths = np.array([each.length for each in candidates])
    boxes = np.array([each.box for each in candidates]).reshape(len(candidates), 4)
    free = np.ones(len(candidates), bool)
    for _ in range(MAX_REGIONS):
        adds = np.clip(gains - covered, 0, None).sum(axis=1) / total
        free &= adds >= _LEAST_SHARE
        if not free.any():
            return
        chosen = int(np.where(free, np.round(adds / lengths, 9), 0).argmax())
        answered = np.flatnonzero((gains[chosen] - covered >= _ANSWERED * best) & (best > 0))
        yield Region(PageBox(*boxes[chosen].tolist()), float(adds[chosen]), tuple(tokens[i] for i in answered.tolist()))
        covered = np.maximum(covered, gains[chosen])
        free &= _shared(boxes, boxes[chosen]) <= _OVERLAP


def _shared(boxes: Float64, box: Float64) -> Float64:
    """Return the area that each box shares with ``box``, as a share of the smaller of both."""
    sides = np.clip(np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2]), 0, None)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1), (box[2:] - box[:2]).prod()
    return np.asarray(sides.prod(axis=1) / np.maximum(np.minimum(*areas), 1e-12))


def _passages(matches: Matches, gains: Float64, words: Words, width: float, height: float) -> Iterator[_Candidate]:
    """Yield every run of at most ``_MOST_LINES`` lines of one passage, in reading order, shorter ones first."""
    if not words.texts:
        return
    boxes = in_points(words.boxes, width, height)
    axes = _reading_axes(boxes)
    boxes = boxes[:, axes]
    of_line = _lines(boxes)
    lines = _united(boxes, of_line)
    of_lines = _line_gains(matches, gains, words.boxes, of_line)  # (T, lines)
    best_of_lines = np.ascontiguousarray(of_lines.T)
    edges = [(left, top, right, bottom) for left, top, right, bottom in lines[:, axes].tolist()]
    n_words = np.bincount(of_line).tolist()
    follows = [False, *(_goes_on(above, below) for above, below in pairwise(lines.tolist()))]
    for first in range(len(lines)):
        box, best, length = edges[first], best_of_lines[first], n_words[first]
        yield _Candidate(box, best, float(length) ** _LENGTH_POWER)
        for last in range(first + 1, min(first + _MOST_LINES, len(lines))):
            box = _joined(box, edges[last])
            if not follows[last] or _area(box) > LARGEST_REGION * width * height:
                break
            best = np.maximum(best, best_of_lines[last])
            length += n_words[last]
            yield _Candidate(box, best, float(length) ** _LENGTH_POWER)


def _reading_axes(boxes: Float64) -> list[int]:
    """Return the order of a box's edges in which lines run across: x and y swapped where the text is turned."""
    upright, turned = [0, 1, 2, 3], [1, 0, 3, 2]
    return turned if _lines(boxes[:, turned])[-1] < _lines(boxes)[-1] else upright


def _lines(boxes: Float64) -> NDArray[np.int64]:
    """Return which line each word is in, (W,) from 0: runs of words side by side, to the right or to the left."""
    before, after = boxes[:-1], boxes[1:]
    heights = np.minimum(before[:, 3] - before[:, 1], after[:, 3] - after[:, 1])
    shared = np.minimum(before[:, 3], after[:, 3]) - np.maximum(before[:, 1], after[:, 1])
    gap = np.maximum(after[:, 0] - before[:, 2], before[:, 0] - after[:, 2])  # negative where they overlap
    tall = np.maximum(before[:, 3] - before[:, 1], after[:, 3] - after[:, 1])
    same = (shared >= _SAME_LINE * heights) & (gap <= _WORD_GAP * tall)
    return np.concatenate([[0], np.cumsum(~same)]).astype(np.int64)


def _line_gains(matches: Matches, gains: Float64, words: Boxes, of_line: NDArray[np.int64]) -> Float64:
    """Return the largest gain of each token in each line, (T, lines).

    A vector of words in several lines, as pooling makes them, is shared among these.
    """
    telling = np.argsort(-gains.max(axis=0), kind="stable")[:_TELLING_VECTORS]
    inside = centres_inside(words, matches.boxes[telling])  # (telling, W)
    starts = np.flatnonzero(np.diff(of_line, prepend=-1))
    in_line = np.logical_or.reduceat(inside, starts, axis=1)  # (telling, lines)
    shares = in_line / np.maximum(in_line.sum(axis=1, keepdims=True), 1)
    return np.array([(token[telling, None] * shares).max(axis=0) for token in gains])


def _goes_on(above: Sequence[float], below: Sequence[float]) -> bool:
    """Tell whether a line and the next belong to one passage."""
    heights = sorted((above[3] - above[1], below[3] - below[1]))
    shared = min(above[2], below[2]) - max(above[0], below[0])
    gap = max(below[1] - above[3], above[1] - below[3])  # where text is turned, the next line may be on either side
    return bool(shared > 0 and heights[1] <= _LINE_HEIGHTS * heights[0] and gap <= _LINE_GAP * heights[1])


def _united(boxes: Float64, groups: NDArray[np.int64]) -> Float64:
    """Return the box around each run of boxes of one group, (groups, 4)."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    corners = np.minimum.reduceat(boxes[:, :2], starts), np.maximum.reduceat(boxes[:, 2:], starts)
    return np.hstack(corners)


def _hot_spots(matches: Matches, gains: Float64, boxes: Float64, page: float) -> Iterator[_Candidate]:
    """Yield connected hot cells in the order of their first cell, cut until they are small enough."""
    hot = heat(matches)
    pending = [(np.flatnonzero(hot >= _HOT[0] * hot.max()), 0)]
    while pending:
        cells, level = pending.pop(0)
        for spot in _connected(cells, matches.boxes):
            box = _around(boxes[spot])
            if _area(box) > LARGEST_REGION * page and level + 1 < len(_HOT):
                pending.append((spot[hot[spot] >= _HOT[level + 1] * hot.max()], level + 1))
            else:
                yield _Candidate(box, gains[:, spot].max(axis=1))


def _connected(cells: NDArray[np.int64], boxes: Boxes) -> list[NDArray[np.int64]]:
    """Return groups of cells that touch, at corners too."""
    from scipy.sparse.csgraph import connected_components

    own = boxes[cells].astype(np.int64)
    gaps = np.maximum(own[:, None, :2], own[None, :, :2]) - np.minimum(own[:, None, 2:], own[None, :, 2:])
    _, labels = connected_components((gaps <= _TOUCHING).all(axis=2), directed=False)
    return [cells[labels == label] for label in dict.fromkeys(labels.tolist())]


def _around(boxes: Float64) -> _Edges:
    left, top = boxes[:, :2].min(axis=0).tolist()
    right, bottom = boxes[:, 2:].max(axis=0).tolist()
    return left, top, right, bottom


def _joined(one: _Edges, other: _Edges) -> _Edges:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def _area(box: _Edges) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
