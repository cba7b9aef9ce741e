"""Groups of near-duplicates against naive loops, planted pairs; folds that part no group."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colret import grouping
from colret.grouping import alike, components, duplicate_groups, grouped_folds, identical, joined, similar
from colret.types import Float32, Int64


def naive_groups(n: int, linked: Callable[[int, int], bool]) -> list[int]:
    """The first item of each item's group, found by spreading labels until nothing changes."""
    groups = list(range(n))
    for _ in range(n):
        for i, j in itertools.combinations(range(n), 2):
            if linked(i, j):
                groups[i] = groups[j] = min(groups[i], groups[j])
    return groups


def unit(vectors: Float32) -> Float32:
    rows: Float32 = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return rows


def test_identical_hashes() -> None:
    assert identical(["a", "b", "a", "c", "b"]).tolist() == [0, 1, 0, 3, 1]
    assert len(identical([])) == 0


@settings(deadline=None)
@given(seed=st.integers(0, 1000), threshold=st.sampled_from([0.1, 0.5]), radius=st.integers(0, 4))
def test_alike_equals_a_naive_loop(seed: int, threshold: float, radius: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, hashes = unit(rng.normal(size=(12, 3)).astype(np.float32)), rng.integers(0, 64, 12, dtype=np.uint64)
    near = [[float(v @ w) >= threshold for w in vectors] for v in vectors]
    found = alike(vectors, threshold, hashes, radius)
    expected = naive_groups(12, lambda i, j: near[i][j] and (int(hashes[i]) ^ int(hashes[j])).bit_count() <= radius)
    assert found.tolist() == expected


def test_a_pair_must_be_alike_in_both_ways() -> None:
    """The ends of the first chain are linked by vectors through page 1, by hashes through page 2: not by a pair."""
    angles = np.deg2rad([0, 20, 90, 40])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    hashes = np.array([0b0000, 0b11110000, 0b0011, 0b1111], np.uint64)
    assert alike(vectors, 0.9, hashes, 2).tolist() == [0, 1, 2, 3]
    assert similar(vectors, 0.9).tolist() == [0, 0, 2, 0]
    assert alike(vectors, 0.9, hashes, 8).tolist() == [0, 0, 2, 0]


@settings(deadline=None)
@given(seed=st.integers(0, 1000), threshold=st.sampled_from([0.3, 0.6, 0.9]), tile=st.sampled_from([1, 5, 4096]))
def test_similar_equals_a_naive_loop(seed: int, threshold: float, tile: int) -> None:
    vectors = unit(np.random.default_rng(seed).normal(size=(12, 4)).astype(np.float32))
    expected = naive_groups(12, lambda i, j: float(vectors[i] @ vectors[j]) >= threshold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "_TILE", tile)
        patch.setattr(grouping, "_BLOCK", tile)
        assert similar(vectors, threshold).tolist() == expected


def test_a_page_without_a_vector_resembles_none() -> None:
    assert similar(np.zeros((3, 4), np.float32), 0.1).tolist() == [0, 1, 2]


def test_chains_are_one_group() -> None:
    angles = np.deg2rad([0, 10, 20, 90])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert similar(vectors, 0.98).tolist() == [0, 0, 0, 3]


def test_a_planted_pair_among_many_is_found() -> None:
    rng = np.random.default_rng(1)
    vectors = unit(rng.normal(size=(3000, 64)).astype(np.float32))
    vectors[2500] = unit((vectors[17] + 0.01 * rng.normal(size=64).astype(np.float32))[None])[0]
    assert duplicate_groups(similar(vectors, 0.97)) == [[17, 2500]]
    hashes = rng.integers(0, 2**64, 3000, dtype=np.uint64)
    hashes[2500] = hashes[17] ^ np.uint64(0b1011)
    assert duplicate_groups(alike(vectors, 0.9, hashes, 4)) == [[17, 2500]]
    assert duplicate_groups(alike(vectors, 0.9, hashes, 2)) == []


def test_joined_groupings() -> None:
    by_hash, by_vector = np.array([0, 0, 2, 3, 4]), np.array([0, 1, 1, 3, 3])
    assert joined(by_hash, by_vector).tolist() == [0, 0, 0, 3, 3]
    assert joined(by_hash).tolist() == by_hash.tolist()


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=8))
def test_components_equal_a_naive_loop(pairs: list[tuple[int, int]]) -> None:
    found = components(8, np.array(pairs, np.int64).reshape(-1, 2))
    assert found.tolist() == naive_groups(8, lambda i, j: (i, j) in pairs or (j, i) in pairs)


def test_largest_groups_come_first() -> None:
    assert duplicate_groups(np.array([0, 1, 0, 1, 1, 5])) == [[1, 3, 4], [0, 2]]


@given(groups=st.lists(st.integers(0, 9), min_size=12, max_size=60), seed=st.integers(0, 5))
def test_folds_keep_groups_whole_and_even(groups: list[int], seed: int) -> None:
    n_folds = min(3, len(set(groups)))
    if n_folds < 2:
        return
    folds = grouped_folds(groups, n_folds, np.random.default_rng(seed))
    assert all(len({fold for fold, of in zip(folds, groups, strict=True) if of == group}) == 1 for group in groups)
    sizes: Int64 = np.bincount(folds, minlength=n_folds)
    largest = max(groups.count(group) for group in groups)
    assert sizes.min() > 0
    assert sizes.max() - sizes.min() <= largest


def test_folds_take_names_and_depend_on_the_generator() -> None:
    names = [f"d{i % 20}" for i in range(200)]
    first, again, other = (grouped_folds(names, 5, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert np.bincount(first).tolist() == [40] * 5


def test_errors() -> None:
    with pytest.raises(ValueError, match="above 0"):
        similar(np.zeros((1, 2), np.float32), 0.0)
    with pytest.raises(ValueError, match="above 0"):
        alike(np.zeros((1, 2), np.float32), 0.0, np.zeros(1, np.uint64), 2)
    with pytest.raises(ValueError, match="one length"):
        joined(np.arange(2), np.arange(3))
    with pytest.raises(ValueError, match="2 groups cannot be split into 3 folds"):
        grouped_folds(["a", "b", "b"], 3, np.random.default_rng(0))
