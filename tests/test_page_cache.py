"""Copies of pages' codes: sound or none, few enough, and several processes share them."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from colret.cache_folder import cache_of, most_bytes
from colret.errors import ColretError
from colret.page_cache import PageCache

N_BYTES = 1000
PAGE = "a page"
INDEX, OTHER = "a" * 24, "b" * 24  # names as ``cache_of`` gives them


def codes(row_id: int) -> NDArray[np.uint8]:
    return np.random.default_rng(row_id).integers(0, 256, N_BYTES).astype(np.uint8)


def n_kept(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def test_a_copy_is_what_was_put(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / INDEX, 10**9)
    assert cache.get(5, PAGE, N_BYTES) is None
    for row_id in (5, 2**40):
        cache.put(row_id, PAGE, codes(row_id))
    for row_id in (5, 2**40):
        found = PageCache(tmp_path / INDEX, 10**9).get(row_id, PAGE, N_BYTES)
        assert found is not None
        assert np.array_equal(found, codes(row_id))
    assert cache.get(5, PAGE, N_BYTES - 1) is None
    assert cache.get(5, PAGE, N_BYTES + 1) is None
    assert PageCache(tmp_path / OTHER, 10**9).get(5, PAGE, N_BYTES) is None


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * (N_BYTES + 4), b"longer" * N_BYTES])
def test_a_damaged_copy_is_none(damage: bytes, tmp_path: Path) -> None:
    cache = PageCache(tmp_path / INDEX, 10**9)
    cache.put(1, PAGE, codes(1))
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_bytes(damage)
    assert cache.get(1, PAGE, N_BYTES) is None
    cache.put(1, PAGE, codes(1))
    assert cache.get(1, PAGE, N_BYTES) is not None


def test_what_was_read_longest_ago_goes_when_there_is_too_much_of_all_indexes(tmp_path: Path) -> None:
    most = 40 * N_BYTES
    other = PageCache(tmp_path / OTHER, most)
    other.put(1, PAGE, codes(1))
    [old] = [path for path in tmp_path.rglob("*") if path.is_file()]
    os.utime(old, (0, 0))
    cache = PageCache(tmp_path / INDEX, most)
    for row_id in range(100):
        cache.put(row_id, PAGE, codes(row_id))
        for path in (tmp_path / INDEX).rglob("*"):  # time goes by
            if path.is_file():
                os.utime(path, (path.stat().st_mtime - 1000,) * 2)
        if row_id > 5:
            assert cache.get(5, PAGE, N_BYTES) is not None  # which marks it as read
        assert n_kept(tmp_path) <= most * 1.1
    assert not old.exists()
    assert cache.get(99, PAGE, N_BYTES) is not None
    assert cache.get(6, PAGE, N_BYTES) is None


def test_drafts_that_killed_processes_left_go(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / INDEX, 20 * N_BYTES)
    cache.put(1, PAGE, codes(1))
    [folder] = (tmp_path / INDEX / "codes").iterdir()
    drafts = [folder / f".{'f' * 32}", folder / f".{'0' * 32}"]
    for draft in drafts:
        draft.write_bytes(b"x")
    os.utime(drafts[1], (time.time() - 10_000,) * 2)
    for row_id in range(2, 10):
        cache.put(row_id, PAGE, codes(row_id))
    assert [draft.exists() for draft in drafts] == [True, False]


def test_a_copy_of_another_page_is_none(tmp_path: Path) -> None:
    """As row ids are given anew where an older state of an index was put back."""
    cache = PageCache(tmp_path / INDEX, 10**9)
    cache.put(1, PAGE, codes(1))
    assert cache.get(1, "another page", N_BYTES) is None


def test_what_else_is_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    """Somebody may name a folder that has more than copies."""
    theirs = [tmp_path / name for name in ("project/codes/src/main", f"{INDEX}/codes/src/abc", f"{INDEX}/codes/0/x.c")]
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * N_BYTES * 10)
        os.utime(path, (0, 0))
    cache = PageCache(tmp_path / INDEX, 20 * N_BYTES)
    for row_id in range(60):
        cache.put(row_id, PAGE, codes(row_id))
    assert cache.get(0, PAGE, N_BYTES) is None  # so that some were deleted
    assert all(path.exists() for path in theirs)


def test_no_room_at_all_is_no_failure(tmp_path: Path) -> None:
    PageCache(tmp_path / INDEX, 0).put(1, PAGE, codes(1))
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_bytes(b"")
    cache = PageCache(tmp_path / "file" / INDEX, 10**9)
    cache.put(1, PAGE, codes(1))
    assert cache.get(1, PAGE, N_BYTES) is None


def _use(root: Path, outcome: multiprocessing.Queue[bool]) -> None:
    cache = PageCache(root / INDEX, 100 * N_BYTES)
    sound = True
    for turn in range(600):
        row_id = turn % 150
        found = cache.get(row_id, PAGE, N_BYTES)
        sound = sound and (found is None or np.array_equal(found, codes(row_id)))
        cache.put(row_id, PAGE, codes(row_id))
    outcome.put(sound)


def test_processes_share_copies(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    outcome = context.Queue()
    processes = [context.Process(target=_use, args=(tmp_path, outcome)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [outcome.get(timeout=60) for _ in processes] == [True, True]
    for process in processes:
        process.join()
    assert n_kept(tmp_path) <= 100 * N_BYTES * 1.2


def test_the_environment_says_where_and_how_much(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLRET_CACHE", str(tmp_path))
    assert cache_of("s3://b/x", "now").parent == tmp_path
    assert len({cache_of("s3://b/x", "now"), cache_of("s3://b/y", "now"), cache_of("s3://b/x", "then")}) == 3
    monkeypatch.setenv("COLRET_CACHE_BYTES", "17")
    assert most_bytes() == 17
    monkeypatch.setenv("COLRET_CACHE_BYTES", "4 GB")
    with pytest.raises(ColretError, match="COLRET_CACHE_BYTES: is not a number of bytes"):
        most_bytes()
    monkeypatch.delenv("COLRET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_of("s3://b/x", "now").name


@pytest.mark.skipif(os.name != "posix", reason="users have homes elsewhere too")
def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pwd

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "COLRET_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)  # as in a container that runs as some number
    with pytest.raises(ColretError, match="COLRET_CACHE: is not set, and this user has no home"):
        cache_of("s3://b/x", "now")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLRET_CACHE", "~/copies")  # by a program that starts us, no shell
    assert cache_of("s3://b/x", "now").parent == tmp_path / "copies"
