"""Copies of objects: few bytes at a time, made ahead, in order, and gone when they were read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest

from colret.documents import SourceFile, document_id
from colret.errors import ColretError, DocumentError
from colret.folders import find_documents
from colret.spool import Identified, Spool, identified
from tests.object_store import Bucket, Request, Traffic

PATIENCE = 30.0
SIZE = 1000


@pytest.fixture
def sources(bucket: Bucket) -> list[SourceFile]:
    """Twelve objects of a thousand bytes each."""
    for number in range(12):
        bucket.put(f"{number:02}.pdf", b"%d" % number * (SIZE // len(str(number))))
    return find_documents([bucket.address], bucket.options).sources


def ids(spool: Spool, sources: list[SourceFile]) -> dict[SourceFile, str]:
    return {each.source: each.doc_id for each in spool.identified(sources)}


def asked(spool: Spool, source: SourceFile, doc_id: str) -> SimpleQueue[Path | ColretError]:
    """Ask for a copy; return where it is told of."""
    told: SimpleQueue[Path | ColretError] = SimpleQueue()
    spool.when_here(source, doc_id, told.put)
    return told


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def held_bytes(spool: Spool) -> int:
    return sum(path.stat().st_size for path in spool._folder.glob("*")) if spool._folder else 0


def test_objects_and_files_are_known_by_their_content(
    bucket: Bucket, sources: list[SourceFile], tmp_path: Path
) -> None:
    file = tmp_path / "same.pdf"
    file.write_bytes(bucket.get("07.pdf"))
    mixed = [SourceFile(file, SIZE, 0), *sources, SourceFile(tmp_path / "missing.pdf", 1, 0)]
    found = {each.source.path: each for each in identified(mixed)}
    assert len(found) == 14
    assert found[file].doc_id == found[sources[7].path].doc_id == document_id(file)
    missing = found[tmp_path / "missing.pdf"].error
    assert missing is not None
    assert missing.reason == "missing"


def test_what_was_hashed_is_not_downloaded_again_while_there_is_room(
    sources: list[SourceFile], traffic: Traffic
) -> None:
    with Spool(kept_bytes=5 * SIZE) as spool:
        known = ids(spool, sources)
        assert held_bytes(spool) <= 5 * SIZE
        assert len(traffic.gets()) == 12
        for source in sources:
            path = asked(spool, source, known[source]).get(timeout=PATIENCE)
            assert isinstance(path, Path)
            assert document_id(path) == known[source]
            spool.release(source)
        assert len(traffic.gets()) == 12 + 7
        assert held_bytes(spool) == 0


def test_copies_ahead_wait_for_room_and_come_in_order(sources: list[SourceFile], traffic: Traffic) -> None:
    with Spool(kept_bytes=0, ahead_bytes=3 * SIZE) as spool:
        known = ids(spool, sources)
        traffic.clear()
        waiting = [asked(spool, source, known[source]) for source in sources]
        for number, (source, told) in enumerate(zip(sources, waiting, strict=True)):
            assert isinstance(told.get(timeout=PATIENCE), Path)
            assert held_bytes(spool) <= 3 * SIZE
            assert len(traffic.gets()) <= number + 3
            spool.release(source)


def test_one_object_may_be_larger_than_the_room(sources: list[SourceFile]) -> None:
    with Spool(kept_bytes=0, ahead_bytes=10) as spool:
        known = ids(spool, sources[:2])
        first, second = (asked(spool, source, known[source]) for source in sources[:2])
        assert isinstance(first.get(timeout=PATIENCE), Path)
        assert second.empty()
        spool.release(sources[0])
        assert isinstance(second.get(timeout=PATIENCE), Path)


def test_downloads_run_side_by_side(sources: list[SourceFile], traffic: Traffic) -> None:
    together = threading.Barrier(4, timeout=PATIENCE)  # broken, and the test with it, if they come one by one

    def meet(request: Request) -> None:
        together.wait()

    traffic.meddle = meet
    assert len(ids(Spool(kept_bytes=0), sources)) == 12


def test_a_change_since_the_hash_is_told(bucket: Bucket, sources: list[SourceFile]) -> None:
    with Spool(kept_bytes=0) as spool:
        known = ids(spool, sources[:1])
        bucket.put("00.pdf", b"x" * SIZE)
        told = asked(spool, sources[0], known[sources[0]]).get(timeout=PATIENCE)
        assert isinstance(told, DocumentError)
        assert told.reason == "changed_while_read"


def test_a_change_since_the_listing_is_hashed_as_it_is(bucket: Bucket, sources: list[SourceFile]) -> None:
    bucket.put("00.pdf", b"longer than before" * 100)
    with Spool() as spool:
        [found] = list(spool.identified(sources[:1]))
        assert found.source.size == 1800
        assert isinstance(asked(spool, found.source, found.doc_id).get(timeout=PATIENCE), Path)


def test_what_is_gone_or_refused_is_told(bucket: Bucket, sources: list[SourceFile], traffic: Traffic) -> None:
    bucket.delete("01.pdf")
    traffic.meddle = lambda request: "403 Forbidden" if request.path.endswith("02.pdf") else None
    reasons = [each.error and each.error.reason for each in identified(sources[:4])]
    assert reasons == [None, "missing", "unreadable", None]
    with Spool() as spool:
        told = asked(spool, sources[1], "").get(timeout=PATIENCE)
        assert isinstance(told, DocumentError)
        assert told.reason == "missing"


def test_what_is_not_wanted_any_more_leaves_nothing_behind(sources: list[SourceFile], traffic: Traffic) -> None:
    with Spool(kept_bytes=0) as spool:
        known = ids(spool, sources)
        go_on = threading.Event()

        def hold(request: Request) -> None:
            go_on.wait(PATIENCE)

        traffic.meddle = hold
        told = [asked(spool, source, known[source]) for source in sources]
        for source in sources:
            spool.release(source)
        go_on.set()
        wait_until(lambda: spool._n_running == 0)
        assert held_bytes(spool) == 0
        assert not any(isinstance(each.get(), Path) for each in told if not each.empty())


def test_a_hash_that_is_left_off_stops(sources: list[SourceFile]) -> None:
    with Spool() as spool:
        hashing = spool.identified(sources)
        assert isinstance(next(hashing), Identified)
        hashing.close()  # type: ignore[attr-defined]
        wait_until(lambda: spool._n_running == 0)
    assert spool._folder is not None
    assert not spool._folder.exists()


def test_a_folder_that_cannot_be_written_is_told(
    sources: list[SourceFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colret.spool.scratch_folder", lambda prefix: tmp_path / "missing")
    with Spool() as spool, pytest.raises(ColretError, match="TMPDIR"):
        list(spool.identified(sources))
