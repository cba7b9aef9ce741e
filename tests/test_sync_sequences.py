"""Random lives of a folder: whatever happens to it, the index is that of a fresh ingest."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

import colret.ingest
from colret.documents import document_id
from colret.ingest import ingest
from colret.settings import settings_for
from colret.store import PageStore
from tests.folders import Document, answers, contents, numpy_encoder, pdf, sentence
from tests.processes import Ingester

SEQUENCES, LONG_SEQUENCES = 2, 200
SYNCS = 4  # of one sequence
FIRST_FILES = 4
LULL = 0.1  # seconds, about as long as a commit takes
FOLDERS = ("", "sub", "sub/deeper", "other")
NAMES = ("a.pdf", "b.pdf", "c.pdf", "d.PDF")


def pool() -> list[bytes]:
    """Return the contents that files have: few, so that copies and swaps come up, and several of one size."""
    rng = random.Random(0)
    short = [pdf(*[sentence(rng) for _ in range(n_pages)]) for n_pages in (1, 1, 1, 1, 2, 3, 3, 5, 7)]
    sizes = max(map(len, short[:4]))
    padded = [content + b"\n" * (sizes - len(content)) for content in short[:4]]
    blank = pdf(sentence(rng), "", sentence(rng))
    return [*padded, *short[4:], blank, b"no PDF at all", b""]


POOL = pool()


class _Life:
    """A folder and its index, from one sync to the next.

    Args:
        place: An empty folder for both.
        seed: Decides all that happens but the moments of the kills.
    """

    def __init__(self, place: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.folder = place / "documents"
        self.folder.mkdir()
        (self.folder / "anchor.pdf").write_bytes(pdf("the anchor lies at the ground"))  # the folder is never empty
        self.store = PageStore.create(place / "index", settings_for(numpy_encoder().info))
        self.fresh = place / "fresh"
        self.ingester = Ingester(self.store.path)
        self.seconds = 0.5  # that the last fresh ingest took
        self.log: list[str] = []
        self.n_kills = 0

    def paths(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name != "anchor.pdf")

    def place(self) -> Path:
        path = self.folder / self.rng.choice(FOLDERS) / self.rng.choice(NAMES)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def change(self) -> None:
        """Let one thing happen to the folder."""
        happening = self.rng.choice([self.put, self.put, self.rename, self.copy, self.delete, self.swap, self.touch])
        happening = self.rename_folder if self.rng.random() < 0.1 else happening
        if self.paths() or happening == self.put:
            happening()

    def put(self) -> None:
        """Add a file, or change one."""
        path, number = self.place(), self.rng.randrange(len(POOL))
        path.write_bytes(POOL[number])
        self.note("put", path, number)

    def rename(self) -> None:
        old, new = self.rng.choice(self.paths()), self.place()
        old.replace(new)
        self.note("rename", old, new)

    def copy(self) -> None:
        old, new = self.rng.choice(self.paths()), self.place()
        if old != new:
            shutil.copyfile(old, new)
            if self.rng.random() < 0.5:
                shutil.copystat(old, new)
        self.note("copy", old, new)

    def delete(self) -> None:
        path = self.rng.choice(self.paths())
        path.unlink()
        self.note("delete", path)

    def swap(self) -> None:
        if len(self.paths()) > 1:
            one, two = self.rng.sample(self.paths(), 2)
            aside = one.replace(self.folder / "aside")
            two.replace(one)
            aside.replace(two)
            self.note("swap", one, two)

    def touch(self) -> None:
        path = self.rng.choice(self.paths())
        moment = self.rng.randrange(10**18)
        os.utime(path, ns=(moment, moment))
        self.note("touch", path)

    def rename_folder(self) -> None:
        old, new = self.folder / "sub", self.folder / "other"
        if old.is_dir() and not new.exists():
            old.rename(new)
            self.note("rename folder", old, new)

    def note(self, what: str, *about: object) -> None:
        self.log.append(f"{what} {' '.join(str(each).removeprefix(str(self.folder)) for each in about)}")

    def live(self) -> None:
        for _ in range(FIRST_FILES):
            self.put()
        for _ in range(SYNCS):
            self.sync()

    def sync(self) -> None:
        """Let some things happen, ingest, perhaps killed once or twice before, and compare."""
        options = {"prune": self.rng.random() < 0.5, "retry_failed": self.rng.random() < 0.1}
        for _ in range(self.rng.randrange(4)):
            self.change()
        before = None if self.killed(options) else contents(self.store)
        self.note("sync", options)
        ingest([self.folder], self.store, numpy_encoder(), prune=options["prune"], retry_failed=options["retry_failed"])
        self.compare(before, pruned=options["prune"])

    def killed(self, options: dict[str, bool]) -> bool:
        """Perhaps ingest, kill and change more; return whether."""
        n_times = self.rng.choice([0, 0, 1, 1, 2])
        for _ in range(n_times):
            n_told = self.rng.choice([0, 1, 2, 3, 4])
            seconds = self.rng.uniform(0, LULL if n_told else self.seconds)
            self.note(f"kill {seconds:.3f} s after {n_told} pages")
            self.n_kills += self.ingester.ingest_and_die(self.folder, seconds, n_told=n_told, **options)
            self.check_whole(contents(PageStore.open(self.store.path)))
            if self.rng.random() < 0.5:
                self.change()
        return n_times > 0

    def compare(self, before: dict[str, Document] | None, *, pruned: bool) -> None:
        """Compare with a fresh index; what vanished may be there beside it, unless it was pruned."""
        shutil.rmtree(self.fresh, ignore_errors=True)
        fresh = PageStore.create(self.fresh, settings_for(numpy_encoder().info))
        started = time.monotonic()
        ingest([self.folder], fresh, numpy_encoder())
        self.seconds = time.monotonic() - started
        expected, found = contents(fresh), contents(self.store)
        vanished = {doc_id: document for doc_id, document in found.items() if not document.paths}
        assert found.keys() - vanished == expected.keys(), self.log
        assert [doc_id for doc_id in expected if found[doc_id] != expected[doc_id]] == [], self.log
        assert answers(self.store, set(expected)) == answers(fresh, set(expected)), self.log
        self.check_whole(found)
        if pruned:
            assert not vanished, self.log
        elif before is not None:
            # What vanished while nothing took its place is still there, as it was.
            lost = [doc_id for doc_id, document in before.items() if document.status == "done" and not document.paths]
            assert [each for each in lost if each not in expected and found.get(each) != before[each]] == [], self.log
        ids = {document_id(path) for path in self.paths() if path.stat().st_size}
        assert ids <= expected.keys(), self.log

    def check_whole(self, documents: dict[str, Document]) -> None:
        assert [doc_id for doc_id, document in documents.items() if not document.is_whole] == [], self.log


@pytest.fixture(autouse=True)
def _small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.ingest, "COMMIT_PAGES", 2)
    monkeypatch.setattr(colret.ingest, "ENCODE_PAGES", 1)


@pytest.fixture
def seeds(proving: bool) -> range:
    start = int.from_bytes(os.urandom(3)) if proving else 0
    return range(start, start + (LONG_SEQUENCES if proving else SEQUENCES))


@pytest.mark.prove
def test_after_each_sync_the_index_is_that_of_a_fresh_ingest(seeds: range, tmp_path: Path) -> None:
    n_kills = 0
    for seed in seeds:
        place = tmp_path / str(seed)
        place.mkdir()
        life = _Life(place, seed)
        try:
            life.live()
        finally:
            life.ingester.close()
            print(f"seed {seed}: {life.n_kills} kills: {'; '.join(life.log)}")
        n_kills += life.n_kills
        shutil.rmtree(place)
    assert n_kills > 0
