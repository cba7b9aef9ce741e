"""Stages: to which of them a lost page is put down."""

from __future__ import annotations

import pytest

from colret_eval.stages import Stage, lost_at


def stage(name: str, ranking: str, within: int = 2) -> Stage:
    return Stage(name, {"q": ranking.split()}, within)


QRELS = {"q": {"x": 1, "y": 2, "a": 0}}


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([stage("model", "x a b"), stage("codec", "a x b"), stage("prefilter", "b y a")], None),
        ([stage("model", "a b x"), stage("codec", "a b x"), stage("prefilter", "a b x")], "model"),
        ([stage("model", "a x b"), stage("codec", "a b x"), stage("prefilter", "a b x")], "codec"),
        ([stage("model", "a x b"), stage("codec", "a x b"), stage("prefilter", "a b x")], "prefilter"),
        ([stage("model", "a b x"), stage("codec", "x a b"), stage("prefilter", "a b")], "prefilter"),  # found again
        ([stage("model", "a b x"), stage("codec", "a b x"), stage("prefilter", "y a b")], None),  # by accident
        ([stage("model", "a x b"), stage("candidates", "a b c x", within=4), stage("final", "a b x")], "final"),
        ([stage("model", "a x b"), stage("candidates", "a b c x", within=3), stage("final", "a b")], "candidates"),
    ],
)
def test_the_stage_to_blame(stages: list[Stage], expected: str | None) -> None:
    assert lost_at(QRELS, stages) == {"q": expected}


def test_queries_that_a_stage_lacks_are_lost_and_those_without_answers_left_out() -> None:
    assert lost_at({"p": {"x": 1}, "none": {"x": 0}}, [stage("model", "x")]) == {"p": "model"}


def test_no_stages() -> None:
    with pytest.raises(ValueError, match="no stages"):
        lost_at(QRELS, [])
