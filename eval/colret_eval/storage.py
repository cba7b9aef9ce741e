"""What vectors take on disk, as predicted from their number and dimension."""

from __future__ import annotations

from typing import Literal

from colret.codecs import bytes_per_vector
from colret.types import Codec


def predicted_bytes(n_vectors: int, dim: int, coding: Codec | Literal["float32"] = "float32") -> int:
    """Return the bytes of n vectors of D dimensions: 4 n D for float32, and a codec's own codes otherwise.

    >>> predicted_bytes(1, 384)
    1536
    """
    return n_vectors * (4 * dim if coding == "float32" else bytes_per_vector(dim, coding))
