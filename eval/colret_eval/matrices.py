"""Score matrices of Q queries and N pages: their order, and their exchange with runs and qrels.

A matrix is (Q, N) float32 with a row per query and a column per page; ``-inf`` is a page that a
query cannot get. Where scores tie, the earlier column is ahead: with columns in descending order
of page keys, as ``page_order`` gives them, that is the order of ``measures``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from colret_eval.measures import Float64, Int64, Qrels, Run

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


def page_order(keys: Iterable[str]) -> list[str]:
    """Return page keys in the order of a matrix's columns: descending, as ``measures`` breaks ties."""
    return sorted(keys, reverse=True)


def relevant_pages(qrels: Qrels, query_ids: Sequence[str], keys: Sequence[str]) -> Bool:
    """Return whether a page is relevant to a query: (Q, N) bool.

    Raises:
        ValueError: If a relevant page is no column: give it one, at ``-inf`` where it has no
            vectors, since a label left out would make the figures better than they are.
    """
    columns = {key: column for column, key in enumerate(keys)}
    relevant = np.zeros((len(query_ids), len(keys)), np.bool_)
    for row, query_id in enumerate(query_ids):
        for key in (key for key, grade in qrels.get(query_id, {}).items() if grade > 0):
            if key not in columns:
                raise ValueError(f"relevant page {key} of query {query_id} is no column")
            relevant[row, columns[key]] = True
    return relevant


def to_run(scores: Float32, query_ids: Sequence[str], keys: Sequence[str], k: int) -> Run:
    """Return the first k pages of each row as a run, without those at ``-inf``.

    Args:
        scores: (Q, N) float32.
        query_ids: Id of each row.
        keys: Page key of each column, in ``page_order``.
        k: Most pages kept per query.
    """
    top = first_columns(scores, k)
    return {
        query_id: {keys[column]: float(row[column]) for column in columns if row[column] > -np.inf}
        for query_id, row, columns in zip(query_ids, scores, top, strict=True)
    }


def from_run(run: Run, query_ids: Sequence[str], keys: Sequence[str], *, missing: float = -np.inf) -> Float32:
    """Return a run as (Q, N) float32; ``missing`` stands where the run has no score, such as 0 for BM25."""
    columns = {key: column for column, key in enumerate(keys)}
    scores = np.full((len(query_ids), len(keys)), missing, np.float32)
    for row, query_id in enumerate(query_ids):
        for key, score in run.get(query_id, {}).items():
            scores[row, columns[key]] = score
    return scores


def first_columns(scores: Float32, k: int) -> Int64:
    """Return the columns of each row's k highest scores in rank order: (Q, min(k, N)) int64.

    Raises:
        ValueError: If k is below 1, or a score is NaN, which has no place in an order.
    """
    if k < 1:
        raise ValueError(f"a cutoff is at least 1, not {k}")
    if np.isnan(scores).any():
        raise ValueError("a score is not a number")
    n = scores.shape[1]
    if k >= n:
        return np.argsort(-scores, axis=1, kind="stable")
    return np.stack([_first(row, k) for row in scores]) if len(scores) else np.empty((0, k), np.int64)


def best_relevant_ranks(scores: Float32, relevant: Bool) -> Float64:
    """Return the rank from 1 of each row's best relevant column, ``inf`` where none is relevant or all are at -inf.

    Args:
        scores: (Q, N) float32.
        relevant: (Q, N) bool.

    Returns:
        (Q,) float64.
    """
    masked = np.where(relevant, scores, -np.inf)
    column = masked.argmax(axis=1)[:, None]  # of equals the first, which is ahead
    best = np.take_along_axis(masked, column, axis=1)
    ahead = (scores > best) | ((scores == best) & (np.arange(scores.shape[1]) < column))
    return np.where(best[:, 0] > -np.inf, ahead.sum(axis=1) + 1.0, np.inf)


def _first(row: Float32, k: int) -> Int64:
    """Return the columns of the k highest of one row, ties by column."""
    least = np.partition(row, len(row) - k)[len(row) - k]
    above = np.flatnonzero(row > least)
    tied = np.flatnonzero(row == least)[: k - len(above)]
    return np.concatenate([above[np.argsort(-row[above], kind="stable")], tied]).astype(np.int64)
