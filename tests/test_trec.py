"""Runs and qrels as TREC files: what is written comes back, and other tools read the same."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colret_eval.datasets import DatasetError, page_key
from colret_eval.measures import evaluate, ndcg
from colret_eval.trec import read_qrels, read_run, write_qrels, write_run

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
KEYS = st.builds(page_key, IDS, st.integers(1, 99)).filter(lambda key: key.split() == [key])
SCORES = st.floats(allow_nan=False)


def test_lines_are_those_of_trec(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"q 1": {"a:1": 0.5, "b%20c:2": 1.25, "d:1": 0.5}}, tag="bm25")
    assert (tmp_path / "run").read_text() == (
        "q%201 Q0 b%20c:2 1 1.25 bm25\nq%201 Q0 d:1 2 0.5 bm25\nq%201 Q0 a:1 3 0.5 bm25\n"
    )
    write_qrels(tmp_path / "qrels", {"q 1": {"a:1": 2, "d:1": 0}, "none": {}})
    assert (tmp_path / "qrels").read_text() == "q%201 0 a:1 2\nq%201 0 d:1 0\n"


@settings(max_examples=100, deadline=None)
@given(
    run=st.dictionaries(IDS, st.dictionaries(KEYS, SCORES, min_size=1, max_size=4), max_size=4),
    qrels=st.dictionaries(IDS, st.dictionaries(KEYS, st.integers(-2, 5), min_size=1, max_size=4), max_size=4),
)
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("trec") / "file"
    write_run(path, run)
    assert read_run(path) == run
    write_qrels(path, qrels)
    assert read_qrels(path) == qrels


def test_other_tools_read_the_same(tmp_path: Path) -> None:
    qrels = {"q1": {"a:1": 2, "b:1": 1}, "q2": {"a:2": 1}}
    run = {"q1": {"b:1": 3.0, "c:1": 2.0, "a:1": 2.0}, "q2": {"b:1": 1.0}}
    write_run(tmp_path / "run", run)
    write_qrels(tmp_path / "qrels", qrels)
    theirs = ir_measures.iter_calc(
        [ir_measures.nDCG @ 10],
        list(ir_measures.read_trec_qrels(str(tmp_path / "qrels"))),
        list(ir_measures.read_trec_run(str(tmp_path / "run"))),
    )
    by_query = {metric.query_id: metric.value for metric in theirs}
    ours = evaluate(qrels, run, [ndcg(10)])["nDCG@10"]
    assert [by_query[query] for query in qrels] == pytest.approx(list(ours), abs=1e-6)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q Q0 a:1 1 0.5", "has 5 fields, not 6"),
        ("q Q0 a:1 1 best tag", "'best' is not a score"),
        ("q Q0 a:1 1 nan tag", "'nan' is not a score"),
        ("q Q0 b:1 1 0.5 tag", "names page 'b:1' again"),
    ],
)
def test_a_bad_line_of_a_run_is_named(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "run").write_text(f"q Q0 b:1 1 0.5 tag\n\n{line}\n")
    with pytest.raises(DatasetError, match=r"run:3: ") as caught:
        read_run(tmp_path / "run")
    assert problem in str(caught.value)


def test_bad_qrels_and_bad_keys_are_named(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q 0 a:1 1\nq 0 b:1 x\n")
    with pytest.raises(DatasetError, match="qrels:2: 'x' is not a grade"):
        read_qrels(tmp_path / "qrels")
    (tmp_path / "qrels").write_bytes(b"q 0 \xff 1\n")
    with pytest.raises(DatasetError, match="qrels:1: is not text in UTF-8"):
        read_qrels(tmp_path / "qrels")
    with pytest.raises(DatasetError, match="none: cannot be read"):
        read_run(tmp_path / "none")
    with pytest.raises(ValueError, match="'a b:1' cannot stand in a TREC file"):
        write_qrels(tmp_path / "qrels", {"q": {"a b:1": 1}})
    with pytest.raises(ValueError, match="'' cannot stand"):
        write_run(tmp_path / "run", {}, tag="")
    with pytest.raises(ValueError, match="not a number"):
        write_run(tmp_path / "run", {"q": {"a:1": float("nan")}})
