"""The README tells what is there: commands, output, Python."""

from __future__ import annotations

import doctest
import re
import shutil
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

import colret.encoders
from colret.documents import ARCHIVE_SUFFIXES, SUPPORTED_SUFFIXES
from colret.encoders.text import TextEncoder
from colret.errors import Reason
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


def test_the_page_on_ingest_names_every_kind_of_file_and_every_reason() -> None:
    page = (ROOT / "docs" / "ingest.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[.\w]+", page))
    assert set(get_args(Reason)) | SUPPORTED_SUFFIXES | ARCHIVE_SUFFIXES <= words


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_of_the_readme_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [block] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    assert re.search(r"PerksPlus\.pdf 3 PageBox\(left=7\d\.", capsys.readouterr().out)
    assert Path("hit.png").stat().st_size > 10_000


def test_the_page_on_python_shows_what_comes_out(here: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```pycon\n(.*?)```", page, re.DOTALL)
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, "python.md", "docs/python.md", 0)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert len(test.examples) > 20
    assert runner.run(test, out=told.append).failed == 0, "".join(told)


def test_the_example_of_a_configuration_is_one(here: Path) -> None:
    [block] = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "shell.md").read_text(encoding="utf-8"), re.DOTALL)
    Path("colret.toml").write_text(block)
    result = CliRunner().invoke(cli, ["config"])
    assert result.exit_code == 0, result.output
    assert "colret eval run --out reports  from colret.toml" in result.stdout


def test_the_exit_codes_of_the_readme_are_those_of_the_page_on_the_shell() -> None:
    page = (ROOT / "docs" / "shell.md").read_text(encoding="utf-8")
    codes = [re.findall(r"(?m)^\| ([\d, ]+) \|", text) for text in (README, page)]
    assert codes[0] == codes[1] == ["0", "1", "2", "3", "4", "130, 143"]
