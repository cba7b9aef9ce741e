"""An index in an object store: all that a folder's does, by several machines at once."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import lancedb
import numpy as np
import pytest
from numpy.typing import NDArray
from obstore.exceptions import AlreadyExistsError

import colret
import colret.encoders
import colret.lease
import colret.remote_folder
import colret.signatures
from colret.encoders.text import TextEncoder
from colret.errors import BusyError, StoreError
from colret.ingest import ingest
from colret.lease import Lease
from colret.location import Location
from colret.object_storage import open_prefix
from colret.prefilter import prepare
from colret.remote_folder import RemoteFolder
from colret.removal import remove
from colret.search import search
from colret.settings import settings_for
from colret.signatures import FOLDER, open_signatures
from colret.store import PageStore
from colret.types import Int64
from tests.conftest import TOPICS, write_pdf
from tests.folders import answers, contents, numpy_encoder
from tests.object_store import Bucket, Traffic
from tests.test_store import SETTINGS, encoded, record


@pytest.fixture(autouse=True)
def _own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLRET_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def place(bucket: Bucket) -> Location:
    """Where a test's index is."""
    return Location.of(f"{bucket.address}/some/index", bucket.options)


@pytest.fixture
def remote(place: Location) -> PageStore:
    """An empty index of small vectors."""
    return PageStore.create(place, SETTINGS)


def ingested(place: Location | Path, folder: Path) -> PageStore:
    store = PageStore.create(place, settings_for(numpy_encoder().info))
    ingest([folder], store, numpy_encoder())
    return store


def test_it_holds_finds_and_syncs_what_a_folders_does(place: Location, folder: Path, tmp_path: Path) -> None:
    store, local = ingested(place, folder), ingested(tmp_path / "local", folder)
    for change in ("none", "synced", "removed"):
        if change == "synced":
            write_pdf(folder / "orbit.pdf", TOPICS["orbit"], TOPICS["violin"])
            write_pdf(folder / "heron.pdf", "The heron has flown away")
            (folder / "revenue.pdf").unlink()
        for each in (store, local):
            if change == "removed":
                remove(each, [str(folder / "orbit.pdf")])
            else:
                ingest([folder], each, numpy_encoder(), prune=True)
        held = contents(store)
        assert held == contents(local)
        assert answers(store, set(held)) == answers(local, set(held))
        assert contents(PageStore.open(place)) == held
    assert len(held) == 2
    assert store.info().bytes_on_disk == sum(store.folder.sizes().values())  # type: ignore[attr-defined]


def test_the_library_opens_it_by_its_address(
    bucket: Bucket, folder: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)  # which is loaded already
    address = f"{bucket.address}/index"
    with colret.create(address, model="embedded", storage_options=bucket.options) as index:
        assert index.ingest(folder).n_added == 3
    with colret.open(address, storage_options=bucket.options) as index:
        [hit] = index.search("bread from flour", k=1)
        assert Path(hit.file).stem == "sourdough"
        assert str(index.path) == address


def test_what_others_keep_there_is_left_alone(bucket: Bucket) -> None:
    bucket.put("theirs/report.pdf", b"x")
    with pytest.raises(StoreError, match=r"holds other things, such as report\.pdf"):
        PageStore.create(Location.of(f"{bucket.address}/theirs", bucket.options), SETTINGS)
    assert bucket.keys("") == ["theirs/report.pdf"]
    bucket.put("legal/signatures/will.pdf", b"x")
    with pytest.raises(StoreError, match=r"holds other things, such as signatures/will\.pdf"):
        PageStore.create(Location.of(f"{bucket.address}/legal", bucket.options), SETTINGS)
    assert "legal/signatures/will.pdf" in bucket.keys("")


def test_an_index_that_is_removed_meanwhile_is_not_begun_anew(bucket: Bucket, remote: PageStore) -> None:
    for key in bucket.keys(""):
        bucket.delete(key)
    with pytest.raises(StoreError, match="removed while it was written to"):
        remote.add_pages([encoded("a")])
    assert bucket.keys("") == []


def test_a_second_writer_waits_or_is_refused(remote: PageStore, place: Location) -> None:
    other = PageStore.open(place)
    with remote.writing():
        remote.add_pages([encoded("a")])
        with pytest.raises(BusyError), other.writing():
            pass
        remote.put_documents([record("a")])
    with other.writing():
        other.add_pages([encoded("b")])
        other.put_documents([record("b")])
    remote.refresh()
    assert sorted(page.ref.doc_id for page in remote.candidates()) == ["a", "b"]


def test_many_writers_that_come_at_once_lose_and_double_nothing(remote: PageStore, place: Location) -> None:
    def write(name: str) -> None:
        store = PageStore.open(place)
        for i in range(3):
            while True:
                with contextlib.suppress(BusyError), store.writing():
                    store.add_pages([encoded(f"{name}{i}")])
                    store.put_documents([record(f"{name}{i}")])
                    break
                time.sleep(0.02)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    remote.refresh()
    assert [page.ref.doc_id for page in remote.candidates()] == [f"{name}{i}" for name in "abc" for i in range(3)]
    assert remote._pages.count_rows() == 9


