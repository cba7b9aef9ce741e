"""Pages that are nearly one, and queries on both sides of a split: what makes figures too good or too bad.

Two pages that look alike make a search fail that returns the unlabelled one, and leak an answer
from the queries that tuned a setting to those that test it. Near-duplicates are grouped by single
linkage: a chain of pages, each like the next, is one group although its ends may differ.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from colret_eval.matrices import Float32
from colret_eval.measures import Int64, Qrels, Run

Number = TypeVar("Number", int, float)

_TILE = 4096  # rows compared with as many others at once: 64 MB of similarities
_BLOCK = 1 << 22  # pairs kept before they are linked


class SharedQuery(NamedTuple):
    """A query that two sets hold, but for case, spaces and punctuation."""

    first: str  # query id in one set
    second: str  # query id in the other
    text: str


def identical(items: Sequence[Hashable]) -> Int64:
    """Return the position of the first item equal to each, (N,) int64: groups of identical images."""
    first: dict[Hashable, int] = {}
    return np.array([first.setdefault(item, place) for place, item in enumerate(items)], np.int64)


def similar(vectors: Float32, threshold: float) -> Int64:
    """Return groups of pages whose single vectors have a cosine of at least ``threshold``.

    Every pair is compared, tile by tile: N (N - 1) / 2 products of D numbers, two minutes for
    100,000 pages of 384 dimensions on two cores.

    Args:
        vectors: (N, D) float32, unit rows; a page without a vector is a row of zeros.
        threshold: Above 0.

    Returns:
        (N,) int64: the position of the first page of each page's group.

    Raises:
        ValueError: If the threshold isn't above 0.
    """
    _check_threshold(threshold)
    return _linked(len(vectors), _similar_pairs(vectors, threshold))


def alike(vectors: Float32, threshold: float, hashes: NDArray[np.uint64], radius: int) -> Int64:
    """Return groups of pages linked by pairs that are ``similar`` and whose perceptual hashes are near as well.

    Both must hold of a pair: groups of either criterion, intersected, would also put together two
    pages that a chain of pages links by vectors and another chain by hashes.

    Args:
        vectors: (N, D) float32, as for ``similar``.
        threshold: Likewise.
        hashes: (N,) uint64.
        radius: Bits in which the hashes of a pair may differ.

    Returns:
        (N,) int64: the position of the first page of each page's group.

    Raises:
        ValueError: If the threshold isn't above 0.
    """
    _check_threshold(threshold)
    pairs = _similar_pairs(vectors, threshold)
    near = (pair[np.bitwise_count(hashes[pair[:, 0]] ^ hashes[pair[:, 1]]) <= radius] for pair in pairs)
    return _linked(len(vectors), near)


def similar_across(first: Float32, second: Float32, threshold: float) -> Int64:
    """Return the pairs of rows of two sets with a cosine of at least ``threshold``: (E, 2) int64.

    For queries: (n, D) and (m, D) float32, unit rows. A test query that resembles a calibration
    query is no new one.
    """
    step = max(1, _TILE**2 // max(len(second), 1))
    blocks = []
    for start in range(0, len(first), step):
        rows, columns = np.nonzero(first[start : start + step] @ second.T >= threshold)
        blocks.append(np.stack([rows + start, columns], axis=1))
    return np.concatenate([*blocks, np.empty((0, 2), np.int64)]).astype(np.int64)


def joined(*groupings: Int64) -> Int64:
    """Return groups of pages that any of the groupings, each (N,), puts together.

    Raises:
        ValueError: If there are none, or they differ in length.
    """
    if len({len(groups) for groups in groupings}) != 1:
        raise ValueError("groupings of the same pages have one length")
    n = len(groupings[0])
    return components(n, np.concatenate([np.stack([np.arange(n), groups], axis=1) for groups in groupings]))


def components(n: int, pairs: Int64) -> Int64:
    """Return the connected components of n items linked by (E, 2) pairs.

    Returns:
        (n,) int64: the position of each component's first item.
    """
    return _linked(n, [pairs])


def representatives(keys: Sequence[str], groups: Int64) -> dict[str, str]:
    """Return for each page key the key that stands for its group of near-duplicates."""
    return {key: keys[group] for key, group in zip(keys, groups.tolist(), strict=True)}


def duplicate_groups(groups: Int64) -> list[list[int]]:
    """Return the positions of the pages of each group of two or more, the largest group first."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    members: list[list[int]] = [part.tolist() for part in np.split(order, starts) if len(part) > 1]
    return sorted(members, key=len, reverse=True)


