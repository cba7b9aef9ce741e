"""Prefilters that colret does not offer, on the real vectors: what they would keep of the exact top-k.

MUVERA's fixed dimensional encodings (Dhulipala et al. 2024, arXiv 2405.19504): space is cut into
2^k cells by k random planes; a page's encoding holds the mean of its vectors in each cell, a
query's the sum of its tokens in each, both through a random projection to a few dimensions, and
that several times over; their dot product stands for MaxSim. A cell without a page vector takes
the nearest one by Hamming distance of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colret.packing import pack_signs
from colret.pooling import block_means, ward_pool
from colret.scoring import hamming_maxsim, maxsim, mean_direction
from colret.types import Float32, Int64, Multivectors
from colret_eval.bench.real import RealVectors
from colret_eval.bench.reference import Reference

CANDIDATES = (10, 20, 50, 100, 200)
DEPTHS = (1, 5, 10)


class Muvera(NamedTuple):
    """Fixed dimensional encodings of ``repetitions`` x 2^``planes`` x ``dim`` numbers."""

    repetitions: int
    planes: int
    dim: int

    @property
    def size(self) -> int:
        """Numbers of an encoding."""
        return int(self.repetitions * 2**self.planes * self.dim)

    def encode(self, vectors: Float32, *, page: bool) -> Float32:
        """Return the encoding of a page's vectors, or of a query's: (size,) float32."""
        rng = np.random.default_rng(0)
        full = vectors.shape[1]
        parts = []
        for _ in range(self.repetitions):
            planes = rng.standard_normal((full, self.planes)).astype(np.float32)
            signs = (rng.integers(0, 2, (full, self.dim)) * 2 - 1).astype(np.float32)
            bits = vectors @ planes > 0  # (P, k)
            cells = bits @ (1 << np.arange(self.planes))
            projected = vectors @ signs / np.float32(np.sqrt(self.dim))  # (P, dim)
            sums = np.zeros((2**self.planes, self.dim), np.float32)
            np.add.at(sums, cells, projected)
            parts.append(self._filled(sums, cells, projected) if page else sums)
        return np.concatenate(parts).ravel()

    def _filled(self, sums: Float32, cells: Int64, projected: Float32) -> Float32:
        """Return the mean of each cell; an empty one takes the vector of the nearest cell."""
        counts = np.bincount(cells, minlength=len(sums))
        means = sums / np.maximum(counts, 1)[:, None]
        for empty in np.flatnonzero(counts == 0):
            differing = np.array([int(cell).bit_count() for cell in cells ^ empty])
            means[empty] = projected[differing.argmin()]
        return np.asarray(means, np.float32)


MUVERAS = (Muvera(20, 4, 16), Muvera(20, 5, 16))


def measure(real: RealVectors, reference: Reference) -> list[dict[str, Any]]:
    """Return a row for each comparator: its bytes a page, and the shares of the exact top-k within C candidates."""
    return [
        {"comparator": name, "bytes_a_page": n_bytes, "kept": _kept(reference, scores)}
        for name, n_bytes, scores in _scored(real)
    ]


def _scored(real: RealVectors) -> Iterator[tuple[str, float, Float32]]:
    """Yield each comparator's name, bytes a page and (Q, N) scores."""
    dim = real.pages.shape[1]
    for muvera in MUVERAS:
        pages, queries = (
            np.stack([muvera.encode(np.asarray(each), page=page) for each in which])
            for which, page in ((map(real.page, range(real.n_pages)), True), (_queries(real), False))
        )
        name = f"MUVERA {muvera.repetitions}/{muvera.planes}/{muvera.dim}, {muvera.size:,} float32"
        yield name, 4.0 * muvera.size, queries @ pages.T
    means = np.stack([mean_direction(np.asarray(real.page(i))) for i in range(real.n_pages)])
    sums = np.stack([query.sum(axis=0) for query in _queries(real)])
    yield "mean vector, float32", 4.0 * dim, sums @ means.T
    for n_blocks in (16, 32, 64):
        blocks = _reduced(real, partial(block_means, n_blocks=n_blocks))
        yield f"{n_blocks} block means, float32", _bytes(blocks), _maxsims(real, blocks)
        if n_blocks == 32:
            signs = _signs(blocks)
            yield f"{n_blocks} block means, signs", _bytes(signs), _maxsims(real, signs)
    for factor in (4, 8, 25):
        signs = _signs(_reduced(real, partial(_ward, factor=factor)))
        yield f"Ward, 1 in {factor}, signs", _bytes(signs), _maxsims(real, signs)
    signs = _signs(_reduced(real, lambda page: page))
    yield "signs of every vector", _bytes(signs), _maxsims(real, signs)
    yield "signs of every vector, Hamming", _bytes(signs), _maxsims(real, signs, hamming_maxsim)


def _queries(real: RealVectors) -> list[Float32]:
    return [np.asarray(real.query(i)) for i in range(len(real.texts))]


def _reduced(real: RealVectors, reduce: Callable[[Float32], Float32]) -> Multivectors:
    return Multivectors.pack([reduce(np.asarray(real.page(i))) for i in range(real.n_pages)])


def _ward(vectors: Float32, factor: int) -> Float32:
    return ward_pool(vectors, np.zeros((len(vectors), 4), np.uint16), factor)[0]


def _signs(pages: Multivectors) -> Multivectors:
    scales = np.full(len(pages), pages.dim**-0.5, np.float32)
    return Multivectors(pack_signs(pages.values), pages.offsets, scales, "binary", pages.dim)


def _bytes(pages: Multivectors) -> float:
    return pages.values.nbytes / len(pages)


def _maxsims(
    real: RealVectors, pages: Multivectors, score: Callable[[Float32, Multivectors], Float32] = maxsim
) -> Float32:
    return np.stack([score(query, pages) for query in _queries(real)])


def _kept(reference: Reference, scores: NDArray[np.floating]) -> dict[str, dict[str, float]]:
    order = np.argsort(-scores, axis=1, kind="stable")
    return {str(n): _shares(reference.ids, order[:, :n]) for n in CANDIDATES if n < scores.shape[1]}


def _shares(exact: Int64, candidates: Int64) -> dict[str, float]:
    pairs: Sequence[tuple[list[int], set[int]]] = [
        (best, set(kept)) for best, kept in zip(exact.tolist(), candidates.tolist(), strict=True)
    ]
    return {
        f"top{k}": float(np.mean([len({*best[:k]} & kept) / len(best[:k]) for best, kept in pairs])) for k in DEPTHS
    }
