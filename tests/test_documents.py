"""Finding documents, telling them apart, naming them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from colret.documents import SourceFile, display_path, document_id, find_documents
from colret.errors import DocumentError


def names(files: list[SourceFile], root: Path) -> list[str]:
    return [str(file.path.relative_to(root)) for file in files]


def touch(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_finds_pdfs_and_images_sorted_at_any_depth(tmp_path: Path) -> None:
    for name in ("b.PDF", "a.pdf", "deep/er/c.Tiff", "d.jpg", "d.jpeg", "e.png", "f.tif", "g.webp"):
        touch(tmp_path / name)
    for name in ("notes.txt", "pdf", "h.pdf.bak", "deep/i.gif"):
        touch(tmp_path / name)
    files, errors = find_documents([tmp_path])
    assert names(files, tmp_path) == [
        *("a.pdf", "b.PDF", "d.jpeg", "d.jpg", "deep/er/c.Tiff", "e.png", "f.tif", "g.webp")
    ]
    assert not errors


def test_reports_size_and_modification_time(tmp_path: Path) -> None:
    path = touch(tmp_path / "a.pdf", b"12345")
    os.utime(path, ns=(1, 1_234_567_890_123_456_789))
    assert find_documents([path])[0] == [SourceFile(path, 5, 1_234_567_890_123_456_789)]


def test_names_each_file_once_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = touch(tmp_path / "sub" / "a.pdf")
    monkeypatch.chdir(tmp_path)
    given = [Path("sub"), tmp_path, path, Path("sub/../sub/a.pdf"), Path("sub/a.pdf")]
    files, errors = find_documents(given)
    assert [file.path for file in files] == [path]
    assert not errors


def test_skips_hidden_entries_but_takes_a_hidden_path_that_is_named(tmp_path: Path) -> None:
    touch(tmp_path / ".git" / "a.pdf")
    hidden = touch(tmp_path / ".b.pdf")
    assert find_documents([tmp_path]) == ([], [])
    assert [file.path for file in find_documents([hidden])[0]] == [hidden]
    assert names(find_documents([tmp_path / ".git"])[0], tmp_path) == [".git/a.pdf"]


def test_follows_links_to_files_but_not_to_folders(tmp_path: Path) -> None:
    target = touch(tmp_path / "elsewhere" / "a.pdf")
    root = tmp_path / "root"
    root.mkdir()
    (root / "loop").symlink_to(root)
    (root / "folder").symlink_to(target.parent)
    (root / "link.pdf").symlink_to(target)
    files, errors = find_documents([root])
    assert names(files, root) == ["link.pdf"]
    assert not errors


def test_a_link_to_nothing_is_reported(tmp_path: Path) -> None:
    (tmp_path / "gone.pdf").symlink_to(tmp_path / "nowhere.pdf")
    files, errors = find_documents([tmp_path])
    assert not files
    assert [error.reason for error in errors] == ["missing"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_fifo_is_never_opened(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe.pdf"
    os.mkfifo(fifo)
    assert find_documents([tmp_path]) == ([], [])
    assert [error.reason for error in find_documents([fifo])[1]] == ["unsupported_type"]
    with pytest.raises(DocumentError) as caught:
        document_id(fifo)  # would wait for a writer
    assert caught.value.reason == "unsupported_type"


def test_an_unreadable_folder_is_reported_and_the_rest_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "a.pdf")
    closed = touch(tmp_path / "closed" / "b.pdf").parent
    scandir: Callable[[Any], Any] = os.scandir

    def refuse(path: Any) -> Any:  # not by permissions: the tests may run as root
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    files, errors = find_documents([tmp_path])
    assert names(files, tmp_path) == ["a.pdf"]
    assert [(error.reason, error.subject) for error in errors] == [("unreadable", str(closed))]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing.pdf", "missing"), ("a.pdf/below.pdf", "missing"), ("a.txt", "unsupported_type")],
)
def test_a_path_that_is_no_document_is_an_error(tmp_path: Path, name: str, reason: str) -> None:
    touch(tmp_path / "a.pdf")
    touch(tmp_path / "a.txt")
    files, errors = find_documents([tmp_path / name, tmp_path / "a.pdf"])
    assert names(files, tmp_path) == ["a.pdf"]
    assert [error.reason for error in errors] == [reason]
    assert errors[0].subject == str(tmp_path / name)


@given(content=st.binary(min_size=1, max_size=64), repeat=st.sampled_from([1, 40_000]))
def test_document_id_is_the_start_of_the_sha256(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, repeat: int
) -> None:
    path = touch(tmp_path_factory.getbasetemp() / "hashed.pdf", content * repeat)
    assert document_id(path) == hashlib.sha256(content * repeat).hexdigest()[:32]


def test_document_id_tells_why_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, full = touch(tmp_path / "empty.pdf", b""), touch(tmp_path / "full.pdf")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(DocumentError, match="empty") as caught:
        document_id(empty)
    assert caught.value.reason == "empty_file"
    with pytest.raises(DocumentError, match="no such file") as caught:
        document_id(tmp_path / "missing.pdf")
    assert caught.value.reason == "missing"
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DocumentError, match="Permission denied") as caught:
        document_id(full)
    assert caught.value.reason == "unreadable"


def test_display_path_leaves_ordinary_paths_alone() -> None:
    assert display_path(Path("/a b/Überblick 2023.pdf")) == "/a b/Überblick 2023.pdf"
    assert display_path(Path(r"/x64\a.pdf")) == r"/x64\a.pdf"


def test_display_path_writes_bytes_that_are_not_utf8() -> None:
    assert display_path(Path(os.fsdecode(b"/caf\xe9.pdf"))) == r"/caf\udce9.pdf"


PATHS = st.binary(min_size=1, max_size=12).map(lambda name: Path(os.fsdecode(b"/" + name.replace(b"\0", b"0"))))
SPELT = st.lists(st.sampled_from([b"\\", b"ud", b"c", b"ce9", b"\xe9", b"\xc3\xa9"]), max_size=6).map(
    lambda parts: Path(os.fsdecode(b"/" + b"".join(parts)))
)


@given(first=PATHS | SPELT, second=PATHS | SPELT)
@example(Path(os.fsdecode(b"/\xe9")), Path(r"/\udce9"))
@example(Path(os.fsdecode(b"/\\\xe9")), Path(r"/\\udce9"))
def test_display_path_is_valid_and_its_own_for_each_path(first: Path, second: Path) -> None:
    assert display_path(first).encode().decode() == display_path(first)
    assert (display_path(first) == display_path(second)) == (str(first) == str(second))


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_documents_with_names_that_are_not_utf8_are_found_and_hashed(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.pdf")
    try:
        path.write_bytes(b"x")
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    (file,), errors = find_documents([tmp_path])
    assert file.path == path
    assert not errors
    assert document_id(path) == hashlib.sha256(b"x").hexdigest()[:32]
