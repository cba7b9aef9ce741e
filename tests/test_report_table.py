"""From runs to figures: what is compared with what, and what is always printed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from colret_eval.measures import Qrels, Run, ndcg, success
from colret_eval.report_table import Labels, Summary, as_json, format_summary, summarise

QUERIES = [f"q{i}" for i in range(24)]
QRELS: Qrels = {query: {"right": 1} for query in QUERIES}
ALWAYS: Run = {query: {"right": 2.0, "wrong": 1.0} for query in QUERIES}
HALF: Run = {query: {"right": float(i % 2), "wrong": 0.5} for i, query in enumerate(QUERIES)}


def summary(n_documents: int = 12) -> Summary:
    return summarise(
        Labels("toy", QRELS, {query: f"d{i % n_documents}" for i, query in enumerate(QUERIES)}, n_pages=40),
        {"ours": ALWAYS, "theirs": HALF, "same": ALWAYS, "half": HALF},
        [success(1), ndcg(10)],
        against=["theirs", "same"],
        kept={"exact top-10 by two-stage": np.full(24, 0.75)},
        rng=np.random.default_rng(0),
    )


def test_means_differences_and_chance() -> None:
    figures = summary()
    assert figures.reference == "ours"
    assert {s: row["Success@1"].mean for s, row in figures.systems.items()} == {
        "ours": 1,
        "theirs": 0.5,
        "same": 1,
        "half": 0.5,
    }
    assert figures.random["Success@1"] == pytest.approx(1 / 40)
    difference = figures.differences["theirs"]["Success@1"]
    assert difference.interval.mean == pytest.approx(0.5)
    one_test = 2 / 2**12  # all twelve differences favour one side
    assert difference.p == pytest.approx(2 * one_test)  # Holm: two systems are compared


def test_equal_systems_have_equal_intervals_and_differ_by_nothing() -> None:
    systems = summary().systems
    assert systems["half"] == systems["theirs"]
    difference = summary().differences["same"]["nDCG@10"]
    assert (difference.interval.low, difference.interval.high, difference.p) == (0.0, 0.0, 1.0)


def test_table_prints_sizes_unit_baseline_and_every_system() -> None:
    lines = format_summary(summary()).splitlines()
    assert lines[0] == "toy: Q = 24 queries about 12 documents, N = 40 pages; 95 % intervals resample documents"
    assert lines[1].split() == ["system", "Success@1", "nDCG@10"]
    assert [line.split("  ")[0] for line in lines[2:8]] == [
        "ours",
        "theirs",
        "same",
        "half",
        "random order",
        "ours minus",
    ]
    assert lines[6].split()[-2] == "0.025"
    assert lines[8].startswith("  theirs")
    assert "+0.500 [+" in lines[8]
    assert lines[-1] == "exact top-10 by two-stage: 0.750 [0.750, 0.750]"
    assert "resample queries" in format_summary(summary(n_documents=3))


def test_json_names_every_number() -> None:
    figures = json.loads(json.dumps(as_json(summary())))
    assert figures["n_pages"] == 40
    assert figures["systems"]["theirs"]["Success@1"]["unit"] == "documents"
    assert set(figures["differences"]["theirs"]["nDCG@10"]) == {"mean", "low", "high", "unit", "n_units", "p"}
    assert figures["kept"]["exact top-10 by two-stage"]["mean"] == 0.75
