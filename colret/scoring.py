"""MaxSim over packed ragged multivectors: pure functions.

MaxSim of a query q and a page p is the sum, over the T query tokens, of the largest
similarity that the token has with any of the page's P vectors (ColBERT, Khattab and
Zaharia 2020, eq. 3). Pages are packed (``Multivectors``), so it is one matrix product and
a maximum over segments; on a CPU a page's score never depends on the pages scored with it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colret.types import Float32, Int64, Multivectors

if TYPE_CHECKING:
    import torch

BLOCK_VECTORS = 25_600
"""Page vectors per matrix product: the product of a block stays in the processor's cache."""


def normalize_rows(vectors: NDArray[np.float32]) -> Float32:
    """Scale each row to unit length; the one place where vectors become directions.

    Args:
        vectors: (n, D) float32.

    Returns:
        (n, D) float32, unit rows.

    Raises:
        ValueError: If a row is zero, infinite or not a number: it has no direction.
    """
    # In float64: squares of float32 overflow from 1e19 on and vanish below 1e-19.
    norms = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    if not np.all(np.isfinite(norms)) or np.any(norms == 0):
        raise ValueError("a vector is zero, infinite or not a number")
    return np.asarray(vectors / norms, np.float32)


def mean_direction(vectors: NDArray[np.float32]) -> Float32:
    """Return the unit vector along the mean of unit rows (P, D): a page's single vector.

    Rows that cancel out have no mean direction; the first row stands for them then, so that
    the page stays findable.
    """
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    if np.linalg.norm(mean) < 1e-6:
        mean = vectors[0]
    direction: Float32 = normalize_rows(mean[None])[0]
    return direction


def quantize(vectors: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.int8]:
    """Round vectors to int8 steps of ``scales`` (broadcast over columns)."""
    return np.asarray(np.clip(np.rint(vectors / scales), -127, 127), np.int8)


def int8_scale(vectors: NDArray[np.float32]) -> np.float32:
    """Return the step that lets int8 just hold the largest component of ``vectors``."""
    return np.float32(max(float(np.abs(vectors).max(initial=0.0)), 1e-12) / 127.0)


def maxsim(query: Float32, pages: Multivectors, *, device: str = "cpu") -> Float32:
    """Return the MaxSim of one query with each page.

    Args:
        query: (T, D) float32, unit rows.
        pages: C pages.
        device: "cpu", or a torch device for half-precision scoring there.

    Returns:
        (C,) float32, each between -T and T but for the codec's rounding.

    Example:
        >>> import numpy as np
        >>> page = np.float32([[1, 0], [0, 1]])
        >>> maxsim(np.float32([[0, 1], [-1, 0]]), Multivectors.pack([page]))
        array([1.], dtype=float32)
    """
    best = maxima(query, pages, device=device)  # (C, T)
    return np.asarray(best.sum(axis=1, dtype=np.float64), np.float32)


def maxima(query: Float32, pages: Multivectors, *, device: str = "cpu") -> Float32:
    """Return, for each page and query token, the similarity of the page's nearest vector.

    Args:
        query: (T, D) float32, unit rows.
        pages: C pages.
        device: As for ``maxsim``.

    Returns:
        (C, T) float32.

    Raises:
        ValueError: If the query is empty or of another dimension than the pages.
    """
    if query.ndim != 2 or len(query) == 0:
        raise ValueError("a query needs at least one vector")
    if len(pages) == 0:
        return np.empty((0, len(query)), np.float32)
    if query.shape[1] != pages.values.shape[1]:
        raise ValueError(f"query has {query.shape[1]} dimensions, pages have {pages.values.shape[1]}")
    if device != "cpu":
        return _maxima_on_device(query, pages, device)
    # At D = 1 a transposed matrix looks like its own transpose, and _int_mm mistakes it.
    if pages.values.dtype == np.int8 and query.shape[1] > 1 and int8_product_is_exact():
        return _maxima_int8(query, pages)
    return _maxima_float32(query, pages)


