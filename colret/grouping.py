"""Groups of pages, and folds that part no group. Pure.

Near-duplicates are grouped by single linkage: a chain of pages, each like the next, is one group
although its ends may differ.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from colret.types import Float32, Int64

_TILE = 4096  # rows compared with as many others at once: 64 MB of similarities
_BLOCK = 1 << 22  # pairs kept before they are linked


class Groups:
    """Groups of n items that are united pair by pair.

    Args:
        n: Number of items, each a group of its own.
    """

    def __init__(self, n: int) -> None:
        self.of: Int64 = np.arange(n, dtype=np.int64)  # (n,): a number for each item, the same for those of one group
        self._members: dict[int, list[int]] = {}  # of groups of several

    def unite(self, first: int, second: int) -> None:
        """Put the groups of two items together; the smaller takes the number of the larger."""
        of = self.of.item
        small, large = sorted((of(first), of(second)), key=lambda group: len(self._members.get(group, ())))
        if small == large:
            return
        moved = self._members.pop(small, [small])
        self._members.setdefault(large, [large]).extend(moved)
        self.of[moved] = large

    def apart(self, pairs: Int64) -> Int64:
        """Return those of (E, 2) pairs whose items are in two groups."""
        return np.asarray(pairs[self.of[pairs[:, 0]] != self.of[pairs[:, 1]]])


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


def duplicate_groups(groups: Int64) -> list[list[int]]:
    """Return the positions of the pages of each group of two or more, the largest group first."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    members: list[list[int]] = [part.tolist() for part in np.split(order, starts) if len(part) > 1]
    return sorted(members, key=len, reverse=True)


def grouped_folds(groups: Sequence[int] | Sequence[str] | Int64, n_folds: int, rng: np.random.Generator) -> Int64:
    """Return a fold from 0 for each query, whole groups together and folds of about one size.

    Groups are taken from the largest down, equal ones in random order, each into the fold with
    the fewest queries.

    Args:
        groups: Group of each query, length Q, such as source documents.
        n_folds: Number of folds.
        rng: Randomness.

    Returns:
        (Q,) int64.

    Raises:
        ValueError: If there are fewer than 2 folds, or fewer groups than folds.
    """
    _, labels, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if not 2 <= n_folds <= len(sizes):
        raise ValueError(f"{len(sizes)} groups cannot be split into {n_folds} folds: at least 2, at most one a group")
    shuffled = rng.permutation(len(sizes))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    fold_of = np.empty(len(sizes), np.int64)
    filled = np.zeros(n_folds, np.int64)
    for group in order:
        fold_of[group] = filled.argmin()
        filled[fold_of[group]] += sizes[group]
    return fold_of[labels]


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
