"""Death at each write of an ingest: whatever is cut short, nothing is lost, doubled or seen in part."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lancedb
import pytest

import colret.ingest
from colret import __version__
from colret.documents import document_id
from colret.encoders.text import TextEncoder
from colret.ingest import ingest
from colret.planning import make_plan
from colret.removal import remove
from colret.settings import settings_for
from colret.store import PageStore
from colret.sync import Plan
from colret.types import DocumentFile, DocumentRecord, SkippedPage
from tests.conftest import TOPICS, write_pdf
from tests.test_ingest import contents, n_rows

WRITES = ("add_pages", "put_documents", "remove_documents", "remove_orphans", "compact")


class Death(BaseException):
    """The process ends here: nothing may catch it."""


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.ingest, "COMMIT_PAGES", 2)
    monkeypatch.setattr(colret.ingest, "ENCODE_PAGES", 1)


def dying(monkeypatch: pytest.MonkeyPatch, write: str, call: int, *, before: bool) -> None:
    """Let the process die before or after the ``call``-th ``write`` to any store."""
    real: Callable[..., Any] = getattr(PageStore, write)
    calls = iter(range(1, 10_000))

    def wrapped(store: PageStore, *arguments: Any) -> Any:
        now = next(calls) == call
        if now and before:
            raise Death
        result = real(store, *arguments)
        if now:
            raise Death
        return result

    monkeypatch.setattr(PageStore, write, wrapped)


def check_whole(store: PageStore) -> None:
    """Each visible document has all its pages, once."""
    pages = list(contents(store))
    for record in store.documents():
        if record.status == "done":
            name = Path(record.files[0].path).name
            assert sum(page.startswith(f"{name}:") for page in pages) == record.n_pages


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("write", WRITES)
def test_an_ingest_that_dies_at_any_write_is_finished_by_the_next(
    write: str, before: bool, tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    write_pdf(folder / "a.pdf", "first version of a", TOPICS["orbit"], TOPICS["heron"])
    write_pdf(folder / "b.pdf", TOPICS["violin"])
    (folder / "torn.pdf").write_text("no PDF")
    start = PageStore.create(tmp_path / "start", settings_for(embedded.info))
    ingest([folder], start, embedded)
    write_pdf(folder / "a.pdf", "second version of a", TOPICS["revenue"], TOPICS["heron"], TOPICS["orbit"])
    write_pdf(folder / "c.pdf", TOPICS["sourdough"], TOPICS["revenue"])
    (folder / "b.pdf").rename(folder / "moved.pdf")
    expected = PageStore.create(tmp_path / "expected", settings_for(embedded.info))
    ingest([folder], expected, embedded)
    for call in range(1, 4):
        shutil.rmtree(tmp_path / "index", ignore_errors=True)
        shutil.copytree(start.path, tmp_path / "index")
        with monkeypatch.context() as patch:
            dying(patch, write, call, before=before)
            try:
                ingest([folder], PageStore.open(tmp_path / "index"), embedded)
            except Death:
                check_whole(PageStore.open(tmp_path / "index"))
        store = PageStore.open(tmp_path / "index")
        ingest([folder], store, embedded)
        assert contents(store) == contents(expected)
        assert n_rows(store) == n_rows(expected) == 7
        check_whole(store)


def test_content_that_comes_back_after_the_death_of_what_replaced_it_is_read_again(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pdf(tmp_path / "a.pdf", TOPICS["orbit"], TOPICS["heron"])
    before = path.read_bytes()
    ingest([path], store, embedded)
    expected = contents(store)
    write_pdf(path, TOPICS["violin"])
    with monkeypatch.context() as patch:
        dying(patch, "put_documents", 1, before=False)
        with pytest.raises(Death):
            ingest([path], store, embedded)
    store.refresh()
    assert "replaced" in [record.status for record in store.documents()]
    path.write_bytes(before)
    ingest([path], store, embedded)
    assert contents(store) == expected
    assert n_rows(store) == 2


@pytest.mark.parametrize("write", ["add_pages", "put_documents", "remove_documents"])
def test_a_retry_that_dies_doubles_nothing(
    write: str, tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document has a record, of its failure, while its pages are being written."""
    path = tmp_path / "a.pdf"
    write_pdf(path, *TOPICS.values())
    file = DocumentFile(str(path), path.stat().st_mtime_ns)
    reason = "page_unreadable"
    failed = DocumentRecord(document_id(path), (file,), path.stat().st_size, 5, 0, "failed", reason, "", __version__)
    store.put_documents([failed])
    assert [item.reason for item in ingest([path], store, embedded).skipped] == [reason]
    with monkeypatch.context() as patch:
        dying(patch, write, 1, before=False)
        with pytest.raises(Death):
            ingest([path], store, embedded, retry_failed=True)
    store.refresh()
    check_whole(store)
    ingest([path], store, embedded, retry_failed=True)
    assert len(contents(store)) == n_rows(store) == 5


