"""Systems compared: intervals from one draw, differences with Holm's correction, ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret_eval.evaluation.comparison import Judge, compare, values_of, verdict
from colret_eval.measures import STANDARD, Qrels, Run, evaluate
from colret_eval.statistics import bootstrap_interval, bootstrap_intervals

QUERIES = [f"q{i}" for i in range(24)]
QRELS: Qrels = {query: {"right": 1} for query in QUERIES}
ALWAYS: Run = {query: {"right": 2.0, "wrong": 1.0} for query in QUERIES}
HALF: Run = {query: {"right": float(i % 2), "wrong": 0.5} for i, query in enumerate(QUERIES)}


def sources(n_documents: int) -> list[str]:
    return [f"d{i % n_documents}" for i in range(len(QUERIES))]


def test_means_differences_and_chance() -> None:
    runs = {"ours": ALWAYS, "theirs": HALF, "same": ALWAYS, "half": HALF}
    values = {system: values_of(QRELS, run) for system, run in runs.items()}
    ranks = {system: np.where(of["Success@1"] > 0, 1.0, 2.0) for system, of in values.items()}
    found = compare(values, ranks, "ours", Judge(sources(24)), n_pages=40)
    assert {s: row["measures"]["Success@1"]["mean"] for s, row in found.items()} == {
        "ours": 1,
        "theirs": 0.5,
        "same": 1,
        "half": 0.5,
    }
    assert found["half"]["measures"] == found["theirs"]["measures"]  # the same resamples
    assert found["ours"]["differences"] is None
    assert set(found["theirs"]["measures"]) == {measure.name for measure in STANDARD}
    difference = found["theirs"]["differences"]["Success@1"]
    one_test = 2 / 2**12  # all twelve differences favour one side
    assert (difference["mean"], difference["p"], difference["verdict"]) == (0.5, pytest.approx(one_test), "better")
    assert difference["p_holm"] == pytest.approx(3 * one_test)  # three systems are compared
    nothing = found["same"]["differences"]["nDCG@10"]
    assert (nothing["low"], nothing["high"], nothing["p_holm"], nothing["verdict"]) == (0.0, 0.0, 1.0, "tie")
    assert found["theirs"]["ranks"] == {"median": 1.5, "mean": 1.5, "n_missing": 0}


def test_differences_flip_documents_whole() -> None:
    """Twelve documents of two queries, of which six have both won: 2 of the 2^6 patterns of signs, not of 2^12."""
    values = {"ours": values_of(QRELS, ALWAYS), "theirs": values_of(QRELS, HALF)}
    found = Judge(sources(12)).differences({"theirs": values["ours"]}, {"theirs": values["theirs"]})
    assert found["theirs"]["Success@1"]["p"] == pytest.approx(2 / 2**6)


def test_the_unit_is_told() -> None:
    column = {"a": np.arange(24.0)}
    assert Judge(sources(12)).intervals(column)["a"]["unit"] == "documents"
    few = Judge(sources(3)).intervals(column)["a"]
    assert (few["unit"], few["n_units"]) == ("queries", 24)
    assert Judge(sources(3)).intervals({}) == {}


@pytest.mark.parametrize(
    ("low", "high", "p", "expected"),
    [
        (0.1, 0.2, 0.01, "better"),
        (-0.2, -0.1, 0.01, "worse"),
        (-0.1, 0.2, 0.01, "tie"),
        (0.0, 0.2, 0.01, "tie"),
        (0.1, 0.2, 0.05, "tie"),
    ],
)
def test_a_difference_needs_interval_and_p_value(low: float, high: float, p: float, expected: str) -> None:
    assert verdict(low, high, p) == expected


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32))
def test_many_intervals_at_once_are_those_of_one_by_one(n: int, n_documents: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((n, m))
    names = [f"d{i}" for i in rng.integers(0, n_documents, n)]
    together = bootstrap_intervals(values, names, np.random.default_rng(seed), n_resamples=200)
    for column, found in zip(values.T, together, strict=True):
        alone = bootstrap_interval(column, names, np.random.default_rng(seed), n_resamples=200)
        np.testing.assert_allclose(found[:3], alone[:3])
        assert found[3:] == alone[3:]


def test_values_are_those_of_the_standard_measures() -> None:
    expected = evaluate(QRELS, HALF, STANDARD)
    assert {name: of.tolist() for name, of in values_of(QRELS, HALF).items()} == {
        name: of.tolist() for name, of in expected.items()
    }
