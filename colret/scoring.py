"""MaxSim over packed ragged multivectors: pure functions.

MaxSim of a query q and a page p is the sum, over the T query tokens, of the largest
similarity that the token has with any of the page's P vectors (ColBERT, Khattab and
Zaharia 2020, eq. 3). Pages are packed (``Multivectors``), so it is one matrix product and
a maximum over segments; on a CPU a page's score never depends on the pages scored with it.
Pages coded as small integers are multiplied by a query rounded to int8, each token with its
own step: integers do not depend on the order of a sum, so neither do scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colret import kernels
from colret.products import BLOCK_VECTORS, agreement_sums, best_products, blocks, integers
from colret.types import Float32, Int64, Multivectors

if TYPE_CHECKING:
    import torch

_CODES = ("int8", "int4", "binary")  # codings of small integers, whose products are exact


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
    return np.float32(int8_scales(vectors.reshape(1, -1))[0])


def int8_scales(vectors: NDArray[np.float32]) -> Float32:
    """Return ``int8_scale`` of each row of (n, D) vectors, (n,) float32."""
    largest = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float64)
    return np.asarray(np.maximum(largest, 1e-12) / 127, np.float32)


def maxsim(query: Float32, pages: Multivectors, *, rows: Int64 | None = None, device: str = "cpu") -> Float32:
    """Return the MaxSim of one query with each page.

    Args:
        query: (T, D) float32, unit rows.
        pages: Any number of pages.
        rows: (C,) which of them, in any order and as often as wanted; all by default.
        device: "cpu", or a torch device for half-precision scoring there.

    Returns:
        (C,) float32, each between -T and T but for the codec's rounding.

    Raises:
        ValueError: If the query is empty or of another dimension than the pages.
        IndexError: If ``rows`` names pages that are not there.

    Example:
        >>> import numpy as np
        >>> page = np.float32([[1, 0], [0, 1]])
        >>> maxsim(np.float32([[0, 1], [-1, 0]]), Multivectors.pack([page]))
        array([1.], dtype=float32)
    """
    best = maxima(query, pages, rows=rows, device=device)  # (C, T)
    return np.asarray(best.sum(axis=1, dtype=np.float64), np.float32)


def maxima(query: Float32, pages: Multivectors, *, rows: Int64 | None = None, device: str = "cpu") -> Float32:
    """Return, for each page and query token, the similarity of the page's nearest vector.

    Arguments and errors as for ``maxsim``.

    Returns:
        (C, T) float32.
    """
    _check(query, pages, rows)
    if not (len(pages) if rows is None else len(rows)):
        return np.empty((0, len(query)), np.float32)
    if device != "cpu":
        return _maxima_on_device(query, pages, rows, device)
    if pages.coding in _CODES:
        return _maxima_of_codes(query, pages, rows)
    return _maxima_of_floats(query, pages, rows)


def hamming_maxsim(query: Float32, pages: Multivectors, *, rows: Int64 | None = None) -> Float32:
    """Return the MaxSim of the signs of a query with the signs of each page.

    The similarity of two vectors is 1 - 2h / D, h being the number of dimensions whose signs
    differ (the Hamming distance): between -1 and 1 as a cosine is. Zero counts as positive.

    Args:
        query: (T, D) float32.
        pages: In binary.
        rows: As for ``maxsim``.

    Returns:
        (C,) float32. Errors as for ``maxsim``.
    """
    _check(query, pages, rows)
    if pages.coding != "binary":
        raise ValueError(f"signs are wanted, and the pages are in {pages.coding}")
    signs = np.where(query >= 0, np.int8(1), np.int8(-1))
    return np.asarray(agreement_sums(signs, pages, rows) / pages.dim, np.float32)


def float_vectors(pages: Multivectors, i: int) -> Float32:
    """Return the (P, D) float32 vectors of page ``i``."""
    values = pages.values[pages.offsets[i] : pages.offsets[i + 1]]
    numbers = integers(values, pages) if pages.coding in _CODES else values
    return np.asarray(numbers.astype(np.float32) * pages.scales[i])


def _check(query: Float32, pages: Multivectors, rows: Int64 | None) -> None:
    if query.ndim != 2 or len(query) == 0:
        raise ValueError("a query needs at least one vector")
    if len(pages) and query.shape[1] != pages.dim:
        raise ValueError(f"query has {query.shape[1]} dimensions, pages have {pages.dim}")
    if rows is not None and (rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer)):
        raise IndexError("rows must be (C,) whole numbers")
    if rows is not None and len(rows) and not 0 <= rows.min() <= rows.max() < len(pages):
        raise IndexError(f"rows must be from 0 to {len(pages) - 1}")


def _maxima_of_codes(query: Float32, pages: Multivectors, rows: Int64 | None) -> Float32:
    token_scales = int8_scales(query)
    codes = quantize(query, token_scales[:, None])  # (T, D)
    scales = pages.scales if rows is None else pages.scales[rows]
    return best_products(codes, pages, rows).astype(np.float32) * scales[:, None] * token_scales


def _maxima_of_floats(query: Float32, pages: Multivectors, rows: Int64 | None) -> Float32:
    scales = pages.scales if rows is None else pages.scales[rows]
    if kernels.has_floats():
        return kernels.best_similarities(np.asarray(query, np.float32), pages, rows) * scales[:, None]
    best = np.empty((len(scales), len(query)), np.float32)
    for i, row in enumerate(range(len(pages)) if rows is None else rows.tolist()):
        # One product a page: its shape, and so its rounding, is the page's own.
        page = pages.values[pages.offsets[row] : pages.offsets[row + 1]]
        best[i] = (query @ page.astype(np.float32).T).max(axis=1)
    return best * scales[:, None]


def _maxima_on_device(query: Float32, pages: Multivectors, rows: Int64 | None, device: str) -> Float32:
    """Half-precision products in blocks, on a GPU; float32 where ``device`` is a CPU's."""
    import torch

    dtype = torch.float32 if device.startswith("cpu") else torch.float16
    tokens = torch.from_numpy(query).to(device, dtype)
    scales = pages.scales if rows is None else pages.scales[rows]
    best = np.empty((len(scales), len(query)), np.float32)
    for place, values, starts in blocks(pages, rows, BLOCK_VECTORS * 16):
        # Scaling comes before half precision: raw int8 products would leave its range.
        steps = torch.from_numpy(np.repeat(scales[place], np.diff(starts))).to(device)
        codes = torch.from_numpy(values if values.flags.writeable else values.copy()).to(device)
        block = (_numbers(codes, pages) * steps[:, None]).to(dtype)
        product = (block @ tokens.T).float()  # (vectors of the block, T)
        offsets = torch.from_numpy(starts).to(device)
        best[place] = torch.segment_reduce(product, "max", offsets=offsets, axis=0).cpu().numpy()
    return best


def _numbers(codes: torch.Tensor, pages: Multivectors) -> torch.Tensor:
    """Return what rows of ``pages`` stand for, as ``products.integers`` does, (n, D) float32 on their device."""
    import torch

    if pages.coding == "int4":
        halves = torch.cat([codes & 15, codes >> 4], dim=1)[:, : pages.dim]
        return halves.float() * 2 - 15
    if pages.coding == "binary":
        bits = codes[:, :, None] >> torch.arange(8, dtype=torch.uint8, device=codes.device) & 1  # (n, bytes, 8)
        return bits.flatten(1)[:, : pages.dim].float() * 2 - 1
    return codes.float()
