"""Splits of queries for whatever is tuned: no document, nor a duplicate of one, on both sides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from colret.grouping import components
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
