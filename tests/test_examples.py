"""Every example that a command's help shows is run as it stands, in a folder that has what they name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from fastapi import FastAPI
from fastapi.testclient import TestClient

import colret.encoders
from colret.encoders.catalogue import SHORTCUTS
from colret.encoders.text import TextEncoder
from colret.service.limits import Limits
from colret_cli.main import cli
from tests.checkpoints import tiny_checkpoint
from tests.conftest import TOPICS, write_pdf
from tests.evaluation_sets import TOPICS as SENTENCES
from tests.evaluation_sets import write_set
from tests.object_store import Bucket
from tests.processes import run_cli
from tests.test_query_command import viewer

ROOT = Path(__file__).parent.parent
CODES = {"doctor colqwen2": 1}  # whose weights are not there; all others end with 0


def commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command by what is typed after "colret"."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    with click.Context(command) as ctx:
        for each in command.list_commands(ctx):
            part = command.get_command(ctx, each)
            assert part is not None
            yield from commands(part, f"{name} {each}".strip())


COMMANDS = dict(commands(cli))
EXAMPLES = {
    name: re.findall(r"^ *colret (.+)$", command.help or "", re.MULTILINE) for name, command in COMMANDS.items()
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> Path:
    """The folder: documents, questions, a labelled set, two indexes and a report."""
    folder = tmp_path_factory.mktemp("made")
    sentences = [page for page, _ in SENTENCES]
    for place in ("reports", "scans"):
        (folder / place).mkdir()
    write_pdf(folder / "reports" / "draft.pdf", TOPICS["heron"])
    for i, sentence in enumerate(sentences):
        write_pdf(folder / "reports" / f"{i}.pdf", sentence, f"Net revenue of part {i}, and how it grew")
    write_pdf(folder / "report.pdf", *[f"Net revenue by segment {i} grew" for i in range(13)])
    write_pdf(folder / "scans" / "a.pdf", TOPICS["orbit"])
    write_pdf(folder / "deck.pdf", TOPICS["violin"])
    (folder / "questions.txt").write_text("\n".join(question for _, question in SENTENCES[:4]))
    (folder / "asked.txt").write_text("\n".join(question for _, question in SENTENCES))
    (folder / "keys.txt").write_text("0123456789abcdef0123456789abcdef\n")
    (folder / "unanswered.txt").write_text("\n".join(f"what is number {i} of the gearbox for" for i in range(24)))
    write_set(folder / "my-set", extra={"long.pdf": [" ".join(sentences)]})
    shutil.copy(ROOT / "examples" / "PerksPlus.pdf", folder / "reports")  # which has headings
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
        for arguments in (["ingest", "reports", "report.pdf"], ["eval", "run", "my-set"]):
            assert CliRunner().invoke(cli, arguments).exit_code == 0
    shutil.copytree(folder / ".colret", folder / "archive")
    for name in ("before", "after"):
        shutil.copytree(folder / "eval-report", folder / name)
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder) -> Path:
    """A copy of the folder, where ~ is too and the only viewer there is writes down what it opens."""
    folder = shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    viewer(tmp_path / "bin", "evince")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    load = colret.encoders.load_encoder

    def load_what_is_here(name: str, **options: Any) -> Any:
        known = {*SHORTCUTS, *SHORTCUTS.values()}
        return load(str(tiny_checkpoint("colqwen2")), **options) if name in known else embedded

    monkeypatch.setattr(colret.encoders, "load_encoder", load_what_is_here)
    return folder


def serve_once(app: FastAPI, listening: socket.socket, limits: Limits) -> None:
    """Answer one request, in place of a service that has no end."""
    listening.close()
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.get("/readyz").status_code == 200


def test_every_command_has_an_example() -> None:
    assert {name for name, examples in EXAMPLES.items() if not any(each.startswith(name) for each in examples)} == set()


@pytest.mark.parametrize("example", [each for examples in EXAMPLES.values() for each in examples])
def test_an_example_works(here: Path, monkeypatch: pytest.MonkeyPatch, bucket: Bucket, example: str) -> None:
    if example.startswith("ingest"):  # which makes what the others find
        shutil.rmtree(".colret")
        shutil.rmtree("archive")
    if "--watch" in example:  # one round of what has no end
        monkeypatch.setattr("colret.watching.follow", lambda paths, sync, **options: sync())
    if "s3://bucket" in example:
        bucket.put("reports/one.pdf", here / "report.pdf")
        monkeypatch.setenv("COLRET_STORAGE_OPTION", " ".join(bucket.arguments[1::2]))
        example = example.replace("s3://bucket", bucket.address)
    if example.startswith("serve"):
        monkeypatch.setattr("colret.service.server.serve", serve_once)
        example += " --port 0"
    if example.startswith("remove"):
        CliRunner().invoke(cli, ["ingest", "reports", "report.pdf"])  # they lie elsewhere now
        example = example.replace("3f9a01c2", CliRunner().invoke(cli, ["list"]).stdout[:8])
    if "--ray" in example:  # Ray keeps a home's token for as long as the process lives
        assert "pages" in run_cli(*map(os.path.expanduser, shlex.split(example)))
        return
    result = CliRunner().invoke(cli, [os.path.expanduser(each) for each in shlex.split(example)])
    assert result.exit_code == CODES.get(" ".join(example.split()[:2]), 0), result.output
    silent = ("list --", "index list", "duplicates", "mcp", "serve")  # of which there may be none
    assert result.stdout or example.startswith(silent)
