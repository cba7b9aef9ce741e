"""Two reports compared: the same queries only, differences with their sign, and luck called a tie."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from colret_cli.main import cli
from colret_eval.compare import SetComparison, as_json, compare, format_comparison
from colret_eval.report_file import ReportError
from tests.reports import HOSTILE, Report, small_report

REFERENCE = "late_interaction"


def _report(ranks: Sequence[int | None], **model: object) -> Report:
    """Return a report in which the reference has these ranks, with a document a query."""
    report = small_report(len(ranks))
    report["model"] |= model
    for query, rank in zip(report["sets"][0]["queries"], ranks, strict=True):
        query["ranks"][REFERENCE] = rank
        query["values"][REFERENCE] = {"nDCG@10": _ndcg(rank), "Success@1": float(rank == 1)}
    return report


def _ndcg(rank: int | None) -> float:
    return 1 / math.log2(rank + 1) if rank and rank <= 10 else 0.0


def _only_set(first: Report, second: Report, **options: Any) -> SetComparison:
    (data,) = compare(first, second, **options).sets
    return data


def test_a_gain_is_found_with_its_sign_and_its_queries() -> None:
    data = _only_set(_report([5] * 12 + [1]), _report([1] * 12 + [3]))
    by_name = {change.measure: change for change in data.changes}
    assert by_name["Success@1"].first == pytest.approx(1 / 13)
    assert by_name["Success@1"].second == pytest.approx(12 / 13)
    assert by_name["Success@1"].difference.mean == pytest.approx(11 / 13)
    assert by_name["Success@1"].verdict == "better"
    assert by_name["Success@5"].verdict == "tie"  # all found by both
    assert [query.id for query in data.gains] == ["q0", "q1", "q2", "q3", "q4"]
    assert [query.id for query in data.losses] == ["q12"]
    assert data.losses[0].first == 1.0
    assert data.losses[0].second == 0.5


def test_the_other_way_round_has_the_other_sign() -> None:
    first, second = _report([5] * 12 + [1]), _report([1] * 12 + [3])
    there, back = _only_set(first, second), _only_set(second, first)
    for one, other in zip(there.changes, back.changes, strict=True):
        assert one.difference.mean == pytest.approx(-other.difference.mean)
        assert one.p == pytest.approx(other.p)
        assert {one.verdict, other.verdict} in ({"better", "worse"}, {"tie"})
    assert {query.id for query in back.gains} == {query.id for query in there.losses}


def test_a_report_is_the_same_as_itself() -> None:
    report = _report([1, 2, None, 4] * 5)
    comparison = compare(report, copy.deepcopy(report))
    assert comparison.settings == {}
    (data,) = comparison.sets
    assert data.n_left_out == 0
    assert all(change.verdict == "tie" and change.p == 1.0 for change in data.changes)
    assert not data.gains
    assert not data.losses


@given(st.lists(st.tuples(*[st.none() | st.integers(1, 30)] * 2), min_size=1, max_size=12))
def test_measures_follow_the_ranks(ranks: list[tuple[int | None, int | None]]) -> None:
    firsts, seconds = ([pair[side] for pair in ranks] for side in (0, 1))
    data = _only_set(_report(firsts), _report(seconds))
    for change in data.changes:
        name, _, cutoff = change.measure.partition("@")
        for mean, side in ((change.first, firsts), (change.second, seconds)):
            values = []
            for rank in side:
                hit = rank is not None and rank <= int(cutoff)
                gain = {"Success": 1.0, "MRR": 1 / rank if rank else 0.0, "nDCG": _ndcg(rank)}[name]
                values.append(gain if hit else 0.0)
            assert mean == pytest.approx(np.mean(values))
        assert change.difference.mean == pytest.approx(change.second - change.first)
    shown = [query.id for query in [*data.gains, *data.losses]]
    assert len(shown) == len(set(shown))


def test_queries_that_ask_or_expect_something_else_are_left_out_and_counted() -> None:
    first, second = _report([1] * 12), _report([2] * 12)
    queries = second["sets"][0]["queries"]
    queries[0]["text"] = "another question"
    queries[1]["relevant"] = [{"key": "other.pdf:9", "file": "other.pdf", "page": 9, "grade": 1}]
    queries[2]["id"] = "only in the second"
    data = _only_set(first, second)
    assert data.n_queries == 9
    assert data.n_left_out == 4  # q2 and its namesake are two
    said = format_comparison(compare(first, second))
    assert "9 queries compared, 4 left out" in said
    assert "resample queries, 9 of them" in said  # of nine documents, which are too few


def test_reports_of_other_queries_are_refused() -> None:
    second = _report([1, 1])
    for query in second["sets"][0]["queries"]:
        query["id"] += "x"
    with pytest.raises(ReportError, match="no query in common"):
        compare(_report([1, 1]), second)


def test_reports_of_other_sets_are_refused() -> None:
    first, second = _report([1]), _report([1])
    first["sets"] *= 2
    second["sets"][0]["name"] = "elsewhere"
    with pytest.raises(ReportError, match="no set in common"):
        compare(first, second)


def test_a_single_set_may_have_been_renamed() -> None:
    second = _report([1])
    second["sets"][0]["name"] = "renamed"
    assert _only_set(_report([1]), second).n_queries == 1


def test_settings_that_differ_and_other_sizes_are_said() -> None:
    first, second = _report([1, 2]), _report([1, 3], name="another model")
    second["index"]["codec"] = "binary"
    second["sets"][0]["n_pages"] = 700
    comparison = compare(first, second)
    assert comparison.settings == {"model name": ("embedded", "another model"), "index codec": ("int8", "binary")}
    text = format_comparison(comparison)
    assert "index codec: int8 -> binary" in text
    assert "N = 635 pages -> 700: not the same task" in text


def test_another_system_can_be_compared_and_an_unknown_one_is_refused() -> None:
    data = _only_set(_report([1, 2]), _report([2, 1]), system="bm25")
    assert all(change.difference.mean == 0 for change in data.changes)
    with pytest.raises(ReportError, match="no ranks of this system"):
        compare(_report([1]), _report([1]), system="nothing")


def test_the_command_prints_text_and_json(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    reports = _report([1, 4, 2]), _report([2, 1, 2])
    for path, report in zip(paths, reports, strict=True):
        path.write_text(json.dumps(report))
    made = CliRunner().invoke(cli, ["eval", "compare", *map(str, paths)])
    assert made.exit_code == 0, made.output
    assert made.output == format_comparison(compare(*reports)) + "\n"
    assert HOSTILE.replace("\u202e", r"\u202e") in made.output
    as_object = CliRunner().invoke(cli, ["eval", "compare", "--json", *map(str, paths)])
    assert json.loads(as_object.output) == json.loads(json.dumps(as_json(compare(*reports))))
    (row, *_) = json.loads(as_object.output)["sets"][0]["changes"]
    assert {"mean", "low", "high", "unit", "n_units", "p", "verdict"} == set(row["difference"])
