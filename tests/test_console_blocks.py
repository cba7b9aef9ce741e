"""What README and docs show on a console is what comes out.

``pytest tests/test_console_blocks.py --update-docs`` writes it there anew.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

import colret.encoders
from colret.encoders.text import TextEncoder
from colret_cli.main import cli

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/evidence.md", "docs/shell.md")
LEFT_OUT = "..."  # a line that stands for any others

BLOCK = re.compile(r"(?ms)^```console\n(.*?)^```$")
COMMAND = re.compile(r"(?ms)^\$ colret ([^\n]*)\n(.*?)(?=^\$ |\Z)")
# Processors differ in the third digit of a score.
NUMBERS = re.compile(r"\d+\.\d+|\d+%")


class Shown(NamedTuple):
    """A command of a page, and what the page says that it prints."""

    page: str
    command: str
    output: str


SHOWN = [
    Shown(page, *found)
    for page in PAGES
    for block in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    for found in COMMAND.findall(block)
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> Path:
    """A folder with the examples and, as .demo and .colret, an index of them."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(ROOT / "examples", folder / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
        assert CliRunner().invoke(cli, ["ingest", "examples", "--index", ".demo"]).exit_code == 0
    shutil.copytree(folder / ".demo", folder / ".colret")
    return folder


def test_every_page_shows_a_console() -> None:
    assert {shown.page for shown in SHOWN} == set(PAGES)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: f"{shown.page}: {shown.command[:40]}")
def test_a_console_shows_what_comes_out(
    made: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder, request: pytest.FixtureRequest, shown: Shown
) -> None:
    monkeypatch.chdir(made)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    result = CliRunner().invoke(cli, shlex.split(shown.command))
    assert result.exit_code == 0, result.output
    if request.config.getoption("--update-docs"):
        _write(shown, result.stdout)
        return
    said, printed = NUMBERS.sub("#", shown.output), NUMBERS.sub("#", result.stdout)
    parts = [part.split() for part in re.split(rf"(?m)^{re.escape(LEFT_OUT)}$", said)]
    pattern = ".*".join(re.escape(" ".join(part)) for part in parts)
    assert re.fullmatch(rf"\s*{pattern}\s*", " ".join(printed.split()), re.DOTALL), result.stdout


def test_the_queries_about_filters_are_answered(
    made: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder
) -> None:
    monkeypatch.chdir(made)
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    text = (ROOT / "docs/filters.md").read_text(encoding="utf-8")
    commands = re.findall(r"(?m)^colret (query .*)$", text)
    assert commands
    for command in commands:
        result = CliRunner().invoke(cli, [*shlex.split(command), "--fail-if-unsure"])
        assert result.exit_code == 0, result.output


def _write(shown: Shown, printed: str) -> None:
    """Put what came out into the page; where its beginning was left out, the last answer alone."""
    if shown.output.startswith(LEFT_OUT):
        printed = f"{LEFT_OUT}\n" + printed.rstrip().split("\n\n")[-1]
    path = ROOT / shown.page
    before, after = (f"$ colret {shown.command}\n{output}" for output in (shown.output, printed.rstrip() + "\n"))
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")
