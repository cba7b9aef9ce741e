"""The plan of an ingest: files that are there against what the index knows."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import colret
from colret.documents import display_path, document_id
from colret.encoders.text import TextEncoder
from colret.folders import Found, find_documents
from colret.ingest import ingest
from colret.planning import make_plan
from colret.store import PageStore
from colret.sync import Plan
from colret.types import DocumentFile, DocumentRecord, SkippedPage


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def plan(folder: Path, records: Sequence[DocumentRecord] = (), **options: Any) -> Plan:
    return make_plan(find_documents([folder]), records, **options)


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


def unchanged(*records: DocumentRecord) -> Plan:
    """Return the plan for documents that are as they were."""
    return Plan(changes={file.path: "unchanged" for each in records for file in each.files}, n_unchanged=len(records))


def test_everything_is_new_to_an_empty_index(tmp_path: Path) -> None:
    b, a = write(tmp_path, "b.pdf", "two"), write(tmp_path, "a.pdf", "one")
    found = plan(tmp_path)
    assert [document.source.file for document in found.new] == [a, b]
    assert [document.doc_id for document in found.new] == [document_id(a), document_id(b)]


OPENED: list[str] = []


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        OPENED.append(str(arguments[0]))


def test_unchanged_files_are_not_opened(tmp_path: Path, folder: Path, store: PageStore, embedded: TextEncoder) -> None:
    """By the interpreter's own account of what it opens, which cannot be taken back once it is asked for."""
    for path in folder.iterdir():  # what has just been written is hashed again
        os.utime(path, ns=(1_000_000_001, 1_000_000_001))
    ingest([folder], store, embedded)
    sys.addaudithook(_note_opened)
    OPENED.clear()
    assert ingest([folder], store, embedded).n_unchanged == 3
    assert not [path for path in OPENED if path.startswith(str(folder))]
    os.utime(folder / "heron.pdf", ns=(1, 1))
    OPENED.clear()
    assert ingest([folder], store, embedded).n_unchanged == 3
    assert {path for path in OPENED if path.startswith(str(folder))} == {str(folder / "heron.pdf")}


def test_a_touched_file_keeps_its_pages(tmp_path: Path) -> None:
    path = write(tmp_path, "a.pdf", "one")
    record = recorded(path)
    os.utime(path, ns=(1, 1))
    found = plan(tmp_path, [record])
    assert (found.new, found.changes) == ([], {str(path): "unchanged"})
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
    assert plan(tmp_path, [record]) == dataclasses.replace(unchanged(record), flawed=[record])
    assert [document.doc_id for document in plan(tmp_path, [record], retry_failed=True).new] == [record.doc_id]


