"""Stemmed BM25 over the pages' text: the baseline that needs no model."""

from __future__ import annotations

import re
from collections.abc import Mapping

import bm25s
import numpy as np
import Stemmer
from numpy.typing import NDArray

from colret_eval.measures import Run

K1, B = 1.5, 0.75
"""The usual values, tuned to no set."""

_WORD = re.compile(r"\w+")


def tokenize(text: str) -> list[str]:
    """Return the stems of the lower-cased words of ``text`` (Snowball English), in order.

    A word is a run of letters, digits and underscores; no stop words are left out, since
    BM25's own term weights already discount them.
    """
    stems: list[str] = Stemmer.Stemmer("english").stemWords(_WORD.findall(text.lower()))
    return stems


def bm25_run(pages: Mapping[str, str], queries: Mapping[str, str], *, k: int) -> Run:
    """Rank pages for each query by BM25 in Lucene's variant.

    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
    with Lucene's non-negative idf ln(1 + (N - df + 0.5) / (df + 0.5)).

    Args:
        pages: Page key to text.
        queries: Query id to text.
        k: Most pages kept per query.

    Returns:
        Pages that share a stem with the query, at most k, by score and then page key, both
        descending: the measures' order, so that a cut run is the head of the full one.

    Raises:
        ValueError: If k is below 1.
    """
    if k < 1:
        raise ValueError(f"a run keeps at least 1 page, not {k}")
    # Descending keys before a stable sort by score: ties end up as the measures break them.
    keys = sorted(pages, reverse=True)
    corpus = [tokenize(pages[key]) for key in keys]
    if not any(corpus):
        return {query_id: {} for query_id in queries}
    index = bm25s.BM25(k1=K1, b=B, method="lucene")
    index.index(corpus, show_progress=False)
    return {query_id: _top(_scores(index, text), keys, k) for query_id, text in queries.items()}


def _scores(index: bm25s.BM25, text: str) -> NDArray[np.float32]:
    known = [token for token in tokenize(text) if token in index.vocab_dict]
    n_pages: int = index.scores["num_docs"]
    return np.asarray(index.get_scores(known), np.float32) if known else np.zeros(n_pages, np.float32)


def _top(scores: NDArray[np.float32], keys: list[str], k: int) -> dict[str, float]:
    order = np.argsort(-scores, kind="stable")[:k]
    return {keys[i]: float(scores[i]) for i in order if scores[i] > 0}
