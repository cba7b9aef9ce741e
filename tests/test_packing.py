"""Packing: layouts by hand, and round trips at every dimension."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from colret.packing import pack_nibbles, pack_signs, unpack_nibbles, unpack_signs

SHAPES = array_shapes(min_dims=2, max_dims=2, max_side=20)


def test_signs_by_hand() -> None:
    row = np.array([[1, -1, 0, -0.5, -2, -3, -4, 5, 0.1, -0.1]], np.float32)
    assert pack_signs(row).tolist() == [[0b10000101, 0b01]]
    assert unpack_signs(np.array([[0b10000101, 0b01]], np.uint8), 10).tolist() == [[1, -1, 1, -1, -1, -1, -1, 1, 1, -1]]


def test_minus_zero_counts_as_positive_as_zero_does() -> None:
    assert pack_signs(np.array([[0.0, -0.0]], np.float32)).tolist() == [[0b11]]


def test_nibbles_by_hand() -> None:
    assert pack_nibbles(np.array([[1, 2, 3, 4]], np.uint8)).tolist() == [[0x31, 0x42]]
    assert pack_nibbles(np.array([[1, 2, 3]], np.uint8)).tolist() == [[0x31, 0x02]]
    assert pack_nibbles(np.array([[15]], np.uint8)).tolist() == [[0x0F]]
    assert unpack_nibbles(np.array([[0xF0, 0x78]], np.uint8), 4).tolist() == [[-15, 1, 15, -1]]


@given(signs=arrays(np.int8, SHAPES, elements=st.sampled_from([-1, 1])))
def test_signs_come_back(signs: NDArray[np.int8]) -> None:
    packed = pack_signs(signs)
    assert packed.shape == (len(signs), -(-signs.shape[1] // 8))
    assert packed.dtype == np.uint8
    unpacked = unpack_signs(packed, signs.shape[1])
    assert unpacked.dtype == np.int8
    assert np.array_equal(unpacked, signs)


@given(codes=arrays(np.uint8, SHAPES, elements=st.integers(0, 15)))
def test_nibbles_come_back_as_odd_numbers(codes: NDArray[np.uint8]) -> None:
    packed = pack_nibbles(codes)
    assert packed.shape == (len(codes), -(-codes.shape[1] // 2))
    assert packed.dtype == np.uint8
    unpacked = unpack_nibbles(packed, codes.shape[1])
    assert unpacked.dtype == np.int8
    assert np.array_equal(unpacked, 2 * codes.astype(int) - 15)


def test_nothing_packs_into_nothing() -> None:
    assert pack_signs(np.empty((0, 9), np.float32)).shape == (0, 2)
    assert pack_nibbles(np.empty((0, 9), np.uint8)).shape == (0, 5)
    assert unpack_signs(np.empty((0, 2), np.uint8), 9).shape == (0, 9)
    assert unpack_nibbles(np.empty((0, 5), np.uint8), 9).shape == (0, 9)
