"""The right to write to an index in an object store: one writer has it, and a dead one loses it."""

from __future__ import annotations

import threading
import time

import pytest
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

import colret.lease
from colret.errors import BusyError, StoreError
from colret.lease import LOCK, Lease
from colret.object_storage import open_prefix
from tests.object_store import Bucket, Traffic

SECONDS = 1.5


@pytest.fixture
def objects(bucket: Bucket) -> ObjectStore:
    return open_prefix(f"{bucket.address}/index", bucket.options)


def abandoned(objects: ObjectStore) -> Lease:
    """Return a lease that nobody renews any more, as a killed process leaves it."""
    lease = Lease(objects, "index", seconds=SECONDS)
    lease.acquire()
    lease._over.set()
    lease._beating.join()
    return lease


def test_there_is_one_writer_at_a_time(objects: ObjectStore) -> None:
    first = Lease(objects, "index", seconds=SECONDS)
    first.acquire()
    with pytest.raises(BusyError, match="another colret is writing"):
        Lease(objects, "index", seconds=SECONDS).acquire()
    first.check()
    first.release()
    second = Lease(objects, "index", seconds=SECONDS)
    second.acquire()
    second.check()
    second.release()


def test_a_lease_is_kept_by_renewing_it(objects: ObjectStore) -> None:
    lease = Lease(objects, "index", seconds=SECONDS)
    lease.acquire()
    end = time.monotonic() + 3 * SECONDS
    while time.monotonic() < end:
        lease.check()
        with pytest.raises(BusyError):
            Lease(objects, "index", seconds=SECONDS).acquire()
        time.sleep(0.3)
    lease.release()


def test_of_many_takers_of_a_dead_writers_lease_one_wins(objects: ObjectStore) -> None:
    dead = abandoned(objects)
    with pytest.raises(BusyError):  # it may be alive
        Lease(objects, "index", seconds=SECONDS).acquire()
    time.sleep(SECONDS + 2.1)  # times are told in whole seconds
    takers = [Lease(objects, "index", seconds=60) for _ in range(6)]
    start = threading.Barrier(len(takers))
    won = []

    def take(lease: Lease) -> None:
        start.wait()
        try:
            lease.acquire()
            won.append(lease)
        except BusyError:
            pass

    threads = [threading.Thread(target=take, args=(taker,)) for taker in takers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = won
    winner.check()
    with pytest.raises(StoreError, match="lost the right to write"):
        dead.check()
    dead.release()  # gives back nothing that is not its own
    winner.check()
    with pytest.raises(BusyError):
        Lease(objects, "index", seconds=60).acquire()
    winner.release()


def test_a_writer_notices_that_its_lease_is_gone(objects: ObjectStore) -> None:
    lease = Lease(objects, "index", seconds=SECONDS)
    lease.acquire()
    objects.delete(LOCK)  # as whoever removes the index does
    time.sleep(SECONDS)
    with pytest.raises(StoreError, match="run the same command again"):
        lease.check()
    assert lease._lost  # before its time was over
    lease.release()


def test_a_writer_that_cannot_renew_its_lease_stops_before_another_may_take_it(objects: ObjectStore) -> None:
    lease = abandoned(objects)
    lease.check()
    time.sleep(SECONDS)
    with pytest.raises(StoreError, match="could not renew it in time"):
        lease.check()


def test_a_put_whose_answer_was_lost_is_known_again(objects: ObjectStore) -> None:
    lease = abandoned(objects)
    before = lease._version
    lease._put(before)
    lease._version = before  # nobody told
    assert lease._renew_if_mine()
    lease._put(lease._version)
    other = Lease(objects, "index", seconds=SECONDS)
    assert not other._renew_if_mine()


def test_a_put_whose_answer_was_lost_extends_nothing(objects: ObjectStore, traffic: Traffic) -> None:
    """It may have come to the server long before it was found there."""
    lease = abandoned(objects)
    before, valid_until = lease._version, lease._valid_until
    lease._put(before)
    lease._version, lease._valid_until = before, valid_until  # nobody told
    traffic.meddle = lambda request: "503 Slow Down" if request.method == "PUT" else None
    with pytest.raises(BaseError):
        lease._renew_if_mine()
    assert lease._valid_until == valid_until


@pytest.mark.parametrize("content", [b"by another program", b"x nan", b" "])
def test_what_is_no_lock_of_ours_is_one_until_it_is_old(
    content: bytes, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.lease, "LEASE_SECONDS", 0.5)
    objects.put(LOCK, content)
    lease = Lease(objects, "index", seconds=SECONDS)
    with pytest.raises(BusyError):
        lease.acquire()
    time.sleep(2.6)
    lease.acquire()
    lease.check()
    lease.release()
