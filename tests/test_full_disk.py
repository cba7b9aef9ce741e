"""A disk that is full or read-only, an index that is removed: one clear line, and what was in is not lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import colret.ingest
from colret.encoders.text import TextEncoder
from colret.errors import StoreError
from colret.ingest import ingest
from colret.location import Location
from colret.prefilter import prepare
from colret.search import rank
from colret.settings import settings_for
from colret.signatures import open_signatures
from colret.store import PageStore
from colret.types import DocumentRecord, EncodedPage
from tests.conftest import TOPICS, write_pdf
from tests.object_store import Bucket
from tests.test_ingest import contents
from tests.test_store import SETTINGS, encoded, record

DISK_BYTES = 6 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, in memory."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.ingest, "COMMIT_PAGES", 2)
    monkeypatch.setattr(colret.ingest, "ENCODE_PAGES", 2)


def check_line(error: StoreError, index: Path) -> None:
    """One line that names the index and what to do."""
    assert error.subject == str(index)
    assert "\n" not in str(error)
    assert "check space and permissions" in error.remedy


def answers(index: Path, embedded: TextEncoder) -> str:
    """Return the name of the file that is found for a question about bread."""
    store = PageStore.open(index)
    [ranking] = rank(store, embedded.encode_queries(["bread with salt"]), k=1)
    [path] = store.paths([ranking.hits[0].ref.doc_id])[ranking.hits[0].ref.doc_id]
    return Path(path).name


def test_a_full_disk(folder: Path, disk: Path, embedded: TextEncoder, tmp_path: Path) -> None:
    index = disk / "index"
    store = PageStore.create(index, settings_for(embedded.info))
    ingest([folder], store, embedded)
    before = contents(store)
    long = " ".join(TOPICS.values()) * 4
    write_pdf(folder / "more.pdf", *[f"{number} {long}" for number in range(12)])
    with (disk / "filler").open("wb", buffering=0) as filler:  # leave a little
        filler.write(b"\0" * (shutil.disk_usage(disk).free - 150_000))
    with pytest.raises(StoreError) as caught:
        ingest([folder], store, embedded)
    check_line(caught.value, index)
    assert "No space left on device" in str(caught.value)
    assert contents(PageStore.open(index)) == before
    assert answers(index, embedded) == "sourdough.pdf"
    (disk / "filler").unlink()
    store = PageStore.open(index)
    ingest([folder], store, embedded)
    undisturbed = PageStore.create(tmp_path / "undisturbed", settings_for(embedded.info))
    ingest([folder], undisturbed, embedded)
    assert contents(store) == contents(undisturbed)


def test_a_disk_that_is_read_only(folder: Path, disk: Path, embedded: TextEncoder) -> None:
    index = disk / "index"
    store = PageStore.create(index, settings_for(embedded.info))
    ingest([folder], store, embedded)
    write_pdf(folder / "more.pdf", TOPICS["orbit"])
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(StoreError) as caught:
        ingest([folder], store, embedded)
    check_line(caught.value, index)
    assert answers(index, embedded) == "sourdough.pdf"


def test_an_index_that_is_removed_meanwhile(
    folder: Path, store: PageStore, embedded: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pdf(folder / "more.pdf", *TOPICS.values())

    real = PageStore.add_pages

    def add_pages(store: PageStore, pages: Sequence[EncodedPage]) -> None:
        store.path.rename(tmp_path / "removed")
        real(store, pages)

    with monkeypatch.context() as patch:
        patch.setattr(PageStore, "add_pages", add_pages)
        with pytest.raises(StoreError, match="the index was removed while it was written to; make it anew") as caught:
            ingest([folder], store, embedded)
    assert caught.value.subject == str(store.path)
    assert "\n" not in str(caught.value)
    assert not PageStore.exists(store.path)
    again = PageStore.create(store.path, store.settings)
    assert ingest([folder], again, embedded).n_added == 4


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the names of open files")
def test_a_record_is_written_once_the_disk_has_its_pages(
    folder: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a power cut leaves cannot be tried here: this is about the order of things."""
    synced: set[Path] = set()
    fsync, put_documents = os.fsync, PageStore.put_documents

    def note(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    def check(store: PageStore, records: Sequence[DocumentRecord]) -> None:
        if records:
            new = {path for path in (store.path / "pages.lance").rglob("*") if path.is_file()} - before
            assert new <= synced
            checked.append(len(new))
        put_documents(store, records)

    before = set(store.path.rglob("*"))
    checked: list[int] = []
    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(PageStore, "put_documents", check)
    ingest([folder], store, embedded)
    assert len(checked) > 1
    assert min(checked) > 0


def test_copies_of_an_object_store_need_no_space(
    bucket: Bucket, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They save requests; a search does without."""
    monkeypatch.setenv("COLRET_CACHE", str(tmp_path / "author"))
    place = Location.of(f"{bucket.address}/index", bucket.options)
    author = PageStore.create(place, SETTINGS)
    author.add_pages([encoded("a", number) for number in range(1, 6)])
    author.put_documents([record("a", 5)])
    made = open_signatures(author, "bits")
    with author.writing():
        prepare(author)
    monkeypatch.setenv("COLRET_CACHE", str(disk / "cache"))
    with (disk / "filler").open("wb", buffering=0) as filler:
        filler.write(b"\0" * shutil.disk_usage(disk).free)
    reader, places = PageStore.open(place), np.arange(5)
    assert np.array_equal(open_signatures(reader, "bits").take(places).values, made.take(places).values)
    assert np.array_equal(reader.vectors(places).values, author.vectors(places).values)
