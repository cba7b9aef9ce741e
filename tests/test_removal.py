"""Removal by id, file and folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from colret.errors import DocumentError
from colret.removal import remove
from colret.store import PageStore
from colret.types import DocumentFile
from tests.test_store import SETTINGS, encoded, record

DOCUMENTS = {
    "aaaaaa1111": ["/x/a.pdf"],
    "aaaaaa2222": ["/x/sub/b.pdf"],
    "bbbbbb3333": ["/x/sub/c.pdf", "/y/c.pdf"],
    "cccccc4444": ["/x/subway.pdf"],
}


@pytest.fixture
def index(tmp_path: Path) -> PageStore:
    store = PageStore.create(tmp_path / "index", SETTINGS)
    store.add_pages([encoded(doc_id) for doc_id in DOCUMENTS])
    store.put_documents(
        [record(doc_id, files=tuple(DocumentFile(path, 1) for path in paths)) for doc_id, paths in DOCUMENTS.items()]
    )
    return store


def left(store: PageStore) -> dict[str, list[str]]:
    store.refresh()
    pages = {page.ref.doc_id for page in store.candidates()}
    documents = {each.doc_id: [file.path for file in each.files] for each in store.documents()}
    assert pages == documents.keys()
    return documents


def test_a_file_goes_with_its_pages(index: PageStore) -> None:
    removal = remove(index, ["//x/a.pdf" if os.name == "posix" else "/x/a.pdf"])
    assert [each.doc_id for each in removal.documents] == ["aaaaaa1111"]
    assert "aaaaaa1111" not in left(index)
    assert len(left(index)) == 3


def test_a_folder_goes_with_what_is_below_and_nothing_beside(index: PageStore) -> None:
    removal = remove(index, ["/x/sub/"])
    assert [each.doc_id for each in removal.documents] == ["aaaaaa2222"]
    assert removal.n_paths == 1
    assert left(index) == {
        "aaaaaa1111": ["/x/a.pdf"],
        "bbbbbb3333": ["/y/c.pdf"],
        "cccccc4444": ["/x/subway.pdf"],
    }


def test_an_id_or_its_beginning_goes_whole(index: PageStore) -> None:
    removal = remove(index, ["bbbbbb", "aaaaaa1111"])
    assert {each.doc_id for each in removal.documents} == {"bbbbbb3333", "aaaaaa1111"}
    assert set(left(index)) == {"aaaaaa2222", "cccccc4444"}


def test_every_path_of_a_document_takes_it_away(index: PageStore) -> None:
    assert [each.doc_id for each in remove(index, ["/x/sub/c.pdf", "/y"]).documents] == ["bbbbbb3333"]


def test_a_path_is_relative_to_the_working_folder(index: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(index.path)
    remove(index, [os.path.relpath("/x/a.pdf")])
    assert "aaaaaa1111" not in left(index)


@pytest.mark.parametrize(
    ("target", "problem"),
    [("/x/none.pdf", "not in the index"), ("aaaaaa", "matches several documents"), ("bbb", "not in the index")],
)
def test_what_names_nothing_removes_nothing(index: PageStore, target: str, problem: str) -> None:
    with pytest.raises(DocumentError, match=f"{problem}; see: colret list"):
        remove(index, ["/x/a.pdf", target])
    assert len(left(index)) == 4


@pytest.mark.parametrize("target", ["", "  "])
def test_an_empty_target_is_not_the_working_folder(
    index: PageStore, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    with pytest.raises(DocumentError, match="names no document"):
        remove(index, [target])
    assert len(left(index)) == 4


def test_what_was_replaced_is_not_told_as_removed(index: PageStore) -> None:
    index.put_documents([record("dddddd5555", files=(), status="replaced")])
    assert [each.doc_id for each in remove(index, ["/x/a.pdf"]).documents] == ["aaaaaa1111"]
