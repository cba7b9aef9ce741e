"""Finding documents below folders, and telling what has gone from them."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colret.documents import EARLIEST_NS, LATEST_NS, SourceFile, display_path, document_id, modified_ns
from colret.errors import DocumentError
from colret.folders import Found, find_documents, has_vanished, lasting_time


def names(found: Found, root: Path) -> list[str]:
    return [str(file.file.relative_to(root)) for file in found.sources]


def reasons(found: Found, root: Path) -> dict[str, str]:
    return {os.path.relpath(path, root): error.reason for path, error in found.unusable.items()}


def touch(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def closed_to(monkeypatch: pytest.MonkeyPatch, closed: Path) -> None:
    """Let a folder refuse to be listed, not by permissions: the tests may run as root."""
    scandir: Callable[[Any], Any] = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)


def test_finds_documents_sorted_at_any_depth(tmp_path: Path) -> None:
    for name in ("b.PDF", "a.pdf", "deep/er/c.Tiff", "d.jpg", "d.jpeg", "e.png", "f.tif", "g.webp", "h.DOCX", "i.html"):
        touch(tmp_path / name)
    for name in ("notes.txt", "pdf", "h.pdf.bak", "deep/i.gif", "~$h.docx", "table.xlsx"):
        touch(tmp_path / name)
    found = find_documents([tmp_path])
    assert names(found, tmp_path) == [
        *("a.pdf", "b.PDF", "d.jpeg", "d.jpg", "deep/er/c.Tiff", "e.png", "f.tif", "g.webp", "h.DOCX", "i.html")
    ]
    assert (found.unusable, found.problems) == ({}, [])
    assert found.listed == {tmp_path, tmp_path / "deep", tmp_path / "deep" / "er"}


def test_reports_size_and_modification_time(tmp_path: Path) -> None:
    path = touch(tmp_path / "a.pdf", b"12345")
    os.utime(path, ns=(1, 1_234_567_890_123_456_789))
    assert find_documents([path]).sources == [SourceFile(path, 5, 1_234_567_890_123_456_789)]


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (0, 0),
        (-1, -1),
        (LATEST_NS - 1, LATEST_NS - 1),
        (1 << 63, LATEST_NS),
        (-1 << 63, EARLIEST_NS),
        (-9 << 70, EARLIEST_NS),
    ],
)
def test_times_are_those_that_64_bits_hold(held: int, told: int) -> None:
    assert modified_ns(os.stat_result([0] * 10, {"st_mtime_ns": held})) == told


@pytest.mark.parametrize("time", [EARLIEST_NS, LATEST_NS])
def test_a_time_that_stands_for_others_is_not_one_to_know_a_file_by(time: int) -> None:
    assert lasting_time(time, now_ns=0) == time - 1 >= -1 << 63


def test_names_each_file_once_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = touch(tmp_path / "sub" / "a.pdf")
    monkeypatch.chdir(tmp_path)
    given = [Path("sub"), tmp_path, path, Path("sub/../sub/a.pdf"), Path("sub/a.pdf")]
    found = find_documents(given)
    assert [file.path for file in found.sources] == [path]
    assert not found.problems


@pytest.mark.skipif(os.name == "nt", reason="there, two slashes are the name of another machine")
def test_slashes_at_the_beginning_make_no_second_name(tmp_path: Path) -> None:
    path = touch(tmp_path / "a.pdf")
    found = find_documents([Path(f"/{tmp_path}"), tmp_path, Path(f"//{path}")])
    assert [str(file.path) for file in found.sources] == [str(path)]
    assert found.roots == (tmp_path, tmp_path, path)


def test_skips_hidden_entries_but_takes_a_hidden_path_that_is_named(tmp_path: Path) -> None:
    touch(tmp_path / ".git" / "a.pdf")
    hidden = touch(tmp_path / ".b.pdf")
    assert find_documents([tmp_path]).sources == []
    assert [file.path for file in find_documents([hidden]).sources] == [hidden]
    assert names(find_documents([tmp_path / ".git"]), tmp_path) == [".git/a.pdf"]


def test_follows_links_to_files_but_not_to_folders(tmp_path: Path) -> None:
    target = touch(tmp_path / "elsewhere" / "a.pdf")
    root = tmp_path / "root"
    root.mkdir()
    (root / "loop").symlink_to(root)
    (root / "loop.pdf").symlink_to(root)
    (root / "folder").symlink_to(target.parent)
    (root / "link.pdf").symlink_to(target)
    found = find_documents([root])
    assert names(found, root) == ["link.pdf"]
    assert not found.unusable


def test_what_has_a_documents_name_and_is_none_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pdf")
    (tmp_path / "gone.pdf").symlink_to(tmp_path / "nowhere.pdf")
    (tmp_path / "itself.pdf").symlink_to(tmp_path / "itself.pdf")
    touch(tmp_path / "empty.pdf", b"")
    touch(tmp_path / "all.zip")
    (tmp_path / "folder.pdf").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket.pdf"))  # an absolute one may be too long
    found = find_documents([tmp_path])
    assert found.sources == []
    assert reasons(found, tmp_path) == {
        "pipe.pdf": "unsupported_type",
        "socket.pdf": "unsupported_type",
        "gone.pdf": "missing",
        "itself.pdf": "unreadable",
        "empty.pdf": "empty_file",
        "all.zip": "unsupported_archive",
    }
    assert reasons(find_documents([tmp_path / "pipe.pdf"]), tmp_path) == {"pipe.pdf": "unsupported_type"}
    with pytest.raises(DocumentError, match="no ordinary file"):
        document_id(tmp_path / "pipe.pdf")  # would wait for a writer


def test_an_unreadable_folder_is_reported_and_the_rest_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "a.pdf")
    closed = touch(tmp_path / "closed" / "b.pdf").parent
    closed_to(monkeypatch, closed)
    found = find_documents([tmp_path])
    assert names(found, tmp_path) == ["a.pdf"]
    assert reasons(found, tmp_path) == {"closed": "unreadable"}
    assert found.listed == {tmp_path}


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing.pdf", "missing"), ("a.pdf/below.pdf", "missing"), ("a.txt", "unsupported_type")],
)
def test_a_path_that_is_no_document_is_an_error(tmp_path: Path, name: str, reason: str) -> None:
    touch(tmp_path / "a.pdf")
    touch(tmp_path / "a.txt")
    found = find_documents([tmp_path / name, tmp_path / "a.pdf"])
    assert names(found, tmp_path) == ["a.pdf"]
    assert [error.reason for error in found.problems] == [reason]
    assert found.problems[0].subject == str(tmp_path / name)


def test_names_that_are_not_utf8_are_found_and_hashed(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.pdf")
    try:
        path.write_bytes(b"x")
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    found = find_documents([tmp_path])
    assert [file.path for file in found.sources] == [path]
    assert document_id(path) == hashlib.sha256(b"x").hexdigest()[:32]
    assert not has_vanished(display_path(path), found)


# What has gone


def test_what_is_gone_from_a_folder_that_was_listed_has_vanished(tmp_path: Path) -> None:
    root = touch(tmp_path / "root" / "a.pdf").parent
    touch(tmp_path / "root" / "file.pdf")
    found = find_documents([root])
    for gone in (root / "b.pdf", root / "sub" / "deeper" / "b.pdf", root / "file.pdf" / "b.pdf"):
        assert has_vanished(str(gone), found), gone
    for other in (root / "a.pdf", tmp_path / "b.pdf", tmp_path / "rooted" / "b.pdf", tmp_path / "a" / "b.pdf"):
        assert not has_vanished(str(other), found), other


def test_what_cannot_be_looked_at_has_not_vanished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = touch(tmp_path / "root" / "a.pdf").parent
    (root / "closed").mkdir()
    (root / ".hidden").mkdir()
    (root / "link").symlink_to(tmp_path / "not-mounted")
    closed_to(monkeypatch, root / "closed")
    found = find_documents([root, tmp_path / "missing"])
    for path in ("closed/b.pdf", "closed/sub/b.pdf", ".hidden/b.pdf", "link/b.pdf", "../missing/b.pdf"):
        assert not has_vanished(os.path.abspath(root / path), found), path


def test_a_refusal_to_tell_is_no_sign_of_absence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_documents([tmp_path])
    real = os.lstat

    def refuse(self: Path) -> os.stat_result:
        if self.name == "b.pdf":
            raise OSError(5, "Input/output error")
        return real(self)

    monkeypatch.setattr(Path, "lstat", refuse)
    assert not has_vanished(str(tmp_path / "b.pdf"), found)
    assert has_vanished(str(tmp_path / "c.pdf"), found)
