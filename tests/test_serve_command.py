"""``colret serve`` as a command: what it refuses, how it starts, how it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from colret_cli.main import cli
from tests.processes import cli as command
from tests.processes import environment
from tests.services import API, PATIENCE, client

KEY = "correct-horse-battery-staple"


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(cli, ["serve", *map(str, arguments)])
    assert result.exit_code == 1, result.output
    assert result.output.count("\n") == 1
    return result.output


def test_what_cannot_be_served_is_told_in_a_line(tmp_path: Path, example_index: Path) -> None:
    assert "no index here" in refused("--index", tmp_path / "none")
    assert "cannot be read" in refused("--index", example_index, "--api-key-file", tmp_path / "none")
    assert "cannot listen there" in refused("--index", example_index, "--host", "192.0.2.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot listen there" in refused("--index", example_index, "--port", taken.getsockname()[1])


def test_without_its_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, example_index: Path) -> None:
    for name in [name for name in sys.modules if name.startswith("colret.service")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert (
        refused("--index", example_index) == "colret: colret serve: fastapi is missing; pip install 'colret[serve]'\n"
    )


def test_a_key_of_the_environment_may_not_be_short(monkeypatch: pytest.MonkeyPatch, example_index: Path) -> None:
    monkeypatch.setenv("COLRET_API_KEY", "short")
    told = refused("--index", example_index)
    assert "COLRET_API_KEY: a key has at least 16" in told


def test_as_many_connections_as_it_takes_leave_files_for_the_index(example_index: Path) -> None:
    with subprocess.Popen(
        ["sh", "-c", 'ulimit -Sn 128 && exec "$@"', "sh", *command("serve", "--index", example_index, "--port", 0)],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        address = process.stderr.readline().partition(" at ")[2].split("/  ")[0]
        with ExitStack() as idle:
            idle.callback(process.terminate)
            for _ in range(200):
                where = ("127.0.0.1", int(address.rpartition(":")[2]))
                idle.enter_context(socket.create_connection(where, timeout=PATIENCE))
            with client(address) as asking:
                assert asking.get(f"{API}/search", params={"text": "yoga", "k": 1}).status_code == 200
        assert process.stderr.read() == ""


def test_it_serves_until_it_is_told_to_end(example_index: Path) -> None:
    process = subprocess.Popen(
        command("serve", "--index", example_index, "--port", 0, "--device", "cpu"),
        env=environment() | {"COLRET_API_KEY": KEY},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said.startswith(f"serving {example_index} at http://127.0.0.1:")
    assert KEY not in said
    address = said.partition(" at ")[2].split("/  ")[0]
    with client(address, transport=httpx.HTTPTransport(retries=5)) as asking:
        assert asking.get(f"{API}/index").status_code == 401
        headers = {"Authorization": f"Bearer {KEY}"}
        [hit] = asking.get(f"{API}/search", params={"text": "yoga", "k": 1}, headers=headers).json()["hits"]
        assert Path(hit["file"]).name == "PerksPlus.pdf"
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGTERM
    assert rest == ""
