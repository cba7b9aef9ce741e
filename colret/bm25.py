"""BM25 of pages for the terms of a query. Pure.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with
Lucene's idf, which is never negative.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from colret.types import Float32, Int64

K1: Final = 1.5
B: Final = 0.75
"""The usual values, tuned to no set."""

Float64 = NDArray[np.float64]


def joined(terms: Sequence[str]) -> str:
    """Return terms as a page keeps them: each between spaces of its own, so that none is part of another."""
    return f" {'  '.join(sorted(terms))} " if terms else ""


def counts(pages: Sequence[str], terms: Sequence[str]) -> Int64:
    """Return how often each page, its terms ``joined``, has each of the distinct ``terms``: (C, T)."""
    found = np.zeros((len(pages), len(terms)), np.int64)
    if not terms:
        return found
    column = {f" {term} ": i for i, term in enumerate(terms)}
    pattern = re.compile("|".join(map(re.escape, column)))
    for row, page in zip(found, pages, strict=True):
        for term, n in Counter(pattern.findall(page)).items():
            row[column[term]] = n
    return found


def inverse_frequencies(n_pages_with: Int64, n_pages: int) -> Float64:
    """Return the idf of terms, ln(1 + (N - df + 0.5) / (df + 0.5)): (T,)."""
    return np.log1p((n_pages - n_pages_with + 0.5) / (n_pages_with + 0.5))


def shares(found: Int64, lengths: Int64, mean_length: float, idf: Float64) -> Float32:
    """Return each page's BM25 as a share of its least upper bound, (C,) in 0 to 1.

    The bound, the sum of idf (k1 + 1), is the query's alone. So a share says of a page how much of
    the query its words are, whichever other pages there are: unlike a score that is standardised
    over the pages that happened to be scored. Terms that no page has lower all shares.

    Args:
        found: (C, T) occurrences of each term.
        lengths: (C,) of the pages.
        mean_length: Of all pages.
        idf: (T,).
    """
    if not len(idf):
        return np.zeros(len(found), np.float32)
    norm = K1 * (1 - B + B * lengths / (mean_length or 1.0))  # (C,)
    saturated = found / (found + norm[:, None])
    # Not a matrix product, whose rounding depends on how many pages there are.
    return np.asarray((saturated * (idf / idf.sum())).sum(axis=1), np.float32)
