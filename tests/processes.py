"""Commands and ingests in processes of their own, which can be killed.

``python -m tests.processes INDEX`` is one: it ingests the folders that stdin names.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

import colret.ingest
from colret.ingest import ingest
from colret.store import PageStore
from tests.folders import numpy_encoder

ROOT = Path(__file__).parents[1]

_GONE_SECONDS = 15  # far more than the processes of a killed ingest may take to end


class Ingester:
    """A process that ingests when told to, and may be killed meanwhile."""

    def __init__(self, index: Path) -> None:
        self._index = index
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Have a process ready, unless one is."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.processes", str(self._index)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
            )

    def ingest_and_die(self, folder: Path, seconds: float, *, n_told: int = 0, **options: bool) -> bool:
        """Ingest, with a kill -9 before the end if that comes late enough.

        Args:
            folder: What to ingest.
            seconds: To the kill, from the start or from what follows.
            n_told: How often the ingest must first tell its progress, which it does for each page.
            options: Of ``ingest``.

        Returns:
            Whether the kill came before the end.
        """
        self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write(json.dumps([str(folder), options]) + "\n")
        process.stdin.flush()
        lines = iter(process.stdout.readline, "done\n")
        ended = sum(1 for _ in itertools.islice(lines, n_told)) < n_told
        time.sleep(0 if ended else seconds)
        kill(process)
        ended = ended or "done\n" in process.stdout.readlines()
        self.close()
        return not ended

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            kill(self._process)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process, and see that those it started are gone soon after, whatever they were doing."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=_GONE_SECONDS)
    left = [child for child in alive if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not left, left


def cli(*arguments: object) -> list[str]:
    """Return the command line of colret, run by this interpreter from this source tree: see ``environment``."""
    return [sys.executable, "-m", "colret_cli", *map(str, arguments)]


def run_cli(*arguments: object) -> str:
    """Run a command that must succeed and have nothing to complain of; return what it prints."""
    done = subprocess.run(cli(*arguments), env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    """Return the environment of a process that runs this source tree."""
    paths = [str(ROOT / name) for name in (".", "cli", "eval")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def small_commits() -> None:
    """Have ingests of this process commit every few pages, so that a short one has many moments to die in."""
    colret.ingest.COMMIT_PAGES = 2  # type: ignore[misc]
    colret.ingest.ENCODE_PAGES = 1  # type: ignore[misc]


def _main(index: Path) -> None:
    small_commits()
    encoder = numpy_encoder()
    print("ready", flush=True)
    for line in sys.stdin:
        folder, options = json.loads(line)
        store = PageStore.open(index)
        ingest([Path(folder)], store, encoder, on_progress=lambda _: print("page", flush=True), **options)
        print("done", flush=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
