"""kill -9 of the real command at random moments: the index answers, and the same command ends what was begun."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from colret.store import PageStore
from tests.folders import Document, answers, contents, pdf, sentence
from tests.processes import cli, environment, kill, run_cli

KILLS, LONG_KILLS = 3, 100
DOCUMENTS, LONG_DOCUMENTS = 18, 60
PAGES = 4  # of each


class _Killed:
    """An index whose ingests are killed, beside that of an ingest that nobody disturbed."""

    def __init__(self, place: Path, n_documents: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.folder, self.index, undisturbed = place / "documents", place / "index", place / "undisturbed"
        self.folder.mkdir()
        for i in range(n_documents):
            content = pdf(*[sentence(self.rng, 40) for _ in range(PAGES)])
            (self.folder / f"{i}.pdf").write_bytes(content)
        started = time.monotonic()
        self.ingest(undisturbed)
        self.seconds = time.monotonic() - started
        self.expected = contents(PageStore.open(undisturbed))
        assert len(self.expected) == n_documents
        self.answers = answers(PageStore.open(undisturbed), set(self.expected))
        self.committed: dict[str, Document] = {}  # that an index showed after a kill, and must show from then on

    def arguments(self, index: Path) -> list[object]:
        return ["ingest", self.folder, "--index", index, "--model", "embedded", "--json"]

    def ingest(self, index: Path) -> None:
        done = json.loads(run_cli(*self.arguments(index)))
        assert done["skipped"] == []
        assert done["index"]["n_pages"] > 0

    def try_to_kill(self) -> bool:
        """Kill an ingest and look at what it left; return False if it ended first."""
        command, nowhere = cli(*self.arguments(self.index)), subprocess.DEVNULL
        process = subprocess.Popen(command, env=environment(), stdout=nowhere, stderr=nowhere, text=True)
        time.sleep(self.rng.uniform(0, self.seconds))
        ended = process.poll()
        kill(process)
        if ended is None:
            self.look()
        else:
            assert ended == 0
            self.end()
        return ended is None

    def look(self) -> None:
        """Whatever was cut short: whole documents only, none lost, and each as it should be."""
        if not PageStore.exists(self.index):
            assert not self.committed  # it had not been made yet
            return
        store = PageStore.open(self.index)
        found = contents(store)
        assert found.items() <= self.expected.items()
        assert self.committed.items() <= found.items()
        self.committed = found
        assert answers(store, set(found)) == self.answers_of(found)
        assert len(run_cli("list", "--index", self.index, "--json").splitlines()) == len(found)
        if found:
            [answer] = run_cli("query", "grey heron", "--index", self.index, "--json").splitlines()
            assert json.loads(answer)["n_pages"] == len(found) * PAGES

    def answers_of(self, found: dict[str, Document]) -> list[list[tuple[str, float]]]:
        """Return the undisturbed index's answers, but for pages that are not there yet."""
        return [
            [(page, score) for page, score in answer if page.partition(":")[0] in found]
            for answer in (self.answers if found else [[]] * len(self.answers))
        ]

    def end(self) -> None:
        """Ingest to the end, compare with the undisturbed index, and begin another."""
        self.ingest(self.index)
        store = PageStore.open(self.index)
        assert contents(store) == self.expected
        assert answers(store, set(self.expected)) == self.answers
        shutil.rmtree(self.index)
        self.committed = {}


@pytest.mark.prove
def test_kill_9_at_any_moment_loses_and_doubles_nothing(proving: bool, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4)) if proving else 0
    print(f"seed {seed}")
    killed = _Killed(tmp_path, LONG_DOCUMENTS if proving else DOCUMENTS, seed)
    n_kills, n_with_pages = 0, 0
    while n_kills < (LONG_KILLS if proving else KILLS):
        n_kills += killed.try_to_kill()
        n_with_pages += bool(killed.committed)
    killed.end()
    print(f"{n_kills} kills within {killed.seconds:.1f} s, {n_with_pages} of them with documents in the index")