def test_a_writer_that_lost_its_lease_writes_no_more(
    remote: PageStore, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.lease, "LEASE_SECONDS", 1.0)
    monkeypatch.setattr(Lease, "_beat", lambda self: None)  # a process that is stopped renews nothing
    with remote.writing():
        remote.add_pages([encoded("a")])
        time.sleep(3.2)
        taker = PageStore.open(place)
        with taker.writing():
            assert taker.remove_orphans() == 1
            writes: list[Callable[[], None]] = [
                lambda: remote.add_pages([encoded("b")]),
                lambda: remote.put_documents([record("a")]),
                lambda: remote.remove_documents(["a"]),
                remote.compact,
            ]
            for write in writes:
                with pytest.raises(StoreError, match="lost the right to write"):
                    write()
            taker.add_pages([encoded("c")])
            taker.put_documents([record("c")])
    assert [page.ref.doc_id for page in PageStore.open(place).candidates()] == ["c"]


def test_pages_that_a_late_write_doubled_are_seen_once_and_go(remote: PageStore, place: Location) -> None:
    late = PageStore.open(place)
    with remote.writing():
        remote.add_pages([encoded("a", 1), encoded("a", 2)])
        remote.put_documents([record("a", 2)])
        late.add_pages([encoded("a", 1), encoded("a", 2)])  # its lease was checked before it was lost
        remote.refresh()
        assert [page.row_id for page in remote.candidates()] == [0, 1]
        assert remote.remove_orphans() == 2
    reader = PageStore.open(place)
    assert [page.row_id for page in reader.candidates()] == [0, 1]
    assert reader._pages.count_rows() == 2


def test_documents_whose_pages_a_late_write_took_are_read_again(place: Location, folder: Path) -> None:
    store = ingested(place, folder)
    before = contents(store)
    doc_id = next(iter(before))
    store._pages.delete(f"doc_id = '{doc_id}'")  # a lost writer's, of what another has put in since
    blank = dataclasses.replace(record("blank"), n_blank=1)
    store.put_documents([blank, record("failed", status="failed")])
    ingest([folder], store, numpy_encoder())
    after = contents(store)
    assert {key: after[key] for key in before} == before
    assert after.keys() == {*before, "blank", "failed"}  # which never had pages


@pytest.mark.parametrize("remote_one", [False, True])
def test_an_index_that_was_made_anew_meanwhile_is_refused(
    remote_one: bool, bucket: Bucket, place: Location, tmp_path: Path
) -> None:
    where = place if remote_one else tmp_path / "index"

    def made(created: str, name: str) -> PageStore:
        store = PageStore.create(where, dataclasses.replace(SETTINGS, created=created))
        store.add_pages([encoded(name)])
        store.put_documents([record(name)])
        return store

    reader = made("2026-01-01", "a")
    for key in bucket.keys(""):
        bucket.delete(key)
    shutil.rmtree(tmp_path / "index", ignore_errors=True)
    made("2026-01-02", "b").add_pages([encoded("c")])
    for _ in range(2):
        with pytest.raises(StoreError, match="was removed and made anew since it was opened"):
            reader.refresh()


def test_readers_beside_a_writer_see_whole_documents_and_the_newest(remote: PageStore, place: Location) -> None:
    over = threading.Event()
    seen: list[int] = []

    def read() -> None:
        reader = PageStore.open(place)
        while not over.is_set():
            reader.refresh()
            counts = Counter(page.ref.doc_id for page in reader.candidates())
            assert set(counts.values()) <= {3}
            seen.append(len(counts))

    thread = threading.Thread(target=read)
    thread.start()
    replica = PageStore.open(place)
    with remote.writing():
        for i in range(6):
            for number in (1, 2, 3):
                remote.add_pages([encoded(f"{i}", number)])
            remote.put_documents([record(f"{i}", 3)])
            replica.refresh()
            assert replica.n_pages() == 3 * (i + 1)
    over.set()
    thread.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 2