def merged_qrels(qrels: Qrels, stands_for: Mapping[str, str]) -> Qrels:
    """Return qrels with one page per group: its grade is the highest of its pages'."""
    return {query_id: _best(grades, stands_for) for query_id, grades in qrels.items()}


def merged_run(run: Run, stands_for: Mapping[str, str]) -> Run:
    """Return a run with one page per group: its score is the best of its pages', the others leave their ranks.

    A run cut at k pages holds fewer after: cut it later, or further down.
    """
    return {query_id: _best(scores, stands_for) for query_id, scores in run.items()}


def shared_queries(first: Mapping[str, str], second: Mapping[str, str]) -> list[SharedQuery]:
    """Return the queries that two sets have in common, such as calibration and test.

    Texts are compared by their letters and digits in Unicode's compatibility form, case folded.

    Args:
        first: Query id to text.
        second: Likewise.
    """
    ids: dict[str, list[str]] = {}
    for query_id, text in first.items():
        ids.setdefault(_plain(text), []).append(query_id)
    return [
        SharedQuery(known, query_id, text) for query_id, text in second.items() for known in ids.get(_plain(text), ())
    ]


def shared_pages(first: Qrels, second: Qrels, stands_for: Mapping[str, str]) -> set[str]:
    """Return the pages, by their groups' representatives, that answer queries of both sets."""
    return _answers(first, stands_for) & _answers(second, stands_for)


def _answers(qrels: Qrels, stands_for: Mapping[str, str]) -> set[str]:
    relevant = (key for grades in qrels.values() for key, grade in grades.items() if grade > 0)
    return {stands_for.get(key, key) for key in relevant}


def _best(values: Mapping[str, Number], stands_for: Mapping[str, str]) -> dict[str, Number]:
    best: dict[str, Number] = {}
    for key, value in values.items():
        into = stands_for.get(key, key)
        best[into] = max(value, best.get(into, value))
    return best


def _plain(text: str) -> str:
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(words) or text


def _check_threshold(threshold: float) -> None:
    if not threshold > 0:
        raise ValueError(f"a threshold is above 0, not {threshold}")


def _similar_pairs(vectors: Float32, threshold: float) -> Iterator[Int64]:
    """Yield (E, 2) pairs of rows above the threshold, each pair once, from the tiles above the diagonal."""
    starts = range(0, len(vectors), _TILE)
    for row, column in combinations_with_replacement(starts, 2):
        similarities = vectors[row : row + _TILE] @ vectors[column : column + _TILE].T
        if similarities.max() >= threshold:  # seldom: nothing more to do for most tiles
            found = np.argwhere(similarities >= threshold).astype(np.int64) + np.array([row, column])
            yield found[found[:, 0] < found[:, 1]]


def _linked(n: int, pairs: Iterable[Int64]) -> Int64:
    """Return components as ``components``; pairs are linked in batches, so that few are held at once."""
    groups = np.arange(n, dtype=np.int64)
    held: list[Int64] = []
    n_held = 0
    for batch in pairs:
        held.append(batch)
        n_held += len(batch)
        if n_held > _BLOCK:
            groups, held, n_held = _link(groups, held), [], 0
    return _link(groups, held)


def _link(groups: Int64, pairs: Sequence[Int64]) -> Int64:
    """Return the groups after joining those of each pair."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(groups)
    rows, columns = np.concatenate([*pairs, np.stack([np.arange(n), groups], axis=1)]).T
    _, labels = connected_components(coo_array((np.ones(len(rows), np.bool_), (rows, columns)), shape=(n, n)), False)
    return _earliest(labels)


def _earliest(labels: Int64) -> Int64:
    """Return for each item the position of the first with its label."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return first[inverse].astype(np.int64)
