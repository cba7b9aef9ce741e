"""A worker does its jobs in order, tells its failure to everybody, and can be left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret.worker import Stopped, Worker


@given(values=st.lists(st.integers(), max_size=30), waiting=st.integers(1, 3))
def test_jobs_are_done_in_order_and_all_of_them(values: list[int], waiting: int) -> None:
    done: list[int] = []
    with Worker("test", waiting=waiting) as worker:
        for value in values:
            worker.put(lambda value=value: done.append(value))  # type: ignore[misc]
    assert done == values


def test_a_call_gives_the_result_of_its_job() -> None:
    with Worker("test", waiting=1) as worker:
        assert worker.call(lambda: threading.current_thread().name) == "test"


class Failure(BaseException):
    """What even a careless ``except Exception`` lets pass."""


def test_a_failure_is_raised_to_whoever_comes_next_and_ends_the_worker() -> None:
    done = []

    def fail() -> None:
        raise Failure

    with pytest.raises(Failure), Worker("test", waiting=5) as worker:  # noqa: PT012
        worker.put(fail)
        worker.put(lambda: done.append("after"))
        worker.call(lambda: done.append("later"))
    with pytest.raises(Failure):
        worker.put(lambda: None)
    assert done == []


def test_a_failure_of_the_last_job_is_not_lost() -> None:
    def fail() -> None:
        raise Failure

    with pytest.raises(Failure), Worker("test", waiting=1) as worker:
        worker.put(fail)


def test_its_context_belongs_to_the_thread_and_outlasts_the_jobs() -> None:
    events = []

    @contextmanager
    def context() -> Iterator[None]:
        events.append(("enter", threading.current_thread().name))
        yield
        events.append(("leave", threading.current_thread().name))

    with Worker("test", waiting=2, context=context()) as worker:
        worker.put(lambda: events.append(("job", "")))
    assert events == [("enter", "test"), ("job", ""), ("leave", "test")]


def test_a_context_that_cannot_be_entered_is_a_failure() -> None:
    @contextmanager
    def context() -> Iterator[None]:
        raise Failure
        yield

    with pytest.raises(Failure), Worker("test", waiting=1, context=context()) as worker:
        worker.call(lambda: None)


def test_leaving_by_an_exception_waits_for_no_job_and_begins_none() -> None:
    begun, release, left = threading.Event(), threading.Event(), threading.Event()
    done = []

    @contextmanager
    def context() -> Iterator[None]:
        yield
        left.set()

    def long_job() -> None:
        begun.set()
        release.wait()
        done.append("long")

    with pytest.raises(Failure), Worker("test", waiting=2, context=context()) as worker:  # noqa: PT012
        worker.put(long_job)
        worker.put(lambda: done.append("next"))
        begun.wait()
        raise Failure
    assert done == []
    assert not left.is_set()  # what the context guards is still in use
    with pytest.raises(Stopped):
        worker.put(lambda: None)
    release.set()
    assert left.wait(60)
    assert done == ["long"]


def test_an_interruption_while_leaving_ends_the_worker_too() -> None:
    begun, release, left = threading.Event(), threading.Event(), threading.Event()
    done = []

    @contextmanager
    def context() -> Iterator[None]:
        yield
        left.set()

    class Interrupted(Worker):
        def finish(self, *, meanwhile: Callable[[], None] = lambda: None) -> None:
            raise Failure

    def long_job() -> None:
        begun.set()
        release.wait()

    with pytest.raises(Failure), Interrupted("test", waiting=2, context=context()) as worker:  # noqa: PT012
        worker.put(long_job)
        worker.put(lambda: done.append("next"))
        begun.wait()
    release.set()
    assert left.wait(60)
    assert done == []


def test_whoever_waits_can_do_something_meanwhile() -> None:
    ticks = []
    enough = threading.Event()

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 3:
            enough.set()

    with Worker("test", waiting=1) as worker:
        worker.call(enough.wait, meanwhile=tick)
    assert len(ticks) >= 3
