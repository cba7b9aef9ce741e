"""Leakage: measures with duplicates merged, queries and pages that two sets share, groups that no split parts."""

from __future__ import annotations

import numpy as np

from colret_eval.leakage import (
    merged_qrels,
    merged_run,
    representatives,
    shared_pages,
    shared_queries,
    similar_across,
)
from colret_eval.measures import evaluate, recall, success
from colret_eval.splits import query_groups


def test_similar_across_sets() -> None:
    first = np.eye(3, dtype=np.float32)
    second = np.array([[0, 0, 1], [0.6, 0.8, 0]], np.float32)
    assert similar_across(first, second, 0.7).tolist() == [[1, 1], [2, 0]]
    assert similar_across(first[:0], second, 0.7).shape == (0, 2)


def test_measures_with_and_without_duplicates() -> None:
    """The unlabelled twin of the right page costs Success@1 until both are one."""
    qrels = {"q": {"a:1": 2, "c:1": 1}}
    run = {"q": {"b:1": 3.0, "a:1": 2.0, "d:1": 1.0, "c:1": 0.5}}
    stands_for = representatives(["a:1", "b:1", "c:1", "d:1"], np.array([0, 0, 2, 3]))
    apart = evaluate(qrels, run, [success(1), recall(3)])
    merged = evaluate(merged_qrels(qrels, stands_for), merged_run(run, stands_for), [success(1), recall(3)])
    assert [apart["Success@1"][0], apart["Recall@3"][0]] == [0.0, 0.5]
    assert [merged["Success@1"][0], merged["Recall@3"][0]] == [1.0, 1.0]
    assert merged_qrels(qrels, stands_for) == {"q": {"a:1": 2, "c:1": 1}}
    assert merged_run(run, stands_for) == {"q": {"a:1": 3.0, "d:1": 1.0, "c:1": 0.5}}


def test_merged_labels_are_the_union_with_the_highest_grade() -> None:
    qrels = {"q": {"a:1": 1, "b:1": 3, "x:9": 1}, "p": {"b:1": -1}}
    assert merged_qrels(qrels, {"b:1": "a:1", "a:1": "a:1"}) == {"q": {"a:1": 3, "x:9": 1}, "p": {"a:1": -1}}


def test_queries_of_two_sets_that_are_one() -> None:
    calibration = {"c1": "Who signs  off travel?", "c2": "ﬁnal report"}
    test = {"t1": "who signs off TRAVEL", "t2": "final report!", "t3": "who signs"}
    found = shared_queries(calibration, test)
    assert [(pair.first, pair.second) for pair in found] == [("c1", "t1"), ("c2", "t2")]


def test_pages_that_answer_both_sets() -> None:
    stands_for = {"a:1": "a:1", "b:1": "a:1"}
    assert shared_pages({"q": {"a:1": 1, "c:1": 0}}, {"p": {"b:1": 1, "c:1": 1}}, stands_for) == {"a:1"}


def test_query_groups_follow_documents_and_duplicates() -> None:
    qrels = {"q0": {"a:1": 1}, "q1": {"b:1": 1, "c:1": 1}, "q2": {"c:2": 1}, "q3": {"d:1": 1}, "q4": {"a:2": 0}}
    documents = {f"{name}:{number}": name for name in "abcd" for number in (1, 2)}
    assert query_groups(qrels, documents).tolist() == [0, 1, 1, 3, 4]
    assert query_groups(qrels, documents, {"d:1": "a:1"}).tolist() == [0, 1, 1, 0, 4]
