"""How much of their text two pages share, and which of many pages may share most of it. Pure.

The resemblance of two texts is the share of their shingles, runs of consecutive words, that both
have (Broder, "On the resemblance and containment of documents", SEQUENCES 1997). Which pairs of
many texts may be that alike is told by the least hashes of their shingles, in bands (Leskovec,
Rajaraman and Ullman, "Mining of Massive Datasets", section 3.4): no pair is compared in vain
unless a whole band agrees.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from colret.types import Int64

UInt64 = NDArray[np.uint64]

RUN: Final = 3
"""Words of a shingle: fewer tell pages of one subject less well apart, more forgive fewer changes."""

BANDS, ROWS = 32, 4
"""Of a sketch: two texts of resemblance s agree in some band with probability 1 - (1 - s^4)^32: .87 at .5,
.9999 at .725."""

_TILE = 256  # pages of one bucket compared with as many others at once
_ODD = np.random.default_rng(20_231).integers(1, 2**63, (2, BANDS * ROWS), np.uint64) | np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


def shingles(words: str) -> UInt64:
    """Return the distinct shingles of a text, hashed, ascending; a text of fewer words than a shingle is one.

    Args:
        words: With white space between; case counts.
    """
    hashes = np.array([zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words.split()], np.uint64)
    if not len(hashes):
        return hashes
    n = max(len(hashes) - RUN + 1, 1)
    runs = np.zeros(n, np.uint64)
    for i in range(min(RUN, len(hashes))):
        runs = (runs ^ hashes[i : i + n]) * _MIX
        runs ^= runs >> np.uint64(29)
    return np.unique(runs)


def sketch(found: UInt64) -> UInt64:
    """Return a hash of each band of a text's least hashes, (BANDS,); of no shingles there is none.

    Raises:
        ValueError: If the text has no shingles.
    """
    multipliers, offsets = _ODD
    # Multiply and add modulo 2^64, of which the high half is as good as random.
    least = ((found[:, None] * multipliers + offsets) >> np.uint64(32)).min(axis=0)
    bands = np.zeros(BANDS, np.uint64)
    for column in least.reshape(BANDS, ROWS).T:
        bands = (bands ^ column) * _MIX
        bands ^= bands >> np.uint64(29)
    return bands


def candidate_pairs(sketches: UInt64, groups: Int64 | None = None) -> Iterator[Int64]:
    """Yield (E, 2) pairs of places, the lower first, whose sketches agree in a band; each pair once.

    Args:
        sketches: (n, BANDS).
        groups: (n,) whose members need no comparing, so that their pairs are left out; may be
            changed while pairs are taken.
    """
    for band in range(sketches.shape[1]):
        column = sketches[:, band]
        order = np.argsort(column, kind="stable")
        starts = np.flatnonzero(np.diff(column[order], prepend=column[order[:1]] ^ np.uint64(1)))
        sizes = np.diff(np.append(starts, len(order)))
        for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
            bucket = order[start : start + size]
            for pairs in _pairs(bucket, groups):
                earlier = (sketches[pairs[:, 0], :band] == sketches[pairs[:, 1], :band]).any(axis=1)
                yield pairs[~earlier]


def _pairs(bucket: Int64, groups: Int64 | None) -> Iterator[Int64]:
    """Yield all pairs of a bucket, whose places ascend, in blocks; none of two members of a group."""
    for start in range(0, len(bucket), _TILE):
        first = bucket[start : start + _TILE]
        for other in range(start, len(bucket), _TILE):
            second = bucket[other : other + _TILE]
            own = None if groups is None else (groups[first], groups[second])
            if own is not None and all((each == own[0][0]).all() for each in own):
                continue
            rows, columns = np.meshgrid(first, second, indexing="ij")
            keep = rows < columns
            if own is not None:
                keep &= own[0][:, None] != own[1]
            yield np.stack([rows[keep], columns[keep]], axis=1).astype(np.int64)


def resemblance(first: UInt64, second: UInt64) -> float:
    """Return the share of their shingles that two texts have in common, 0 to 1; of two without any it is 1."""
    common = len(np.intersect1d(first, second, assume_unique=True))
    either = len(first) + len(second) - common
    return common / either if either else 1.0
