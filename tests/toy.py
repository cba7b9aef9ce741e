"""The toy gallery of images and texts whose figures were published: pairs that share a meaning."""

from __future__ import annotations

import numpy as np

from colret_eval.measures import Float64

DIM = 16
IMAGE_NOISE, TEXT_NOISE = 0.55, 0.90


def unit(vectors: Float64) -> Float64:
    rows: Float64 = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return rows


def pairs(rng: np.random.Generator, n: int, n_texts: int = 1) -> tuple[Float64, Float64]:
    """Images (n, 16) and texts (n * n_texts, 16), texts of one image beside each other."""
    meaning = rng.normal(size=(n, DIM))
    images = unit(meaning + IMAGE_NOISE * rng.normal(size=(n, DIM)))
    repeated = np.repeat(meaning, n_texts, axis=0)
    return images, unit(repeated + TEXT_NOISE * rng.normal(size=repeated.shape))


def gallery(n: int) -> tuple[Float64, Float64]:
    """The first draw of the published generator."""
    return pairs(np.random.default_rng(5), n)
