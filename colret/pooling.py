"""Fewer vectors a page: clusters of alike vectors, or runs in reading order. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colret.types import WHOLE_PAGE, Boxes, Float32, Int64

RUN_VECTORS = 4096
"""Vectors clustered together: the distances of so many take about 180 MB."""


def ward_pool(vectors: Float32, boxes: Boxes, factor: int, *, like_engine: bool = False) -> tuple[Float32, Boxes]:
    """Merge the most alike vectors of a page until one in ``factor`` is left.

    Token pooling of Clavié, Chaffin and Adams, "Reducing the Footprint of Multi-Vector
    Retrieval with Minimal Performance Impact via Token Pooling" (2024): Ward's hierarchical
    clustering, each cluster standing as the mean direction of its members. A page of more than
    ``RUN_VECTORS`` vectors is clustered in runs of that many.

    Args:
        vectors: (P, D) float32, unit rows; P may be 0.
        boxes: (P, 4) uint16.
        factor: At least 1, which leaves the page as it is.
        like_engine: Cluster as colpali-engine's ``HierarchicalTokenPooler`` does, into
            max(1, P // factor) clusters or fewer, by the Euclidean distance between rows of the
            matrix of cosine distances: some ten times slower.

    Returns:
        (ceil(P / factor), D) float32 unit rows, ordered by their first member, and the box around
        each cluster's members, those that are the whole page left out unless all are.

    Raises:
        ValueError: If ``factor`` is below 1, or not each vector has its box.
    """
    if factor < 1:
        raise ValueError(f"a pool factor is at least 1, not {factor}")
    if len(boxes) != len(vectors):
        raise ValueError(f"{len(vectors)} vectors need as many boxes, not {len(boxes)}")
    if factor == 1 or len(vectors) < 2:
        return vectors, boxes
    if like_engine:
        members = _group(_engine_clusters(vectors, max(1, len(vectors) // factor)))
    else:
        members = _group(_ward_clusters(vectors, factor))
    return _mean_directions(vectors, *members), _united(boxes, *members)


def block_means(vectors: Float32, n_blocks: int) -> Float32:
    """Return the mean direction of each of ``n_blocks`` runs of vectors: a sketch of a page.

    Args:
        vectors: (P, D) float32, unit rows in reading order.
        n_blocks: At least 1.

    Returns:
        (min(n_blocks, P), D) float32 unit rows. Lengths of the runs differ by one at most.

    Raises:
        ValueError: If ``n_blocks`` is below 1.
    """
    if n_blocks < 1:
        raise ValueError(f"a page has at least 1 block, not {n_blocks}")
    n_vectors = len(vectors)
    n_blocks = min(n_blocks, n_vectors)
    if n_blocks == n_vectors:
        return vectors
    starts = np.arange(n_blocks) * n_vectors // n_blocks
    return _mean_directions(vectors, np.arange(n_vectors), starts)


def _ward_clusters(vectors: Float32, factor: int) -> Int64:
    """Return the cluster of each vector, (P,): ceil(P / factor) clusters in all."""
    clusters = np.empty(len(vectors), np.int64)
    n_clusters = 0
    for start, end in _runs(len(vectors), factor):
        n_wanted = -(-(end - start) // factor)
        clusters[start:end] = _cut(_merges(vectors[start:end]), n_wanted) + n_clusters
        n_clusters += n_wanted
    return clusters


def _runs(n_vectors: int, factor: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of runs of ``RUN_VECTORS`` or less, all but the last a multiple of ``factor``."""
    length = max(RUN_VECTORS // factor, 1) * factor
    for start in range(0, n_vectors, length):
        yield start, min(start + length, n_vectors)


def _merges(vectors: Float32) -> Int64:
    """Return Ward's merges of P vectors in order, (P - 1, 2): P + i is what merge i makes."""
    from scipy.cluster.hierarchy import ward
    from scipy.spatial.distance import squareform

    if len(vectors) < 2:
        return np.empty((0, 2), np.int64)
    # Unit rows: the squared distance is 2 - 2 cos, and one product gives them all.
    squared = np.maximum(2 - 2 * (vectors @ vectors.T), 0)
    distances = np.sqrt(squareform(squared, checks=False))
    return np.asarray(ward(distances)[:, :2], np.int64)


def _cut(merges: Int64, n_clusters: int) -> Int64:
    """Return the cluster of each of P vectors after the first P - ``n_clusters`` merges, (P,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_vectors = len(merges) + 1
    done = merges[: n_vectors - n_clusters]
    made = np.repeat(n_vectors + np.arange(len(done)), 2)
    n_nodes = n_vectors + len(done)
    joined = coo_array((np.ones(len(made), np.int8), (made, done.ravel())), shape=(n_nodes, n_nodes))
    return np.asarray(connected_components(joined, directed=False)[1][:n_vectors], np.int64)


def _engine_clusters(vectors: Float32, most: int) -> Int64:
    """Return the cluster of each vector, (P,), where equal distances may leave fewer than ``most``."""
    from scipy.cluster.hierarchy import fcluster, ward
    from scipy.spatial.distance import pdist

    merges = ward(pdist(1 - vectors @ vectors.T))
    return np.asarray(fcluster(merges, most, criterion="maxclust"), np.int64)


def _group(clusters: Int64) -> tuple[Int64, Int64]:
    """Return the vectors sorted by the first member of their cluster, (P,), and where each cluster starts."""
    _, first, inverse = np.unique(clusters, return_index=True, return_inverse=True)
    leaders = first[inverse]
    order = np.argsort(leaders, kind="stable")
    starts = np.searchsorted(leaders[order], np.sort(first))
    return order, starts


def _mean_directions(vectors: Float32, order: Int64, starts: Int64) -> Float32:
    """Return the unit vector along the mean of each segment of ``vectors[order]``.

    Vectors that cancel out have no mean direction: the first of them stands for all.
    """
    sums = np.add.reduceat(vectors[order].astype(np.float64), starts, axis=0)
    counts = np.diff(starts, append=len(order))[:, None]
    cancelled = np.linalg.norm(sums, axis=1, keepdims=True) < 1e-6 * counts
    sums = np.where(cancelled, vectors[order[starts]], sums)
    return np.asarray(sums / np.linalg.norm(sums, axis=1, keepdims=True), np.float32)


def _united(boxes: Boxes, order: Int64, starts: Int64) -> Boxes:
    """Return the box around each segment of ``boxes[order]``: the whole page has no say beside a place on it."""
    ordered = boxes[order].astype(np.int64)
    placed = (ordered != WHOLE_PAGE).any(axis=1, keepdims=True)
    low = np.minimum.reduceat(np.where(placed, ordered[:, :2], WHOLE_PAGE[2]), starts, axis=0)
    high = np.maximum.reduceat(np.where(placed, ordered[:, 2:], 0), starts, axis=0)
    any_placed = np.logical_or.reduceat(placed, starts, axis=0)
    return np.asarray(np.where(any_placed, np.hstack([low, high]), WHOLE_PAGE), np.uint16)