def test_a_copy_is_one_document_under_two_paths(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a.pdf", "one"), write(tmp_path, "b.pdf", "one")
    [document] = plan(tmp_path).new
    assert [file.path for file in document.files] == [str(a), str(b)]
    assert plan(tmp_path, [recorded(a, b)]) == unchanged(recorded(a, b))


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
    assert plan(tmp_path, [record]) == Plan(flawed=[record], changes={record.files[0].path: "unusable"})
    assert [document.doc_id for document in plan(tmp_path, [record], retry_failed=True).new] == [record.doc_id]
    older = dataclasses.replace(record, tool_version="0.0.1")
    assert [document.doc_id for document in plan(tmp_path, [older]).new] == [record.doc_id]


def test_a_failure_is_tried_again_where_its_reason_may_have_passed(tmp_path: Path) -> None:
    record = recorded(write(tmp_path, "a.pdf", "locked"), status="failed", reason="password_required")
    assert plan(tmp_path, [record], retry={"needs_libreoffice"}).new == []
    assert [document.doc_id for document in plan(tmp_path, [record], retry={"password_required"}).new] == [
        record.doc_id
    ]


def test_a_failure_under_another_kind_of_name_is_tried_again(tmp_path: Path) -> None:
    path = write(tmp_path, "a.pdf", "a letter")
    record = recorded(path, status="failed", reason="not_a_pdf")
    path.rename(tmp_path / "b.pdf")
    assert plan(tmp_path, [record]).new == []
    (tmp_path / "b.pdf").rename(tmp_path / "a.docx")
    assert [document.source.file.name for document in plan(tmp_path, [record]).new] == ["a.docx"]


# Files that cannot be read


def test_what_cannot_be_read_has_a_record_of_its_own_until_it_can(tmp_path: Path) -> None:
    empty = write(tmp_path, "a.pdf", "")
    archive = write(tmp_path, "b.zip", "x")
    found = plan(tmp_path)
    assert [(record.files[0].path, record.reason) for record in found.updated] == [
        (str(empty), "empty_file"),
        (str(archive), "unsupported_archive"),
    ]
    assert found.flawed == found.updated
    assert found.new == []
    again = plan(tmp_path, found.updated)
    assert (again.updated, again.flawed, again.dropped) == ([], found.updated, [])
    write(tmp_path, "a.pdf", "words")
    archive.unlink()
    healed = plan(tmp_path, found.updated)
    assert [document.source.file for document in healed.new] == [empty]
    assert healed.dropped == found.updated
    assert (healed.n_pruned, healed.paths("vanished")) == (0, [])


def test_a_file_that_was_emptied_holds_its_document_no_more(tmp_path: Path) -> None:
    path = write(tmp_path, "a.pdf", "one")
    record = recorded(path)
    write(tmp_path, "a.pdf", "")
    found = plan(tmp_path, [record])
    assert found.obsolete == [record]
    assert found.changes == {str(path): "unusable"}


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files that may not be opened; the tests may run as root, who may open all."""
    names: set[str] = set()
    real = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
        if os.path.basename(path) in names:
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    return names


def test_a_file_that_may_not_be_read_any_more_keeps_its_pages(tmp_path: Path, forbidden: set[str]) -> None:
    path = write(tmp_path, "a.pdf", "one")
    record = recorded(path)
    os.utime(path, ns=(1, 1))
    forbidden.add("a.pdf")
    found = plan(tmp_path, [record])
    assert (found.new, found.obsolete, found.dropped) == ([], [], [])
    [barred] = found.updated
    assert (barred.reason, barred.message) == (
        "unreadable",
        "cannot be read (Permission denied); check its permissions",
    )
    forbidden.clear()
    found = plan(tmp_path, [record, barred])
    assert found.dropped == [barred]
    assert [(each.doc_id, each.files[0].mtime_ns) for each in found.updated] == [(record.doc_id, 1)]


def test_a_link_whose_file_is_not_mounted_keeps_its_pages(tmp_path: Path) -> None:
    path = write(tmp_path / "root", "a.pdf", "one")
    record = recorded(path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.pdf")
    found = plan(tmp_path / "root", [record], prune=True)
    assert (found.obsolete, found.dropped, found.changes) == ([], [], {str(path): "unusable"})


# Files that are gone


def test_a_vanished_file_is_told_and_dropped_on_demand(tmp_path: Path) -> None:
    stays, goes = write(tmp_path, "a.pdf", "one"), write(tmp_path, "sub/b.pdf", "two")
    records = [recorded(stays), recorded(goes)]
    shutil.rmtree(goes.parent)
    found = plan(tmp_path, records)
    assert found.changes == {str(stays): "unchanged", str(goes): "vanished"}
    assert (found.updated, found.dropped, found.paths("vanished"), found.n_pruned) == ([], [], [str(goes)], 0)
    found = plan(tmp_path, records, prune=True)
    assert (found.dropped, found.paths("vanished"), found.n_pruned) == ([records[1]], [str(goes)], 1)


def test_a_document_with_another_holder_loses_the_vanished_path_only(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a.pdf", "one"), write(tmp_path, "b.pdf", "one")
    record = recorded(a, b)
    b.unlink()
    assert plan(tmp_path, [record]).updated == []
    found = plan(tmp_path, [record], prune=True)
    assert (found.dropped, found.new, found.n_pruned) == ([], [], 0)
    assert found.updated == [dataclasses.replace(record, files=record.files[:1])]


def test_a_failure_whose_file_is_gone_is_forgotten(tmp_path: Path) -> None:
    write(tmp_path, "a.pdf", "one")
    torn = write(tmp_path, "b.pdf", "broken")
    record = recorded(torn, status="failed", reason="not_a_pdf")
    torn.unlink()
    found = plan(tmp_path, [record])
    assert (found.dropped, found.changes.get(str(torn)), found.n_pruned) == ([record], None, 0)


def test_a_folder_that_holds_nothing_any_more_is_not_pruned(tmp_path: Path) -> None:
    here, there = write(tmp_path, "here/a.pdf", "one"), write(tmp_path, "there/b.pdf", "two")
    records = [recorded(here), recorded(there)]
    there.unlink()
    found = make_plan(find_documents([here.parent, there.parent]), records, prune=True)
    assert (found.updated, found.dropped, found.paths("vanished")) == ([], [], [str(there)])
    [problem] = found.problems
    assert str(problem).startswith(f"{there.parent}: holds no document any more, so the 1 known below it are kept")
    assert problem.remedy.endswith(f"colret remove {there.parent}")
    assert plan(tmp_path, records, prune=True).dropped == [records[1]]  # the given folder holds one


def test_nothing_is_pruned_below_a_folder_that_is_missing_or_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "here/a.pdf", "one")
    record = recorded(write(tmp_path, "there/b.pdf", "two"))
    shutil.rmtree(tmp_path / "there")
    found = make_plan(find_documents([tmp_path / "here", tmp_path / "there"]), [record], prune=True)
    assert (found.dropped, found.paths("vanished")) == ([], [])
    assert [problem.reason for problem in found.problems] == ["missing"]


def test_a_folder_in_place_of_a_file_and_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a.pdf", "one"), write(tmp_path, "sub.pdf/b.pdf", "two")
    records = [recorded(a), recorded(b)]
    a.unlink()
    inside = write(tmp_path, "a.pdf/inside.pdf", "three")
    shutil.rmtree(b.parent)
    write(tmp_path, "sub.pdf", "two")
    found = plan(tmp_path, records, prune=True)
    assert found.changes == {str(inside): "new", str(a): "vanished", str(tmp_path / "sub.pdf"): "moved"}
    assert found.dropped == [records[0]]
    assert [[file.path for file in each.files] for each in found.updated] == [[str(tmp_path / "sub.pdf")]]


def test_a_rename_whose_old_name_another_file_takes(tmp_path: Path) -> None:
    a = write(tmp_path, "a.pdf", "one")
    record = recorded(a)
    moved = a.rename(tmp_path / "moved.pdf")
    write(tmp_path, "a.pdf", "another")
    found = plan(tmp_path, [record])
    assert found.changes == {str(moved): "moved", str(a): "changed"}
    assert [[file.path for file in each.files] for each in found.updated] == [[str(moved)]]
    assert (found.obsolete, found.dropped) == ([], [])


@pytest.mark.parametrize("case_matters", [True, False])
def test_a_rename_in_case_only_leaves_one_path(
    tmp_path: Path, case_matters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_name = write(tmp_path, "report.pdf", "one")
    record = recorded(old_name)
    new_name = old_name.rename(tmp_path / "Report.pdf")
    if not case_matters:  # then the old name is still that of the file
        real = Path.lstat
        monkeypatch.setattr(Path, "lstat", lambda path: real(new_name if path == old_name else path))
    [updated] = plan(tmp_path, [record]).updated
    assert [file.path for file in updated.files] == [str(new_name)]


def test_a_rename_is_seen_though_the_name_is_no_utf8(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    path = outside / os.fsdecode(b"caf\xe9.pdf")
    try:
        path.write_text("one")
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    record = dataclasses.replace(recorded(path), files=(DocumentFile(display_path(path), path.stat().st_mtime_ns),))
    copy = write(root, "copy.pdf", "one")
    [updated] = plan(root, [record]).updated
    assert [file.path for file in updated.files] == [display_path(path), str(copy)]


# The clock of the file system


@pytest.mark.parametrize(
    ("age_ns", "mtime_ns", "racy"),
    [
        (10_000_000, 1_700_000_000_123_456_789, True),
        (100_000_000, 1_700_000_000_123_456_789, False),
        (-10_000_000, 1_700_000_000_123_456_789, True),
        (-10_000_000_000, 1_700_000_000_123_456_789, False),  # from the future: no reason to hash it for ever
        (1_900_000_000, 1_700_000_000_000_000_000, True),
        (2_000_000_000, 1_700_000_000_000_000_000, False),
    ],
)
def test_a_file_that_changed_a_moment_ago_is_hashed_again_next_time(
    tmp_path: Path, age_ns: int, mtime_ns: int, racy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a.pdf", "one")
    os.utime(path, ns=(mtime_ns, mtime_ns))
    monkeypatch.setattr(time, "time_ns", lambda: mtime_ns + age_ns)
    [document] = plan(tmp_path).new
    assert mtime_ns - document.files[0].mtime_ns == racy
    record = recorded(path, files=document.files)
    path.write_text("two")
    os.utime(path, ns=(mtime_ns, mtime_ns))  # no tick since
    assert (plan(tmp_path, [record]).changes[str(path)] == "changed") == racy


def test_a_time_that_no_index_can_hold_costs_no_file(folder: Path, store: PageStore, embedded: TextEncoder) -> None:
    odd, year_2400 = folder / "heron.pdf", 13_569_465_600
    os.utime(odd, (year_2400, year_2400))
    report = ingest([folder], store, embedded)
    assert (report.n_added, report.skipped) == (3, [])
    assert ingest([folder], store, embedded).n_unchanged == 3
    odd.write_bytes(odd.read_bytes().replace(b"heron", b"stork"))
    os.utime(odd, (year_2400 + 1, year_2400 + 1))
    assert ingest([folder], store, embedded).n_replaced == 1  # though to the index these are one time


# Any folder, any index


CONTENTS = ["", "one", "two", "six", "seven", "eight"]  # some as long as others
PATHS = ["a.pdf", "b.pdf", "c.pdf", "sub/a.pdf", "sub/b.pdf", "archive.zip"]
STATES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(CONTENTS), max_size=len(PATHS))


def become(folder: Path, state: dict[str, str], changed: dict[str, tuple[str, int]], moment: int) -> None:
    """Let a folder hold just these files, each with the time when its path got its content."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in changed.keys() - state.keys():
        del changed[name]
    for name, content in state.items():
        if changed.get(name, (None, 0))[0] != content:
            changed[name] = content, moment
        os.utime(write(folder, name, content), ns=(0, changed[name][1]))


def committed(plan: Plan, records: Sequence[DocumentRecord]) -> list[DocumentRecord]:
    """Return the records that an index has when the plan is done."""
    left = {record.doc_id: record for record in records}
    for document in plan.new:
        failed = document.source.size == 3  # "one", "two", "six"
        left[document.doc_id] = dataclasses.replace(
            recorded(document.source.file, files=document.files), status="failed" if failed else "done"
        )
    left |= {record.doc_id: record for record in plan.updated}
    for record in [*plan.obsolete, *plan.dropped]:
        del left[record.doc_id]
    return list(left.values())


def holders(records: Sequence[DocumentRecord]) -> dict[str, set[str]]:
    return {record.doc_id: {file.path for file in record.files} for record in records}


@given(states=st.lists(STATES, min_size=2, max_size=6), prune=st.booleans())
def test_any_folder_is_planned_whole(
    tmp_path_factory: pytest.TempPathFactory, states: list[dict[str, str]], prune: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / "planned"
    records: list[DocumentRecord] = []
    changed: dict[str, tuple[str, int]] = {}
    for moment, state in enumerate(states):
        become(folder, state | {"anchor.pdf": "anchor"}, changed, moment)
        found = find_documents([folder])
        planned = make_plan(found, records, prune=prune)
        check(planned, found, records, prune=prune)
        records = committed(planned, records)
        again = make_plan(find_documents([folder]), records, prune=prune)
        assert (again.new, again.updated, again.obsolete, again.dropped) == ([], [], [], [])
        if prune:
            assert holders(records) == holders(committed(plan(folder), []))


def check(planned: Plan, found: Found, records: Sequence[DocumentRecord], *, prune: bool) -> None:
    """Check what holds of every plan."""
    there = {str(source.file): document_id(source.file) for source in found.sources}
    assert planned.changes.keys() - there.keys() - found.unusable.keys() == {
        path for path, change in planned.changes.items() if change == "vanished"
    }
    assert there.keys() | found.unusable.keys() <= planned.changes.keys()
    read = {file.path: document.doc_id for document in planned.new for file in document.files}
    assert {path for path, change in planned.changes.items() if change in ("new", "changed", "retried")} == read.keys()
    assert all(there[path] == doc_id for path, doc_id in read.items())
    for record in [*planned.obsolete, *planned.dropped]:  # nothing that is there is taken out
        assert all(there.get(file.path) != record.doc_id for file in record.files)
    known = {record.doc_id: record for record in records}
    for path, change in planned.changes.items():
        if change in ("unchanged", "moved"):
            assert known[there[path]].status == "done"
        if change == "vanished":
            assert not Path(path).exists()
    ids = [document.doc_id for document in planned.new]
    ids += [record.doc_id for record in [*planned.updated, *planned.obsolete, *planned.dropped]]
    assert len(ids) == len(set(ids))
    assert prune or all(record.status == "failed" for record in planned.dropped)
