"""Sign bits and nibbles packed into bytes, and back: the layouts of ``Multivectors``. Pure functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NIBBLE_OFFSET = 15
"""The code c of a nibble stands for the odd number 2c - 15: as many above zero as below."""


def pack_signs(vectors: NDArray[np.number[Any]]) -> NDArray[np.uint8]:
    """Return a bit for each component of (n, D) vectors, set where it is not negative.

    Returns:
        (n, ceil(D/8)) uint8; dimension j is bit j % 8 of byte j // 8, padding is zero bits.
    """
    return np.packbits(np.greater_equal(vectors, 0), axis=-1, bitorder="little")


def unpack_signs(bits: NDArray[np.uint8], dim: int) -> NDArray[np.int8]:
    """Return (n, D) int8 of 1 and -1 from ``pack_signs``'s (n, ceil(D/8)) bytes."""
    ones = np.unpackbits(bits, axis=-1, count=dim, bitorder="little").view(np.int8)
    return np.asarray(2 * ones - 1, np.int8)


def pack_nibbles(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return two codes (n, D), each from 0 to 15, in a byte.

    Returns:
        (n, ceil(D/2)) uint8; the low half of byte j is dimension j, the high half is dimension
        ceil(D/2) + j or, past the last, zero: a vector of bytes unpacks into two runs of dimensions.
    """
    half = -(-codes.shape[-1] // 2)
    packed = codes[..., :half].copy()
    packed[..., : codes.shape[-1] - half] |= codes[..., half:] << 4
    return packed


def unpack_nibbles(packed: NDArray[np.uint8], dim: int) -> NDArray[np.int8]:
    """Return the odd numbers from -15 to 15, (n, D) int8, of ``pack_nibbles``'s (n, ceil(D/2)) bytes."""
    codes = np.concatenate([packed & 15, packed >> 4], axis=-1)[..., :dim].view(np.int8)
    return np.asarray(2 * codes - NIBBLE_OFFSET, np.int8)
