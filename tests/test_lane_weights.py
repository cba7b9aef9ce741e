"""The analysis that the text lane's weight was chosen by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from colret.encoders.text import TextEncoder
from colret.lanes import CONTENTS_PENALTY, TEXT_WEIGHT
from colret_eval.identifiers import identifier_queries
from colret_eval.lane_weights import (
    LATE,
    TEXT,
    Asked,
    Parts,
    ask_questions,
    held_out_weights,
    main,
    measured,
    open_corpora,
    report,
    systems,
)
from tests.evaluation_sets import TOPICS, write_set


def test_identifiers_are_rare_words_with_digits_or_underscores() -> None:
    pages = {
        "a:1": "see sshd_config, RFC2119. plain 12345 (AB-1/5) everywhere_1",
        "a:2": "RFC2119 everywhere_1 x_1",
        "b:1": "everywhere_1",
    }
    queries, qrels = identifier_queries(pages, 10, np.random.default_rng(0))
    assert {queries[key]: set(pages) for key, pages in qrels.items()} == {
        "sshd_config": {"a:1"},
        "RFC2119": {"a:1", "a:2"},
        "AB-1/5": {"a:1"},
    }
    drawn, _ = identifier_queries(pages, 2, np.random.default_rng(0))
    assert len(drawn) == 2
    assert identifier_queries({"a:1": "none here"}, 5, np.random.default_rng(0)) == ({}, {})


def test_a_set_has_no_part_in_the_choice_of_its_weight() -> None:
    means = {
        "one": {0.1: 0.9, 0.25: 0.1, 0.5: 0.1, 1.0: 0.1},
        "two": {0.1: 0.2, 0.25: 0.5, 0.5: 0.6, 1.0: 0.1},
        "three": {0.1: 0.2, 0.25: 0.6, 0.5: 0.5, 1.0: 0.1},
    }
    assert held_out_weights(means) == {"one": 0.25, "two": 0.1, "three": 0.1}


def test_ways_of_ranking_by_hand() -> None:
    parts = Parts(
        np.array([[0.5, 0.6, 0.55]], np.float32),
        np.array([[0.9, 0.0, 0.8]], np.float32),
        np.array([0, 0, 1], np.float32),
    )
    asked = Asked(["c", "b", "a"], ["q"], {"q": {"c": 1}}, ["c"], parts)
    found = systems(asked)
    assert found[f"+ {TEXT_WEIGHT} x BM25"][0] == pytest.approx([0.95, 0.6, 0.95 - CONTENTS_PENALTY])
    assert found[TEXT][0] == pytest.approx([0.9, 0.0, 0.6])
    assert found["reciprocal ranks"][0] == pytest.approx([1 / 63 + 1 / 61, 1 / 61, 1 / 62 + 1 / 62])
    assert [measured(asked, found[label])["Success@1"].tolist() for label in (LATE, TEXT)] == [[0.0], [1.0]]


def test_the_report_of_two_sets(tmp_path: Path, embedded: TextEncoder) -> None:
    folders = [write_set(tmp_path / "one", TOPICS[:4]), write_set(tmp_path / "two", TOPICS[4:8])]
    corpora = list(open_corpora(folders, embedded, tmp_path / "work", distractors=False))
    assert [corpus.dataset.name for corpus in corpora] == ["one", "two", "all"]
    asked = ask_questions(corpora[0], embedded)
    assert asked.parts.similarities.shape == (4, 4)
    lines = list(report(corpora, embedded))
    assert [line for line in lines if line.startswith("## ")] == [
        "## one: 4 queries, N = 4",
        "## two: 4 queries, N = 4",
        "## all: 8 queries, N = 8",
        "## Weights chosen on the other sets",
    ]
    assert sum(line.startswith(f"| {LATE} |") for line in lines) == 3


def test_what_is_no_set_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
