"""Product quantisation of vectors: what a codec of learned codewords would keep. Measured, not shipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from colret.scoring import normalize_rows
from colret.types import Float32

CODEWORDS: Final = 256  # a byte each
_ITERATIONS = 10


@dataclass(frozen=True, slots=True)
class ProductQuantiser:
    """Codewords of each run of dimensions: (m, 256, D / m) float32."""

    codewords: Float32

    @property
    def n_bytes(self) -> int:
        """Bytes of a vector, m."""
        return len(self.codewords)

    def nearest(self, vectors: Float32) -> NDArray[np.uint8]:
        """Return the codes of (n, D) vectors: (n, m)."""
        from scipy.cluster.vq import vq

        parts = np.split(vectors, self.n_bytes, axis=1)
        codes = [vq(part, words)[0] for part, words in zip(parts, self.codewords, strict=True)]
        return np.stack(codes, axis=1).astype(np.uint8)

    def approximate(self, vectors: Float32) -> Float32:
        """Return the unit vectors that the codes of (n, D) vectors stand for."""
        codes = self.nearest(vectors)
        parts = [words[codes[:, i]] for i, words in enumerate(self.codewords)]
        return normalize_rows(np.concatenate(parts, axis=1).astype(np.float32))


def fit_quantiser(sample: Float32, n_bytes: int, seed: int = 0) -> ProductQuantiser:
    """Return codewords by k-means on each of ``n_bytes`` runs of dimensions.

    Jégou, Douze and Schmid, "Product Quantization for Nearest Neighbor Search" (TPAMI 2011).

    Args:
        sample: (n, D) float32, n at least 256.
        n_bytes: m, which divides D.
        seed: Of the first codewords.

    Raises:
        ValueError: If there are too few vectors, or m does not divide D.
    """
    if len(sample) < CODEWORDS or sample.shape[1] % n_bytes:
        raise ValueError(f"{n_bytes} bytes a vector need {CODEWORDS} vectors, and dimensions that they divide")
    rng = np.random.default_rng(seed)
    return ProductQuantiser(np.stack([_codewords(part, rng) for part in np.split(sample, n_bytes, axis=1)]))


def _codewords(points: Float32, rng: np.random.Generator) -> Float32:
    """Return the centres of Lloyd's k-means, (256, d); one that is nobody's nearest stays where it is."""
    from scipy.cluster.vq import vq

    words = points[rng.choice(len(points), CODEWORDS, replace=False)]
    for _ in range(_ITERATIONS):
        nearest, _ = vq(points, words)
        counts = np.bincount(nearest, minlength=CODEWORDS)
        sums = np.zeros(words.shape)
        np.add.at(sums, nearest, points)
        words = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], words).astype(np.float32)
    return words
