"""The README tells what is there: commands, output, Python."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import colret.encoders
from colret.encoders.text import TextEncoder
from colret_cli.main import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = cli.list_commands(None)  # type: ignore[arg-type]  # needs no context


@pytest.fixture(autouse=True)
def _the_loaded_encoder(monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_stands_in_the_readme(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "--help"])
    assert result.exit_code == 0
    assert re.search(rf"Example:\n +colret {command}\b", result.output)
    assert f"colret {command}" in README


def test_the_readme_names_only_commands_that_exist() -> None:
    assert set(re.findall(r"colret ([a-z]+)\b(?=[\s`])", README)) <= {*COMMANDS, "is", "eval"}


def test_the_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [block] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert re.search(r"PerksPlus\.pdf'\]} 3\n$", capsys.readouterr().out)


def test_the_demo_of_the_readme_is_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and snippets to the letter; scores may differ in the third digit between processors."""
    [(asked, shown)] = re.findall(r"\$ colret (query [^\n]*)\n\.\.\.\n(.*?)```", README, re.DOTALL)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    runner = CliRunner()
    assert runner.invoke(cli, ["ingest", "examples", "--index", ".demo"]).exit_code == 0
    result = runner.invoke(cli, asked.split())
    numbers = re.compile(r"\d\.\d+ \(\d+\.\d+\)")
    last_answer = result.output.rstrip().split("\n\n")[-1]
    assert numbers.sub("#", last_answer).split() == numbers.sub("#", shown).split()
