"""Pooling: counts and shapes, cases by hand, Ward's definition step by step, the engine's own pooler."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from colret import pooling
from colret.encoders.torchvision_guard import import_torchvision
from colret.pooling import block_means, ward_pool
from colret.types import WHOLE_PAGE, Boxes, Float32

SEEDS = st.integers(0, 2**32 - 1)
EAST, WEST, NORTH = [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]


def unit_rows(n: int, dim: int, seed: int) -> Float32:
    rows = np.random.default_rng(seed).normal(size=(n, dim))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def row_boxes(n: int) -> Boxes:
    """One box a vector that tells which it is: row i of the page."""
    rows = np.arange(n)
    return np.stack([rows, rows, rows + 1, rows + 1], axis=1).astype(np.uint16)


def direction(vectors: list[list[float]]) -> list[float]:
    """The mean's direction, by a loop."""
    mean = [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]
    length = sum(x * x for x in mean) ** 0.5
    return [x / length for x in mean]


def naive_ward(vectors: Float32, n_clusters: int) -> tuple[list[list[int]], float]:
    """Merge the two clusters that raise the squared error least, until so many are left.

    Also returns by how much any choice was clearer than the next best.
    """
    rows = vectors.astype(np.float64)
    clusters = [[i] for i in range(len(rows))]
    clearest = np.inf
    while len(clusters) > n_clusters:
        costs = []
        for i, first in enumerate(clusters):
            for second in clusters[:i]:
                distance = rows[first].mean(axis=0) - rows[second].mean(axis=0)
                weight = len(first) * len(second) / (len(first) + len(second))
                costs.append((weight * float(distance @ distance), first, second))
        costs.sort(key=lambda cost: cost[0])
        if len(costs) > 1:
            clearest = min(clearest, costs[1][0] - costs[0][0])
        _, first, second = costs[0]
        clusters = [c for c in clusters if c is not first and c is not second] + [sorted(first + second)]
    return sorted(clusters), clearest


