"""Largest integer products of query tokens with pages' codes: compiled, or else by torch or numpy.

Every way gives the same integers, so scores and rankings do not depend on what is installed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from colret import kernels
from colret.packing import pack_signs, unpack_nibbles, unpack_signs
from colret.types import Int64, Multivectors, Values

BLOCK_VECTORS = 25_600
"""Page vectors per matrix product: the product of a block stays in the processor's cache."""

_EXACT_FLOAT32 = 2**24  # integers up to here, and so their sums in any order

Product = Callable[[NDArray[np.int8], NDArray[np.int8]], NDArray[np.int32]]


def best_products(codes: NDArray[np.int8], pages: Multivectors, rows: Int64 | None = None) -> NDArray[np.int32]:
    """Return, for each page and query token, the largest product with one of the page's vectors.

    Args:
        codes: (T, D) int8 from -127 to 127.
        pages: int8, int4 or binary; products are with the integers that their codes stand for.
        rows: (C,) which pages, in any order; all by default.

    Returns:
        (C, T) int32.
    """
    if kernels.available():
        return kernels.best_products(codes, pages, rows)
    return _best_in_blocks(codes, pages, rows)


def agreement_sums(signs: NDArray[np.int8], pages: Multivectors, rows: Int64 | None = None) -> Int64:
    """Return the sum over tokens of the largest product of signs, (C,) int64.

    Args:
        signs: (T, D) int8 of 1 and -1.
        pages: binary.
        rows: As for ``best_products``.
    """
    if kernels.available():
        return kernels.agreement_sums(pack_signs(signs), pages, rows)
    return np.asarray(_best_in_blocks(signs, pages, rows).sum(axis=1, dtype=np.int64))


def arithmetic() -> tuple[str, bool]:
    """Return the name of what multiplies here, and whether it is the compiled kernels."""
    if kernels.available():
        return f"compiled kernels ({kernels.instruction_sets()[0]})", True
    return "torch" if torch_product_is_exact() else "numpy", False


def blocks(
    pages: Multivectors, rows: Int64 | None, n_vectors: int = BLOCK_VECTORS
) -> Iterator[tuple[slice, Values, Int64]]:
    """Yield the pages asked for in blocks of about ``n_vectors`` vectors, at least one page each.

    Yields:
        Which of the C pages asked for; their values, (n, ...); where each starts in them, and n.
    """
    wanted = np.arange(len(pages)) if rows is None else rows
    ends = np.concatenate([[0], np.cumsum(np.diff(pages.offsets)[wanted])])
    first = 0
    while first < len(wanted):
        last = int(np.searchsorted(ends, ends[first] + n_vectors, side="right")) - 1
        last = min(max(last, first + 1), len(wanted))
        if rows is None:
            values = pages.values[pages.offsets[first] : pages.offsets[last]]
        else:
            values = _gathered(pages, rows[first:last])
        yield slice(first, last), values, ends[first : last + 1] - ends[first]
        first = last


def _gathered(pages: Multivectors, rows: Int64) -> Values:
    starts, lengths = pages.offsets[rows], np.diff(pages.offsets)[rows]
    ends = np.cumsum(lengths)
    values: Values = pages.values[np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1])]
    return values


def integers(values: Values, pages: Multivectors) -> NDArray[np.int8]:
    """Return the integers, (n, D) int8, that rows of int8, int4 or binary ``pages`` stand for."""
    if pages.coding == "int4":
        return unpack_nibbles(np.asarray(values, np.uint8), pages.dim)
    if pages.coding == "binary":
        return unpack_signs(np.asarray(values, np.uint8), pages.dim)
    return np.asarray(values, np.int8)


def _best_in_blocks(codes: NDArray[np.int8], pages: Multivectors, rows: Int64 | None) -> NDArray[np.int32]:
    # At D = 1 a transposed matrix looks like its own transpose, and _int_mm mistakes it.
    product = _torch_product if codes.shape[1] > 1 and torch_product_is_exact() else _numpy_product
    best = np.empty((len(pages) if rows is None else len(rows), len(codes)), np.int32)
    for place, values, starts in blocks(pages, rows, BLOCK_VECTORS * 64 // max(len(codes), 64)):
        products = product(codes, integers(values, pages))  # (T, vectors of the block)
        best[place] = np.maximum.reduceat(products, starts[:-1], axis=1).T
    return best


def _torch_product(left: NDArray[np.int8], right: NDArray[np.int8]) -> NDArray[np.int32]:
    import torch

    if not right.flags.writeable:
        right = right.copy()  # torch would warn
    return np.asarray(torch._int_mm(torch.from_numpy(left), torch.from_numpy(right).T).numpy(), np.int32)


def _numpy_product(left: NDArray[np.int8], right: NDArray[np.int8]) -> NDArray[np.int32]:
    """Multiply in floating point, where every sum is an integer that it holds exactly."""
    if left.shape[1] * 127**2 < _EXACT_FLOAT32:
        return np.asarray(left.astype(np.float32) @ right.astype(np.float32).T, np.int32)
    return np.asarray(left.astype(np.float64) @ right.astype(np.float64).T, np.int32)


@functools.cache
def torch_product_is_exact() -> bool:
    """Check once per process that torch multiplies int8 matrices here without saturating.

    Some processors' int8 instructions take one operand as unsigned, which oneDNN arranges by
    adding 128, and add pairs of products in 16 bits: the largest values on the left overflow
    them, whatever stands on the right.
    """
    left = np.full((3, 130), 127, np.int8)
    left[1] = -127
    right = np.where(np.arange(130 * 70).reshape(70, 130) % 3, 127, -127).astype(np.int8)
    try:
        product = _torch_product(left, right)
    except (AttributeError, ImportError, NotImplementedError, RuntimeError):
        return False
    return bool(np.array_equal(product, _numpy_product(left, right)))