def _maxima_float32(query: Float32, pages: Multivectors) -> Float32:
    """One product per page: its shape, and so its rounding, is the page's own."""
    best = np.empty((len(pages), len(query)), np.float32)
    for i, (start, end) in enumerate(zip(pages.offsets[:-1], pages.offsets[1:], strict=True)):
        best[i] = (query @ pages.values[start:end].astype(np.float32).T).max(axis=1)
    return best * pages.scales[:, None]


def _maxima_int8(query: Float32, pages: Multivectors) -> Float32:
    """Integer products are exact, so blocks cannot change a score."""
    import torch

    token_scales = np.array([int8_scale(token) for token in query], np.float32)
    codes = torch.from_numpy(quantize(query, token_scales[:, None]))  # (T, D)
    best = np.empty((len(pages), len(query)), np.int32)
    for first, last in _blocks(pages.offsets, BLOCK_VECTORS * 64 // max(len(query), 64)):
        start, end = pages.offsets[first], pages.offsets[last]
        block = torch.from_numpy(pages.values[start:end])
        product = torch._int_mm(codes, block.T).numpy()  # (T, vectors of the block)
        starts = pages.offsets[first:last] - start
        best[first:last] = np.maximum.reduceat(product, starts, axis=1).T
    return best.astype(np.float32) * pages.scales[:, None] * token_scales


def _maxima_on_device(query: Float32, pages: Multivectors, device: str) -> Float32:
    """Half-precision products in blocks, on a GPU; float32 where ``device`` is a CPU's."""
    import torch

    dtype = torch.float32 if device.startswith("cpu") else torch.float16
    tokens = torch.from_numpy(query).to(device, dtype)
    best = np.empty((len(pages), len(query)), np.float32)
    for first, last in _blocks(pages.offsets, BLOCK_VECTORS * 16):
        start = pages.offsets[first]
        block = _to_device(pages, first, last, device).to(dtype)
        product = (block @ tokens.T).float()  # (vectors of the block, T)
        starts = torch.from_numpy(pages.offsets[first : last + 1] - start).to(device)
        best[first:last] = torch.segment_reduce(product, "max", offsets=starts, axis=0).cpu().numpy()
    return best


def _to_device(pages: Multivectors, first: int, last: int, device: str) -> torch.Tensor:
    """Return the vectors of pages ``first`` to ``last`` on ``device``, scaled to unit length.

    Scaling comes before half precision: raw int8 products would leave its range.
    """
    import torch

    start, end = pages.offsets[first], pages.offsets[last]
    lengths = np.diff(pages.offsets[first : last + 1])
    scales = torch.from_numpy(np.repeat(pages.scales[first:last], lengths)).to(device)
    return torch.from_numpy(pages.values[start:end]).to(device).float() * scales[:, None]


def _blocks(offsets: Int64, n_vectors: int = BLOCK_VECTORS) -> Iterator[tuple[int, int]]:
    """Yield (first, last) page ranges of about ``n_vectors`` vectors, at least one page each."""
    first, n_pages = 0, len(offsets) - 1
    while first < n_pages:
        last = int(np.searchsorted(offsets, offsets[first] + n_vectors, side="right")) - 1
        last = min(max(last, first + 1), n_pages)
        yield first, last
        first = last


@functools.cache
def int8_product_is_exact() -> bool:
    """Check once per process that this build multiplies int8 matrices without saturating.

    Some processors' int8 instructions take one operand as unsigned, which oneDNN arranges by
    adding 128, and add pairs of products in 16 bits: the largest values on the left overflow
    them, whatever stands on the right.
    """
    import torch

    left = np.full((3, 130), 127, np.int8)
    left[1] = -127
    right = np.where(np.arange(130 * 70).reshape(70, 130) % 3, 127, -127).astype(np.int8)
    try:
        product = torch._int_mm(torch.from_numpy(left), torch.from_numpy(right).T).numpy()
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool(np.array_equal(product, left.astype(np.int32) @ right.astype(np.int32).T))
