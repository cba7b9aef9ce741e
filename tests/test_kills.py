"""kill -9 of the real command at random moments: the index answers, and the same command ends what was begun."""

from __future__ import annotations

import itertools
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

KILLS, LONG_KILLS = 2, 100
DOCUMENTS, LONG_DOCUMENTS = 18, 160
PAGES = 4  # of each
GOLDEN = (5**0.5 - 1) / 2  # steps of it, wrapped around, cover an interval evenly from wherever they start


class _Killed:
    """An index whose ingests are killed, beside that of an ingest that nobody disturbed.

    It begins as one that holds half of the documents, the next one as none at all, and so on.
    """

    def __init__(self, place: Path, n_documents: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.folder, self.index, undisturbed = place / "documents", place / "index", place / "undisturbed"
        self.half_index = place / "half"
        self.write(range(n_documents // 2))
        self.ingest(self.half_index)
        shutil.copytree(self.half_index, undisturbed)
        self.write(range(n_documents // 2, n_documents))
        started = time.monotonic()
        process = self.start(undisturbed)
        self.wait_for_write(process, undisturbed)
        written = time.monotonic()
        assert process.wait() == 0
        self.seconds = time.monotonic() - started
        self.writing_seconds = time.monotonic() - written
        self.expected = contents(PageStore.open(undisturbed))
        assert len(self.expected) == n_documents
        self.answers = answers(PageStore.open(undisturbed), set(self.expected))
        self.moment = self.rng.random()  # of the last kill, as a share of the undisturbed ingest's time
        self.from_write = itertools.cycle([True, True, False])  # count it from the first commit, or from the start
        self.committed: dict[str, Document] = {}  # that an index showed once, and must show from then on
        self.n_grown = 0  # kills after which there were more of them
        self.begins = itertools.cycle([self.begin_with_half, self.begin_with_nothing])
        next(self.begins)()

    def write(self, numbers: range) -> None:
        self.folder.mkdir(exist_ok=True)
        for number in numbers:
            content = pdf(*[sentence(self.rng, 40) for _ in range(PAGES)])
            (self.folder / f"{number}.pdf").write_bytes(content)

    def begin_with_half(self) -> None:
        shutil.copytree(self.half_index, self.index)
        self.committed = contents(PageStore.open(self.index))
        assert 2 * len(self.committed) == len(self.expected)

    def begin_with_nothing(self) -> None:
        self.committed = {}

    def arguments(self, index: Path) -> list[object]:
        return ["ingest", self.folder, "--index", index, "--model", "embedded", "--json"]

    def ingest(self, index: Path) -> None:
        done = json.loads(run_cli(*self.arguments(index)))
        assert done["skipped"] == []
        assert done["index"]["n_pages"] > 0

    def start(self, index: Path) -> subprocess.Popen[str]:
        command, nowhere = cli(*self.arguments(index)), subprocess.DEVNULL
        return subprocess.Popen(command, env=environment(), stdout=nowhere, stderr=nowhere, text=True)

    def wait_for_write(self, process: subprocess.Popen[str], index: Path) -> None:
        """Wait until the process has begun a version of the pages that was not there, or has ended."""
        before = versions(index)
        while versions(index) <= before and process.poll() is None:
            time.sleep(0.005)

    def try_to_kill(self) -> bool:
        """Kill an ingest and look at what it left; return False if it ended first."""
        process = self.start(self.index)
        self.moment = (self.moment + GOLDEN) % 1
        if next(self.from_write):
            self.wait_for_write(process, self.index)
            time.sleep(self.moment * self.writing_seconds)
        else:
            time.sleep(self.moment * self.seconds)
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
        self.n_grown += len(found) > len(self.committed)
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
        next(self.begins)()


def versions(index: Path) -> int:
    """Return how many versions of pages an index has begun; its making is the first."""
    folder = index / "pages.lance" / "_versions"
    return max(len(list(folder.iterdir())), 1) if folder.is_dir() else 1


@pytest.mark.prove
def test_kill_9_at_any_moment_loses_and_doubles_nothing(proving: bool, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4)) if proving else 0
    print(f"seed {seed}")
    killed = _Killed(tmp_path, LONG_DOCUMENTS if proving else DOCUMENTS, seed)
    n_kills = 0
    while n_kills < (LONG_KILLS if proving else KILLS):
        n_kills += killed.try_to_kill()
    killed.end()
    span = f"{killed.seconds:.1f} s, two thirds of them in the last {killed.writing_seconds:.1f} s"
    print(f"{n_kills} kills within {span}; {killed.n_grown} after documents had been added")
