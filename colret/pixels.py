"""What holds for the image of any page: how large it may be, and its perceptual hash."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

MAX_IMAGE_PIXELS = 89_478_485
"""More pixels than this are never decoded nor rendered: 256 MiB of RGB, Pillow's own warning level."""

_MAX_STRETCH = 4  # long side of an image, in sides of the square of the same number of pixels
_HASH_SHAPE = (8, 9)  # rows, columns: 8 comparisons of neighbours in each of 8 rows


def target_size(width: float, height: float, max_pixels: int) -> tuple[int, int]:
    """Return the size in pixels at which a page fills ``max_pixels`` without exceeding it.

    The long side stays within 4 times that of a square of ``max_pixels``, and no side is
    under one pixel: a page of any proportions has an image, of bounded memory.

    Args:
        width: Of the page, in any unit; finite and above 0.
        height: In the same unit.
        max_pixels: At least 1.

    Raises:
        ValueError: A length is not finite and above 0, or ``max_pixels`` is out of range.
    """
    if not (0 < width < math.inf and 0 < height < math.inf):
        raise ValueError(f"a page of {width} x {height} has no image")
    if not 1 <= max_pixels <= MAX_IMAGE_PIXELS:
        raise ValueError(f"max_pixels must be from 1 to {MAX_IMAGE_PIXELS}, not {max_pixels}")
    side = math.sqrt(max_pixels)
    # Each root on its own: the quotient of two extreme lengths would overflow.
    stretch = min(max(math.sqrt(width) / math.sqrt(height), 1e-9), 1e9)
    shrink = min(1.0, _MAX_STRETCH / max(stretch, 1 / stretch))
    shrink *= 1 + 1e-12  # what is whole but for rounding stays whole
    columns = max(1, min(max_pixels, int(side * stretch * shrink)))
    rows = max(1, min(max_pixels // columns, int(side / stretch * shrink)))
    return columns, rows


def image_hash(image: Image.Image) -> int:
    """Return the 64-bit difference hash (dHash) of ``image``; near-alike pages differ in few bits.

    The image is reduced to 9 x 8 grey values; a bit is set where a value exceeds its left
    neighbour, row by row, the first being the most significant (N. Krawetz, "Kind of Like
    That", The Hacker Factor Blog, 2013). The 64 bits are read as a signed number in two's
    complement, so that it fits a column of int64; ``(a ^ b) & (2**64 - 1)`` holds the bits
    in which two hashes differ. A uniform image hashes to 0.
    """
    rows, columns = _HASH_SHAPE
    grey = np.asarray(image.convert("L").resize((columns, rows), Image.Resampling.BOX))  # (8, 9) uint8
    bits = grey[:, 1:] > grey[:, :-1]
    return int.from_bytes(np.packbits(bits).tobytes(), "big", signed=True)
