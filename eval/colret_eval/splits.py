"""Splits of queries for whatever is tuned: no document, nor a duplicate of one, on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from colret_eval.leakage import components
from colret_eval.measures import Int64, Qrels


def query_groups(qrels: Qrels, documents: Mapping[str, str], page_groups: Mapping[str, str] | None = None) -> Int64:
    """Return the group of each query: queries that share a document, directly or through others, share it.

    Args:
        qrels: Judgements; a query without relevant pages is a group of its own.
        documents: The document of each page key.
        page_groups: Near-duplicate pages by ``leakage.representatives``: what documents share
            through a duplicated page, their queries share too.

    Returns:
        (Q,) int64 in the order of the qrels: the position of the group's first query.
    """
    linked: list[tuple[int, int]] = []
    first: dict[tuple[str, str], int] = {}
    for query, grades in enumerate(qrels.values()):
        relevant = [key for key, grade in grades.items() if grade > 0]
        tags = {("document", documents.get(key, key)) for key in relevant}
        tags |= {("page", page_groups.get(key, key)) for key in relevant} if page_groups else set()
        linked += [(first.setdefault(tag, query), query) for tag in tags]
    return components(len(qrels), np.array(linked, np.int64).reshape(-1, 2))


def grouped_folds(groups: Sequence[int] | Sequence[str] | Int64, n_folds: int, rng: np.random.Generator) -> Int64:
    """Return a fold from 0 for each query, whole groups together and folds of about one size.

    Groups are taken from the largest down, equal ones in random order, each into the fold with
    the fewest queries.

    Args:
        groups: Group of each query, length Q, such as ``query_groups`` or source documents.
        n_folds: Number of folds.
        rng: Randomness.

    Returns:
        (Q,) int64.

    Raises:
        ValueError: If there are fewer than 2 folds, or fewer groups than folds.
    """
    _, labels, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if not 2 <= n_folds <= len(sizes):
        raise ValueError(f"{len(sizes)} groups cannot be split into {n_folds} folds: at least 2, at most one a group")
    shuffled = rng.permutation(len(sizes))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    fold_of = np.empty(len(sizes), np.int64)
    filled = np.zeros(n_folds, np.int64)
    for group in order:
        fold_of[group] = filled.argmin()
        filled[fold_of[group]] += sizes[group]
    return fold_of[labels]
