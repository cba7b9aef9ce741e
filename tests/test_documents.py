"""Telling documents apart, what kind they are, how they are named."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from colret.documents import (
    ARCHIVE_SUFFIXES,
    OFFICE_SUFFIXES,
    check_file,
    display_path,
    document_id,
    id_without_content,
    is_office,
    is_pdf,
    is_supported,
    path_on_disk,
)
from colret.errors import DocumentError


def touch(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


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
    monkeypatch.setattr(os, "open", refuse)
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


@given(path=PATHS | SPELT)
@example(Path(os.fsdecode(b"/\\\xe9\\\\")))
@example(Path(r"/\udce9"))
def test_a_path_as_text_leads_back_to_the_file(path: Path) -> None:
    assert path_on_disk(display_path(path)) == path


@pytest.mark.parametrize(
    ("name", "content", "pdf", "office"),
    [
        ("a.pdf", b"%PDF-1.7", True, False),
        ("a.docx", b"%PDF-1.7", True, False),
        ("a.html", b"junk\n%PDF-1.4", True, False),
        ("a.docx", b"PK\3\4", False, True),
        ("a.HTM", b"<html>", False, True),
        ("a.doc", b"\x89PNG\r\n\x1a\n", False, False),
        ("a.pdf", b"\xff\xd8\xff", False, False),
        ("a.pdf", b"torn", True, False),
        ("a.png", b"torn", False, False),
    ],
)
def test_the_first_bytes_tell_the_kind_and_the_name_where_they_do_not(
    tmp_path: Path, name: str, content: bytes, pdf: bool, office: bool
) -> None:
    path = touch(tmp_path / name, content)
    assert (is_pdf(path), is_office(path)) == (pdf, office)


def test_archives_and_spreadsheets_are_no_documents(tmp_path: Path) -> None:
    assert not any(is_supported(Path(f"a{suffix}")) for suffix in ARCHIVE_SUFFIXES | {".xls", ".xlsx", ".ods"})
    assert all(is_supported(Path(f"a{suffix}")) for suffix in OFFICE_SUFFIXES)
    with pytest.raises(DocumentError, match="is an archive; unpack it") as caught:
        check_file(touch(tmp_path / "a.tar.gz"))
    assert caught.value.reason == "unsupported_archive"


def test_a_file_without_content_has_an_identity_of_its_own(tmp_path: Path) -> None:
    path = touch(tmp_path / "a.pdf", f"path:{tmp_path}/b.pdf".encode())
    assert id_without_content("/x/a.pdf") != id_without_content("/x/b.pdf")
    assert len(id_without_content("/x/a.pdf")) == len(document_id(path)) == 32


def test_a_fifo_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colret.documents.check_file", lambda path: None)  # it was a file then
    os.mkfifo(tmp_path / "a.pdf")
    with pytest.raises(DocumentError, match="no ordinary file"):
        document_id(tmp_path / "a.pdf")
