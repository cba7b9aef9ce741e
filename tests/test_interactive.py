"""``colret query`` without a query: a conversation on a real terminal."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

import colret.encoders
from colret.encoders.text import TextEncoder
from colret_cli.main import cli
from tests.conftest import TOPICS, write_pdf
from tests.terminals import CTRL_D, Terminal
from tests.test_query_command import told, viewer

UP = "\x1b[A"
PROMPT = r"colret> (\x1b\[\?\d+h)?$"


@pytest.fixture
def here(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    write_pdf(folder / "heron.pdf", TOPICS["heron"], TOPICS["orbit"])
    assert CliRunner().invoke(cli, ["ingest", "documents"]).exit_code == 0
    return tmp_path


def plain(shown: str) -> str:
    return re.sub(r"\x1b\][^\x1b]*\x1b\\|\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


def test_a_conversation(here: Path) -> None:
    """One process answers, is resized, interrupted, told what to do and what not, and ends."""
    started = viewer(here / "bin", "evince")
    variables = {"XDG_STATE_HOME": str(here / "state"), "PATH": f"{here / 'bin'}:/usr/bin:/bin"}
    with Terminal(["query", "-k", "2"], 100, **variables) as terminal:
        assert ".colret: 4 pages; :help lists commands, Ctrl-D ends" in terminal.until(PROMPT)

        def ask(text: str) -> str:
            terminal.type(text + "\r")
            terminal.until(r"\n")  # of what was typed
            return plain(terminal.until(PROMPT))

        answer = ask("the satellite around Mars")
        assert "  1. documents/heron.pdf  page 2  " in answer
        assert "  2. " in answer
        assert max(map(len, answer.splitlines())) > 60
        terminal.resize(40)
        ask("")  # after which the prompt is drawn no more for the new width
        assert max(map(len, ask("the satellite around Mars").splitlines())) <= 40
        terminal.resize(100)
        ask("")

        terminal.type("half a query")
        terminal.until("query")
        terminal.interrupt()
        terminal.until(PROMPT)
        assert ask(":k 1") == ask(":lane text") == "colret> "
        assert ask(UP + UP + UP).count(". documents/") == 1  # the query before those, found again
        assert "by words]" in ask("satellite")
        assert "1. 100% of the query at " in ask(":show 1")
        ask(":open 1")
        assert told(started) == ["--page-index=2", str(here / "documents" / "heron.pdf")]

        assert "colret: there is no hit 2" in ask(":open 2")
        assert "colret: 'fast' is no lane: there are visual, text, both" in ask(":lane fast")
        assert "colret: 'x' is no number from 1" in ask(":k x")
        assert "colret: there is no :fly; :help lists what there is" in ask(":fly")
        assert ":show [N]" in ask(":help")
        assert "colret: the query has no tokens" in ask(":lane both") + ask("\u200b")
        assert ask("") == "colret> "
        terminal.type(CTRL_D)
        terminal.end()
        assert terminal.code == 0
    history = here / "state" / "colret" / "history"
    assert history.read_text().splitlines()[0] == "the satellite around Mars"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_ctrl_c_drops_a_search_and_not_the_session(here: Path) -> None:
    with Terminal(["query"], XDG_STATE_HOME=str(here / "state")) as terminal:
        terminal.until(PROMPT)
        for _ in range(3):  # at whatever it is then: loading, searching, printing
            terminal.type("the satellite around Mars\r")
            terminal.until(r"\n")
            terminal.interrupt()
            terminal.until(PROMPT)
        terminal.type("the satellite around Mars\r")
        assert "documents/heron.pdf" in terminal.until(r"page 2 ")
        terminal.until(PROMPT)
        terminal.type(":quit\r")
        assert "Traceback" not in terminal.end()
        assert terminal.code == 0
