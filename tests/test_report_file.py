"""Reports are read with suspicion, and written as a whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colret_cli.evaluation import _SYSTEMS, _stoppable
from colret_cli.main import cli
from colret_eval.evaluation.systems import SYSTEMS
from colret_eval.report_file import ReportError, read_report, replacing_folder, write_text
from tests.reports import small_report

VALUES = st.sampled_from(
    [None, 7, -1.5, "text", [], {}, [None], ["a"], {"a": None}, [[1]], float("nan"), 10**400, True]
)


def run(path: Path, *arguments: str) -> str:
    """Return what a command says of a report on its error stream, which must be a line or nothing."""
    result = CliRunner().invoke(cli, ["eval", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.exit_code in (0, 1)
    assert result.stderr.count("\n") == result.exit_code
    return result.stderr


def changed(report: Any, data: st.DataObject) -> None:
    """Put another value somewhere in the report."""
    while True:
        keys = list(report) if isinstance(report, dict) else list(range(len(report)))
        key = data.draw(st.sampled_from(keys))
        if not (report[key] and isinstance(report[key], dict | list)) or data.draw(st.integers(0, 3)) == 0:
            report[key] = data.draw(VALUES)
            return
        report = report[key]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_any_damage_ends_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    report = small_report(4)
    changed(report, data)
    path, whole = tmp_path / "report.json", tmp_path / "whole.json"
    path.write_text(json.dumps(report))
    whole.write_text(json.dumps(small_report(4)))
    run(path, "html", str(path), "-o", str(tmp_path / "page.html"))
    run(path, "compare", str(path), str(whole))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"sets": []}, "is damaged (it has no sets)"),
        ({"sets": [None]}, "is damaged (not all of 'sets' are objects)"),
        ({"model": None}, "is damaged ('model' is NoneType, not dict)"),
        ({"schema_version": "1"}, "has version '1' of the report's schema, not 1"),
    ],
)
def test_damage_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(small_report() | change))
    for arguments in (["html", str(path)], ["compare", str(path), str(path)]):
        assert problem in run(path, *arguments)


def test_nesting_without_end_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"schema":' + "[" * 200_000)
    with pytest.raises(ReportError, match="is damaged"):
        read_report(path, "colret-eval-run")


def test_help_and_error_list_the_systems(tmp_path: Path) -> None:
    assert tuple(system.id for system in SYSTEMS) == _SYSTEMS
    path = tmp_path / "report.json"
    path.write_text(json.dumps(small_report()))
    assert "name another with --system: late_interaction, " in run(path, "compare", str(path), str(path), "--system=x")


def test_a_file_is_replaced_as_a_whole_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new, but for \ud800")
    assert path.read_text() == "old"
    link = tmp_path / "link"
    link.symlink_to(path)
    write_text(link, "new")
    assert (path.read_text(), link.is_symlink()) == ("new", True)
    assert {each.name for each in tmp_path.iterdir()} == {"report.json", "link"}


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text)
        write_text(pipe, "text")
        assert read.result(timeout=30) == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_folder_is_replaced_as_a_whole_or_stays(tmp_path: Path) -> None:
    folder = tmp_path / "trec"
    (folder / "old").mkdir(parents=True)
    (folder / "old/qrels.trec").write_text("q1 0 a:1 1\n")
    with pytest.raises(FileNotFoundError), replacing_folder(folder, ".trec") as new:
        (new / "set/qrels.trec").write_text("")  # which fails, as its folder is not there
    assert [path.name for path in folder.rglob("*")] == ["old", "qrels.trec"]
    with replacing_folder(folder, ".trec") as new:
        (new / "new").mkdir()
    assert [path.name for path in folder.rglob("*")] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["trec"]


def test_a_folder_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "trec").mkdir()
    (tmp_path / "trec/notes.txt").write_text("mine")
    with pytest.raises(ReportError, match=r"notes\.txt: is in the way"), replacing_folder(tmp_path / "trec", ".trec"):
        pass
    assert (tmp_path / "trec/notes.txt").read_text() == "mine"


def test_what_is_temporary_is_removed_when_a_run_is_ended() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, _stoppable(keeps_index=True), tempfile.TemporaryDirectory() as scratch:
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM
    assert not Path(scratch).exists()
    assert signal.getsignal(signal.SIGTERM) == before


def test_only_a_kept_index_is_called_consistent(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), _stoppable(keeps_index=True):
        raise KeyboardInterrupt
    with pytest.raises(SystemExit) as ended, _stoppable(keeps_index=False):
        raise KeyboardInterrupt
    assert (ended.value.code, capsys.readouterr().err) == (130, "colret: interrupted; nothing was kept\n")
