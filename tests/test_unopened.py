"""An ingest of files that have not changed opens none of them: Python's audit hook says so, and strace."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from colret.ingest import ingest
from colret.settings import settings_for
from colret.store import PageStore
from tests.folders import numpy_encoder, pdf, sentence
from tests.processes import cli, environment, run_cli

FILES, LONG_FILES = 60, 1000
PAST = 1_000_000_000_000_000_000  # long before any test: what has just been written may be written again

AUDITED = """
import os, sys
folder = os.fsencode(sys.argv.pop(1))
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)) and os.fsencode(arguments[0]).startswith(folder):
        os.write(2, b"OPENED " + os.fsencode(arguments[0]) + b"\\n")
sys.addaudithook(note)
from colret_cli.main import cli
cli(prog_name="colret")
"""


@pytest.fixture
def indexed(proving: bool, tmp_path: Path) -> tuple[Path, Path]:
    """A folder of old files, and its index."""
    folder, index, rng = tmp_path / "documents", tmp_path / "index", random.Random(0)
    for number in range(LONG_FILES if proving else FILES):
        path = folder / f"{number % 7}" / f"{number}.pdf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pdf(sentence(rng)))
        os.utime(path, ns=(PAST, PAST))
    report = ingest([folder], PageStore.create(index, settings_for(numpy_encoder().info)), numpy_encoder())
    assert report.n_added == len(list(folder.rglob("*.pdf")))
    return folder, index


def opened(command: list[str], place: str) -> list[str]:
    """Return the files below ``place`` that a command tells on stderr that it opened."""
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return re.findall(rf"^OPENED ({re.escape(place)}/.*)$", done.stderr, re.MULTILINE)


@pytest.mark.prove
def test_unchanged_files_are_not_opened(
    indexed: tuple[Path, Path], proving: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, index = indexed
    arguments = ["ingest", str(folder), "--index", str(index), "--json"]
    audited = [sys.executable, "-c", AUDITED, str(folder), *arguments]
    assert opened(audited, str(folder)) == []
    (changed,) = folder.rglob("8.pdf")
    os.utime(changed, ns=(PAST, PAST + 1))
    assert set(opened(audited, str(folder))) == {str(changed)}  # so that the hook is known to see
    started = time.monotonic()
    done = json.loads(run_cli(*arguments))
    seconds = time.monotonic() - started
    assert (done["n_added"], done["skipped"]) == (0, [])
    assert done["n_unchanged"] == len(list(folder.rglob("*.pdf")))
    if proving:
        with capsys.disabled():
            print(f"\n{done['n_unchanged']:,} unchanged files: {seconds:.2f} s, {done['seconds']:.2f} s after imports")


@pytest.mark.prove
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_the_kernel_agrees(indexed: tuple[Path, Path], tmp_path: Path) -> None:
    folder, index = indexed
    (changed,) = folder.rglob("8.pdf")
    for expected in ([], [str(changed)]):
        trace = tmp_path / "trace"
        command = ["strace", "-f", "-qq", "-e", "trace=open,openat,openat2", "-o", str(trace)]
        command += cli("ingest", folder, "--index", index)
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        calls = [line for line in trace.read_text(errors="replace").splitlines() if str(folder) in line]
        assert any("O_DIRECTORY" in call for call in calls)  # it looked there
        names = [re.findall(r'"([^"]*)"', call)[0] for call in calls if "O_DIRECTORY" not in call]
        assert names == expected
        os.utime(changed, ns=(PAST, PAST + 1))
