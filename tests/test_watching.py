"""Following folders: a sync for each change, none for what does not matter."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import colret.watching
from colret.watching import follow
from tests.conftest import write_pdf

PATIENCE = 60.0


class Follower:
    """``follow`` in a thread, with a sync that counts, or does what it is told."""

    def __init__(self, *folders: Path, ignore: Path, act: Callable[[int], bool] = lambda n: False) -> None:
        self.n_syncs = 0
        self._act = act
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: follow(folders, self._sync, ignore=ignore, stop=self._stop))
        self._thread.start()
        self.reaches(1)

    def _sync(self) -> bool:
        self.n_syncs += 1
        return self._act(self.n_syncs)

    def reaches(self, n_syncs: int) -> bool:
        """Wait for a number of syncs."""
        deadline = time.monotonic() + PATIENCE
        while self.n_syncs < n_syncs and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.n_syncs >= n_syncs

    def rests(self) -> None:
        """Wait until changes that were made before would have been told."""
        time.sleep(1.0)

    def end(self) -> None:
        """Stop following."""
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.fixture
def following(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Follower]]:
    """Follow ``tmp_path / "documents"``."""
    monkeypatch.setattr(colret.watching, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(colret.watching, "RETRY_SECONDS", 0.3)
    (tmp_path / "documents" / "sub").mkdir(parents=True)
    followers: list[Follower] = []

    def start(act: Callable[[int], bool] = lambda n: False) -> Follower:
        folder = tmp_path / "documents"
        followers.append(Follower(folder, ignore=folder / "index", act=act))
        return followers[-1]

    yield start
    for follower in followers:
        follower.end()


def test_each_kind_of_change_makes_a_sync_due(tmp_path: Path, following: Callable[..., Follower]) -> None:
    folder = tmp_path / "documents"
    follower = following()
    changes: list[Callable[[], object]] = [
        lambda: write_pdf(folder / "sub" / "a.pdf", "new"),
        lambda: (folder / "sub" / "a.pdf").write_bytes(b"changed"),
        lambda: (folder / "sub" / "a.pdf").rename(folder / "b.pdf"),
        lambda: (folder / "sub").rename(folder / "other"),
        lambda: (folder / "b.pdf").unlink(),
        lambda: (folder / "letters.zip").write_bytes(b"x"),
    ]
    for change in changes:
        before = follower.n_syncs
        change()
        assert follower.reaches(before + 1)
        follower.rests()


def test_what_does_not_matter_makes_none_due(tmp_path: Path, following: Callable[..., Follower]) -> None:
    folder = tmp_path / "documents"
    (folder / "index").mkdir()
    (folder / ".hidden").mkdir()
    follower = following()
    (folder / "index" / "a.pdf").write_bytes(b"x")
    (folder / ".hidden" / "a.pdf").write_bytes(b"x")
    (folder / "~$letter.docx").write_bytes(b"x")
    (folder / "notes.txt").write_bytes(b"x")
    follower.rests()
    assert follower.n_syncs == 1
    (folder / "a.pdf").write_bytes(b"x")
    assert follower.reaches(2)


def test_a_sync_that_asks_for_another_gets_it(following: Callable[..., Follower]) -> None:
    follower = following(lambda n: n < 3)
    assert follower.reaches(3)
    follower.rests()
    assert follower.n_syncs == 3


def test_a_change_during_a_sync_makes_another_due(tmp_path: Path, following: Callable[..., Follower]) -> None:
    def change(n: int) -> bool:
        if n == 1:
            (tmp_path / "documents" / "late.pdf").write_bytes(b"x")
        return False

    assert following(change).reaches(2)


def test_a_folder_that_is_moved_away_is_found_again(tmp_path: Path, following: Callable[..., Follower]) -> None:
    folder = tmp_path / "documents"
    follower = following()
    folder.rename(tmp_path / "elsewhere")
    assert follower.reaches(2)
    follower.rests()
    before = follower.n_syncs
    folder.mkdir()
    assert follower.reaches(before + 1)
    follower.rests()
    before = follower.n_syncs
    (folder / "a.pdf").write_bytes(b"x")  # in the new folder of that name
    assert follower.reaches(before + 1)
    shutil.rmtree(folder)
    follower.rests()


def test_an_error_of_the_sync_ends_it(tmp_path: Path) -> None:
    def fail() -> bool:
        raise RuntimeError("of the sync")

    with pytest.raises(RuntimeError, match="of the sync"):
        follow([tmp_path], fail, ignore=tmp_path / "index")


def test_files_that_are_being_written_are_waited_for_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = colret.watching._Clock()
    assert clock.is_due()  # the first sync
    clock.synced(again=False)
    due = []
    for _ in range(100):  # a change each half second
        now += 0.5
        clock.tick(True)
        due.append(clock.is_due())
    assert due.index(True) == colret.watching.STARVED_SECONDS / 0.5
    clock.synced(again=False)
    clock.tick(True)
    assert not clock.is_due()
    now += colret.watching.SETTLE_SECONDS
    assert clock.is_due()
    clock.synced(again=False)
    now += colret.watching.RESYNC_SECONDS  # without a change
    assert clock.is_due()


def test_a_path_is_followed_by_its_absolute_name(
    tmp_path: Path, following: Callable[..., Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    follower = Follower(Path("documents"), ignore=Path("documents/index"))
    monkeypatch.chdir(os.sep)
    try:
        (tmp_path / "documents" / "a.pdf").write_bytes(b"x")
        assert follower.reaches(2)
    finally:
        follower.end()
