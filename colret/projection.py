"""Fewer dimensions a vector, or the same ones turned so that few bits serve them all. Pure functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colret.types import Float32

ROTATION_SEED = 0
"""Any would do; a fixed one makes the same index of the same documents."""


def fit(sample: Float32, dim: int, *, balance: bool = False) -> Float32:
    """Return the projection to ``dim`` dimensions that keeps most of the sample.

    Principal components of the second moment about the origin, not about the mean: MaxSim
    compares dot products, and a mean taken off pages and queries alike changes those. Their
    columns are orthonormal however few vectors the sample holds; beyond its rank they are
    arbitrary.

    ``balance`` turns the components by a random rotation, which changes no dot product and
    leaves each dimension about the same variance, so that codes of a few bits serve all alike:
    the random rotation that Gong and Lazebnik, "Iterative Quantization" (2011), start from and
    RaBitQ (Gao and Long 2024) relies on.

    Args:
        sample: (n, D) float32, n >= 1.
        dim: d, from 1 to D, where it is a rotation.
        balance: Spread the variance evenly.

    Returns:
        (D, d) float32, orthonormal columns; by falling variance unless balanced.

    Raises:
        ValueError: If the sample is empty or d is not from 1 to D.
    """
    n_vectors, full_dim = sample.shape
    if n_vectors == 0:
        raise ValueError("a projection needs at least one vector to be fitted on")
    if not 1 <= dim <= full_dim:
        raise ValueError(f"vectors of {full_dim} dimensions cannot be projected to {dim}")
    wide = sample.astype(np.float64)
    _, components = np.linalg.eigh(wide.T @ wide)  # by rising variance
    kept = _with_signs(components[:, ::-1][:, :dim])
    if balance:
        kept = kept @ _random_rotation(dim)
    return np.ascontiguousarray(kept, np.float32)


def project(vectors: Float32, matrix: Float32) -> Float32:
    """Return unit vectors along the projections of ``vectors``.

    A vector that nothing is left of has no direction there; the first axis stands for it.

    Args:
        vectors: (n, D) float32, unit rows; n may be 0.
        matrix: (D, d) float32, as ``fit`` returns it.

    Returns:
        (n, d) float32, unit rows.
    """
    projected = vectors.astype(np.float64) @ matrix
    norms = np.linalg.norm(projected, axis=1, keepdims=True)
    lost = norms < 1e-6
    projected = np.where(lost, np.eye(1, matrix.shape[1]), projected / np.where(lost, 1, norms))
    return np.asarray(projected, np.float32)


def _with_signs(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make the largest component of each column positive: eigenvectors come with either sign."""
    largest = np.take_along_axis(columns, np.abs(columns).argmax(axis=0)[None], axis=0)
    return np.asarray(columns * np.where(largest < 0, -1, 1))


def _random_rotation(dim: int) -> NDArray[np.float64]:
    """Return a (d, d) orthogonal matrix drawn evenly from all of them.

    The QR decomposition of a Gaussian matrix, R's diagonal made positive (Mezzadri, "How to
    generate random matrices from the classical compact groups", 2007).
    """
    gaussian = np.random.default_rng(ROTATION_SEED).standard_normal((dim, dim))
    q, r = np.linalg.qr(gaussian)
    return np.asarray(q * np.sign(np.diag(r)))