def test_removal_that_dies_shows_no_half_document(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pdf(tmp_path / "a.pdf", *TOPICS.values())
    ingest([path], store, embedded)
    table = type(lancedb.connect(str(store.path)).open_table("pages"))
    real = table.delete
    with monkeypatch.context() as patch:
        deleted: list[str] = []

        def delete(self: Any, where: str) -> Any:
            if deleted:
                raise Death
            deleted.append(where)
            return real(self, where)

        patch.setattr(table, "delete", delete)
        with pytest.raises(Death):
            remove(store, [str(path)])
    assert contents(store) == {}
    ingest([path], store, embedded)
    assert len(contents(store)) == n_rows(store) == 5


def after_planning(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen once the documents are known by their content, before the first is read."""

    def plan_and_act(*arguments: Any, **options: Any) -> Plan:
        plan = make_plan(*arguments, **options)
        act()
        return plan

    monkeypatch.setattr(colret.ingest, "make_plan", plan_and_act)


@pytest.mark.parametrize("version", ["new", "replacing"])
def test_a_file_that_changes_before_it_is_read_is_not_recorded(
    version: str, tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pdf(tmp_path / "a.pdf", *[f"old {topic}" for topic in TOPICS.values()])
    if version == "replacing":
        ingest([path], store, embedded)
        write_pdf(path, *[f"middle {topic}" for topic in TOPICS.values()])
    before = contents(store)
    n_held = []
    with monkeypatch.context() as patch:
        after_planning(patch, lambda: write_pdf(path, *[f"new {topic} page" for topic in TOPICS.values()]))
        report = ingest([path], store, embedded, on_progress=lambda _: n_held.append(n_rows(store)))
    assert max(n_held) > len(before)  # pages were written, and nobody saw them
    assert [item.reason for item in report.skipped] == ["changed_while_read"]
    assert contents(store) == before
    assert n_rows(store) == len(before)
    ingest([path], store, embedded)
    pages = store.details([page.row_id for page in store.candidates()])
    assert [page.words.texts[0] for page in pages] == ["new"] * 5
    assert n_rows(store) == 5


def test_a_file_that_vanished_for_a_moment_is_not_remembered_as_missing(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pdf(tmp_path / "a.pdf", TOPICS["orbit"])
    with monkeypatch.context() as patch:
        after_planning(patch, lambda: path.rename(tmp_path / "elsewhere"))
        assert [item.reason for item in ingest([path], store, embedded).skipped] == ["missing"]
    assert store.documents() == []
    (tmp_path / "elsewhere").rename(path)
    assert ingest([path], store, embedded).n_added == 1


def test_a_second_try_at_some_pages_costs_none_where_the_file_cannot_be_read(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pdf(tmp_path / "a.pdf", TOPICS["orbit"], TOPICS["heron"])
    ingest([path], store, embedded)
    before = contents(store)
    [record] = store.documents()
    partial = replace(record, n_pages=3, skipped=(SkippedPage(3, "render_timeout", "took long"),))
    store.put_documents([partial])
    with monkeypatch.context() as patch:
        after_planning(patch, lambda: path.rename(tmp_path / "elsewhere"))
        report = ingest([path], store, embedded, retry_failed=True)
    assert [item.reason for item in report.skipped] == ["missing"]
    assert contents(store) == before
    assert store.documents() == [partial]
    (tmp_path / "elsewhere").rename(path)
    assert ingest([path], store, embedded, retry_failed=True).n_pages == 2
    assert contents(store) == before
    assert n_rows(store) == 2


def test_a_wrong_name_is_not_held_against_the_content(tmp_path: Path, store: PageStore, embedded: TextEncoder) -> None:
    path = write_pdf(tmp_path / "a.png", TOPICS["orbit"])
    assert ingest([path], store, embedded).n_pages == 1  # a PDF all the same
    path.rename(tmp_path / "a.pdf")
    report = ingest([tmp_path / "a.pdf"], store, embedded)
    assert (report.n_added, report.n_unchanged, report.skipped) == (0, 1, [])
