"""The plan of an ingest: files that are there against what the index knows."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import colret
from colret.documents import SourceFile, document_id, find_documents
from colret.sync import Plan, make_plan
from colret.types import DocumentFile, DocumentRecord, SkippedPage


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content)
    return path


def plan(folder: Path, records: Sequence[DocumentRecord] = (), *, retry_failed: bool = False) -> Plan:
    return make_plan(find_documents([folder])[0], records, retry_failed=retry_failed)


def recorded(*paths: Path, **values: object) -> DocumentRecord:
    """Return the record that an ingest of ``paths``, all of one content, would leave."""
    made = DocumentRecord(
        doc_id=document_id(paths[0]),
        files=tuple(sorted(DocumentFile(str(path), path.stat().st_mtime_ns) for path in paths)),
        size=paths[0].stat().st_size,
        n_pages=1,
        n_blank=0,
        status="done",
        reason="",
        message="",
        tool_version=colret.__version__,
    )
    return dataclasses.replace(made, **values)  # type: ignore[arg-type]


def test_everything_is_new_to_an_empty_index(tmp_path: Path) -> None:
    b, a = write(tmp_path, "b.pdf", "two"), write(tmp_path, "a.pdf", "one")
    found = plan(tmp_path)
    assert [document.source.path for document in found.new] == [a, b]
    assert [document.doc_id for document in found.new] == [document_id(a), document_id(b)]


def test_an_unchanged_file_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = recorded(write(tmp_path, "a.pdf", "one"))

    def refuse(path: Path, *args: object) -> None:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(Path, "open", refuse)
    assert plan(tmp_path, [record]) == Plan(n_unchanged=1)


def test_a_touched_file_keeps_its_pages(tmp_path: Path) -> None:
    path = write(tmp_path, "a.pdf", "one")
    record = recorded(path)
    os.utime(path, ns=(1, 1))
    found = plan(tmp_path, [record])
    assert found.new == []
    assert found.updated == [dataclasses.replace(record, files=(DocumentFile(str(path), 1),))]


def test_a_renamed_file_keeps_its_pages_under_its_new_path(tmp_path: Path) -> None:
    old = write(tmp_path, "old.pdf", "one")
    record = recorded(old)
    new = old.rename(tmp_path / "new.pdf")
    found = plan(tmp_path, [record])
    assert (found.new, found.obsolete, found.n_moved) == ([], [], 1)
    assert [file.path for file in found.updated[0].files] == [str(new)]


def test_a_failure_is_told_by_the_path_that_was_found(tmp_path: Path) -> None:
    old = write(tmp_path, "old.pdf", "broken")
    record = recorded(old, status="failed", reason="not_a_pdf")
    new = old.rename(tmp_path / "new.pdf")
    found = plan(tmp_path, [record])
    assert [file.path for file in found.flawed[0].files] == [str(new)]
    assert [file.path for file in found.updated[0].files] == [str(new)]


def test_pages_that_were_skipped_are_told_and_tried_again_on_demand(tmp_path: Path) -> None:
    skipped = (SkippedPage(2, "page_unreadable", "torn"),)
    record = recorded(write(tmp_path, "a.pdf", "one"), skipped=skipped)
    assert plan(tmp_path, [record]) == Plan(n_unchanged=1, flawed=[record])
    assert [document.doc_id for document in plan(tmp_path, [record], retry_failed=True).new] == [record.doc_id]


def test_a_copy_is_one_document_under_two_paths(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a.pdf", "one"), write(tmp_path, "b.pdf", "one")
    [document] = plan(tmp_path).new
    assert [file.path for file in document.files] == [str(a), str(b)]
    assert plan(tmp_path, [recorded(a, b)]) == Plan(n_unchanged=1)


def test_changed_content_replaces_the_document(tmp_path: Path) -> None:
    path = write(tmp_path, "a.pdf", "one")
    record = recorded(path)
    write(tmp_path, "a.pdf", "another")
    found = plan(tmp_path, [record])
    assert [document.doc_id for document in found.new] == [document_id(path)]
    assert found.obsolete == [record]


def test_changed_content_leaves_the_document_to_its_other_holder(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a.pdf", "one"), write(tmp_path, "b.pdf", "one")
    record = recorded(a, b)
    write(tmp_path, "a.pdf", "another")
    found = plan(tmp_path, [record])
    assert found.obsolete == []
    assert [file.path for file in found.updated[0].files] == [str(b)]


def test_two_files_that_swap_their_contents_are_not_read_again(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a.pdf", "one"), write(tmp_path, "b.pdf", "two")
    records = [recorded(a), recorded(b)]
    write(tmp_path, "a.pdf", "two")
    write(tmp_path, "b.pdf", "one")
    for path in (a, b):
        os.utime(path, ns=(5, 5))
    found = plan(tmp_path, records)
    assert (found.new, found.obsolete) == ([], [])
    assert {record.doc_id: [file.path for file in record.files] for record in found.updated} == {
        records[0].doc_id: [str(b)],
        records[1].doc_id: [str(a)],
    }


def test_a_file_that_was_not_looked_at_stays(tmp_path: Path) -> None:
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir()
    here.mkdir()
    record = recorded(write(elsewhere, "a.pdf", "one"))
    write(here, "b.pdf", "two")
    found = plan(here, [record])
    assert (found.updated, found.obsolete) == ([], [])


def test_a_failure_is_remembered_and_tried_again_on_demand_or_by_another_version(tmp_path: Path) -> None:
    record = recorded(write(tmp_path, "a.pdf", "broken"), status="failed", reason="not_a_pdf")
    assert plan(tmp_path, [record]) == Plan(flawed=[record])
    assert [document.doc_id for document in plan(tmp_path, [record], retry_failed=True).new] == [record.doc_id]
    older = dataclasses.replace(record, tool_version="0.0.1")
    assert [document.doc_id for document in plan(tmp_path, [older]).new] == [record.doc_id]


def test_an_empty_file_is_told_and_the_rest_is_planned(tmp_path: Path) -> None:
    write(tmp_path, "a.pdf", "")
    write(tmp_path, "b.pdf", "two")
    found = plan(tmp_path)
    assert [error.reason for error in found.unreadable] == ["empty_file"]
    assert len(found.new) == 1


def test_the_plan_needs_no_folder(tmp_path: Path) -> None:
    path = write(tmp_path, "a.pdf", "one")
    source = SourceFile(path, 3, path.stat().st_mtime_ns)
    assert make_plan([source], [recorded(path)], retry_failed=False) == Plan(n_unchanged=1)


def test_a_file_that_was_emptied_holds_its_document_no_more(tmp_path: Path) -> None:
    path = write(tmp_path, "a.pdf", "one")
    record = recorded(path)
    write(tmp_path, "a.pdf", "")
    found = plan(tmp_path, [record])
    assert found.obsolete == [record]