@settings(deadline=None)  # the first call imports SciPy
@given(n=st.integers(0, 40), factor=st.integers(1, 50), dim=st.integers(1, 5), seed=SEEDS)
def test_one_vector_in_factor_is_left_at_unit_length(n: int, factor: int, dim: int, seed: int) -> None:
    vectors, boxes = ward_pool(unit_rows(n, dim, seed), row_boxes(n), factor)
    assert vectors.shape == (-(-n // factor), dim)
    assert boxes.shape == (len(vectors), 4)
    assert vectors.dtype == np.float32
    assert boxes.dtype == np.uint16
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@settings(deadline=None)
@given(n=st.integers(2, 12), factor=st.integers(2, 6), seed=SEEDS)
def test_clusters_are_those_of_wards_definition(n: int, factor: int, seed: int) -> None:
    vectors = unit_rows(n, 4, seed)
    clusters, clearest = naive_ward(vectors, -(-n // factor))
    assume(clearest > 1e-4)  # else rounding may choose
    pooled, boxes = ward_pool(vectors, row_boxes(n), factor)
    for members, vector, box in zip(clusters, pooled, boxes, strict=True):
        np.testing.assert_allclose(vector, direction(vectors[members].tolist()), atol=1e-5)
        assert box.tolist() == [members[0], members[0], members[-1] + 1, members[-1] + 1]


@pytest.mark.parametrize("like_engine", [False, True])
def test_alike_vectors_are_merged_and_their_boxes_united(like_engine: bool) -> None:
    vectors = np.array([EAST, NORTH, [0.8, 0.6], [-0.6, 0.8]], np.float32)
    boxes = np.array([[10, 10, 20, 20], [0, 50, 5, 55], [30, 5, 40, 15], WHOLE_PAGE], np.uint16)
    pooled, united = ward_pool(vectors, boxes, 2, like_engine=like_engine)
    np.testing.assert_allclose(pooled, [direction([EAST, [0.8, 0.6]]), direction([NORTH, [-0.6, 0.8]])], atol=1e-6)
    assert united.tolist() == [[10, 5, 40, 20], [0, 50, 5, 55]]


def test_what_has_no_place_stays_without_one() -> None:
    _, united = ward_pool(np.array([EAST, EAST], np.float32), np.array([WHOLE_PAGE, WHOLE_PAGE], np.uint16), 2)
    assert united.tolist() == [list(WHOLE_PAGE)]


@pytest.mark.parametrize("like_engine", [False, True])
def test_vectors_that_cancel_leave_the_first(like_engine: bool) -> None:
    pooled, _ = ward_pool(np.array([WEST, EAST], np.float32), row_boxes(2), 2, like_engine=like_engine)
    assert pooled.tolist() == [WEST]


@pytest.mark.parametrize("like_engine", [False, True])
def test_factor_one_and_a_single_vector_change_nothing(like_engine: bool) -> None:
    for n, factor in ((5, 1), (1, 7), (0, 3)):
        vectors, boxes = unit_rows(n, 3, seed=2), row_boxes(n)
        pooled, united = ward_pool(vectors, boxes, factor, like_engine=like_engine)
        np.testing.assert_array_equal(pooled, vectors)
        np.testing.assert_array_equal(united, boxes)


def test_equal_vectors_are_still_cut_to_the_number_asked_for() -> None:
    pooled, _ = ward_pool(np.tile(unit_rows(1, 8, seed=3), (30, 1)), row_boxes(30), 4)
    assert len(pooled) == 8
    assert len(np.unique(pooled.round(5), axis=0)) == 1


@settings(deadline=None)
@given(n=st.integers(1, 60), factor=st.integers(2, 9), seed=SEEDS)
def test_a_long_page_is_clustered_in_runs(n: int, factor: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "RUN_VECTORS", 13)
        _, boxes = ward_pool(unit_rows(n, 4, seed), row_boxes(n), factor)
    length = 13 // factor * factor
    assert len(boxes) == -(-n // factor)
    assert all(top // length == (bottom - 1) // length for _, top, _, bottom in boxes.tolist())


# SciPy rightly finds what the engine clusters suspicious: distances taken for observations.
@pytest.mark.filterwarnings("ignore::scipy.cluster.hierarchy.ClusterWarning")
@pytest.mark.parametrize(("n", "factor"), [(100, 2), (101, 3), (333, 4), (64, 25), (5, 9), (2, 2), (40, 1)])
def test_engine_mode_gives_what_the_engine_gives(n: int, factor: int) -> None:
    import_torchvision()
    from colpali_engine.compression.token_pooling import HierarchicalTokenPooler

    vectors, boxes = unit_rows(n, 16, seed=n), row_boxes(n)
    output = HierarchicalTokenPooler().pool_embeddings(
        [torch.from_numpy(vectors)], return_dict=True, pool_factor=factor
    )
    pooled, united = ward_pool(vectors, boxes, factor, like_engine=True)
    engine = output.pooled_embeddings[0].numpy()
    if factor > 1:
        members = [indices[0].tolist() for indices in output.cluster_id_to_indices[0].values()]
        order = np.argsort([min(indices) for indices in members])
        engine = engine[order]
        spans = [(min(indices), max(indices) + 1) for indices in members]
        assert united[:, [1, 3]].tolist() == [list(spans[i]) for i in order]
    np.testing.assert_allclose(pooled, engine, atol=1e-6)


@given(n=st.integers(1, 30), n_blocks=st.integers(1, 40), dim=st.integers(2, 5), seed=SEEDS)
def test_block_means_equal_a_loop(n: int, n_blocks: int, dim: int, seed: int) -> None:
    vectors = unit_rows(n, dim, seed)
    means = block_means(vectors, n_blocks)
    assert means.dtype == np.float32
    n_blocks = min(n, n_blocks)
    bounds = [n * i // n_blocks for i in range(n_blocks + 1)]
    blocks = [vectors[start:end] for start, end in pairwise(bounds)]
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    assume(min(np.linalg.norm(block.mean(axis=0)) for block in blocks) > 1e-2)
    np.testing.assert_allclose(means, [direction(block.tolist()) for block in blocks], atol=1e-4)


def test_a_block_that_cancels_leaves_its_first_vector() -> None:
    assert block_means(np.array([EAST, WEST, NORTH, NORTH], np.float32), 2).tolist() == [EAST, NORTH]


def test_block_means_of_no_vectors_are_none() -> None:
    assert block_means(np.empty((0, 3), np.float32), 4).shape == (0, 3)


def test_nonsense_is_refused() -> None:
    vectors = unit_rows(3, 2, seed=0)
    with pytest.raises(ValueError, match="factor is at least 1"):
        ward_pool(vectors, row_boxes(3), 0)
    with pytest.raises(ValueError, match="as many boxes"):
        ward_pool(vectors, row_boxes(2), 2)
    with pytest.raises(ValueError, match="at least 1 block"):
        block_means(vectors, 0)
