"""Pages that are nearly one, and queries on both sides of a split: what makes figures too good or too bad.

Two pages that look alike make a search fail that returns the unlabelled one, and leak an answer
from the queries that tuned a setting to those that test it. See
``colret.grouping``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from colret_eval.matrices import Float32
from colret_eval.measures import Int64, Qrels, Run

Number = TypeVar("Number", int, float)

_TILE = 4096  # rows compared with as many others at once: 64 MB of similarities


class SharedQuery(NamedTuple):
    """A query that two sets hold, but for case, spaces and punctuation."""

    first: str  # query id in one set
    second: str  # query id in the other
    text: str


def similar_across(first: Float32, second: Float32, threshold: float) -> Int64:
    """Return the pairs of rows of two sets with a cosine of at least ``threshold``: (E, 2) int64.

    For queries: (n, D) and (m, D) float32, unit rows. A test query that resembles a calibration
    query is no new one.
    """
    step = max(1, _TILE**2 // max(len(second), 1))
    blocks = []
    for start in range(0, len(first), step):
        rows, columns = np.nonzero(first[start : start + step] @ second.T >= threshold)
        blocks.append(np.stack([rows + start, columns], axis=1))
    return np.concatenate([*blocks, np.empty((0, 2), np.int64)]).astype(np.int64)


def representatives(keys: Sequence[str], groups: Int64) -> dict[str, str]:
    """Return for each page key the key that stands for its group of near-duplicates."""
    return {key: keys[group] for key, group in zip(keys, groups.tolist(), strict=True)}


def merged_qrels(qrels: Qrels, stands_for: Mapping[str, str]) -> Qrels:
    """Return qrels with one page per group: its grade is the highest of its pages'."""
    return {query_id: _best(grades, stands_for) for query_id, grades in qrels.items()}


def merged_run(run: Run, stands_for: Mapping[str, str]) -> Run:
    """Return a run with one page per group: its score is the best of its pages', the others leave their ranks.

    A run cut at k pages holds fewer after: cut it later, or further down.
    """
    return {query_id: _best(scores, stands_for) for query_id, scores in run.items()}


def shared_queries(first: Mapping[str, str], second: Mapping[str, str]) -> list[SharedQuery]:
    """Return the queries that two sets have in common, such as calibration and test.

    Texts are compared by their letters and digits in Unicode's compatibility form, case folded.

    Args:
        first: Query id to text.
        second: Likewise.
    """
    ids: dict[str, list[str]] = {}
    for query_id, text in first.items():
        ids.setdefault(_plain(text), []).append(query_id)
    return [
        SharedQuery(known, query_id, text) for query_id, text in second.items() for known in ids.get(_plain(text), ())
    ]


def shared_pages(first: Qrels, second: Qrels, stands_for: Mapping[str, str]) -> set[str]:
    """Return the pages, by their groups' representatives, that answer queries of both sets."""
    return _answers(first, stands_for) & _answers(second, stands_for)


def _answers(qrels: Qrels, stands_for: Mapping[str, str]) -> set[str]:
    relevant = (key for grades in qrels.values() for key, grade in grades.items() if grade > 0)
    return {stands_for.get(key, key) for key in relevant}


def _best(values: Mapping[str, Number], stands_for: Mapping[str, str]) -> dict[str, Number]:
    best: dict[str, Number] = {}
    for key, value in values.items():
        into = stands_for.get(key, key)
        best[into] = max(value, best.get(into, value))
    return best


def _plain(text: str) -> str:
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(words) or text