def test_two_appends_at_once_both_land(remote: PageStore, place: Location) -> None:
    """What LanceDB itself guarantees there, without any lock of ours."""
    others = [PageStore.open(place) for _ in range(2)]
    start = threading.Barrier(len(others))
    version = remote._pages.version

    def append(store: PageStore, name: str) -> None:
        start.wait()
        for i in range(5):
            store.add_pages([encoded(f"{name}{i}")])

    threads = [threading.Thread(target=append, args=each) for each in zip(others, "ab", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    remote.refresh()
    assert remote._pages.version == version + 10  # none took the number of another
    ids = remote._pages.to_arrow()["doc_id"].to_pylist()
    assert sorted(ids) == [f"{name}{i}" for name in "ab" for i in range(5)]


def test_a_version_is_written_once(bucket: Bucket, remote: PageStore) -> None:
    """LanceDB puts each version under the condition that it is not there, so the server refuses a second."""
    remote.add_pages([encoded("a")])
    objects = open_prefix(bucket.address, bucket.options)
    manifests = [key for key in bucket.keys("") if key.endswith(".manifest")]
    before = {key: bucket.get(key) for key in manifests}
    for key in manifests:
        with pytest.raises(AlreadyExistsError):
            objects.put(key, b"another", mode="create")
    assert {key: bucket.get(key) for key in manifests} == before
    assert len(set(manifests)) >= 4


def _rank(store: PageStore, prefilter: str) -> list[tuple[str, float]]:
    [ranking] = search(store, numpy_encoder(), [TOPICS["heron"]], prefilter=prefilter, n_candidates=2, k=2)
    return [(hit.ref.page_id, hit.maxsim) for hit in ranking.hits]


def test_another_machine_takes_signatures_instead_of_making_them(
    place: Location, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ingested(place, folder)
    open_signatures(store, "bits")
    with store.writing():
        prepare(store)
    expected = _rank(store, "binary")
    monkeypatch.setenv("COLRET_CACHE", str(tmp_path / "another machine"))
    with monkeypatch.context() as patch:
        patch.setattr(colret.signatures, "signature", None)  # nothing could be made
        other = PageStore.open(place)
        assert _rank(other, "binary") == expected
    assert list((other.side_files / FOLDER).glob("bits-*"))
    write_pdf(folder / "orbit.pdf", TOPICS["orbit"])
    ingest([folder], other, numpy_encoder())
    keys = [path for path in other.folder.sizes(FOLDER) if "bits-" in path]  # type: ignore[attr-defined]
    assert len(keys) == 6  # two segments of three files: the second one's author is another machine
    assert _rank(PageStore.open(place), "binary") == expected


def test_a_large_object_comes_in_parts(
    bucket: Bucket, remote: PageStore, traffic: Traffic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the time of a request is bounded, however much it brings."""
    monkeypatch.setattr(colret.remote_folder, "_CHUNK_BYTES", 1000)
    folder = remote.folder
    assert isinstance(folder, RemoteFolder)
    for size in (1, 999, 1000, 1001, 3500):
        content = np.random.default_rng(size).bytes(size)
        bucket.put("some/index/signatures/x", content)
        traffic.requests.clear()
        assert folder.download("signatures/x", tmp_path / "x")
        assert (tmp_path / "x").read_bytes() == content
        assert len(traffic.gets()) == -(-size // 1000)
    assert not folder.download("signatures/y", tmp_path / "y")


@contextlib.contextmanager
def counted_fetches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Note how many pages are fetched from the database at a time."""
    fetch = PageStore._fetch
    counts: list[int] = []

    def counted(self: PageStore, row_ids: Int64) -> NDArray[np.uint8]:
        counts.append(len(row_ids))
        return fetch(self, row_ids)

    with monkeypatch.context() as patch:
        patch.setattr(PageStore, "_fetch", counted)
        yield counts


def test_codes_are_fetched_once_and_at_once(
    remote: PageStore, place: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.add_pages([encoded("a", number, number) for number in range(1, 9)])
    remote.put_documents([record("a", 8)])
    everything = np.arange(8)
    with counted_fetches(monkeypatch) as counts:
        cold = remote.vectors(everything[:5])
        warm = remote.vectors(everything[:5])
        some = PageStore.open(place).vectors(everything[::-1])  # another process shares what was copied
        assert counts == [5, 3]
        assert np.array_equal(cold.values, warm.values)
        local = PageStore.create(tmp_path / "local", SETTINGS)
        local.add_pages([encoded("a", number, number) for number in range(1, 9)])
        local.put_documents([record("a", 8)])
        assert np.array_equal(some.values, local.vectors(everything[::-1]).values)
        assert np.array_equal(some.offsets, local.vectors(everything[::-1]).offsets)
        [copy] = (tmp_path / "cache").glob("*/codes/0/4")
        copy.write_bytes(b"x" * copy.stat().st_size)  # as a power cut may leave it
        counts.clear()
        assert np.array_equal(remote.vectors(everything[:5]).values, cold.values)
        assert counts == [1]


def test_an_index_made_anew_at_the_same_address_has_its_own_copies(bucket: Bucket, place: Location) -> None:
    def made(created: str, name: str) -> PageStore:
        store = PageStore.create(place, dataclasses.replace(SETTINGS, created=created))
        store.add_pages([encoded(name)])
        store.put_documents([record(name)])
        return store

    first = made("2026-01-01", "a")
    before = first.vectors(np.array([0])).values.tobytes()
    for key in bucket.keys(""):
        bucket.delete(key)
    again = made("2026-01-02", "b")
    assert again.vectors(np.array([0])).values.tobytes() != before
    assert first.side_files != again.side_files


def test_lancedb_alone_reads_it(remote: PageStore, place: Location) -> None:
    remote.add_pages([encoded("a")])
    database = lancedb.connect(place.address, storage_options=dict(place.options))
    assert database.open_table("pages").count_rows() == 1
    kept = database.open_table("settings").to_arrow().to_pylist()
    assert place.options["aws_secret_access_key"] not in json.dumps(kept)
