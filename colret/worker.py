"""A thread that does one job after another, for a caller who can be interrupted while it works."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Final, Self, TypeVar

Result = TypeVar("Result")

TICK: Final = 0.1  # seconds between two looks at what else there is to do, while waiting


class Stopped(Exception):  # noqa: N818 - no error, but the end of the work
    """The worker takes no more jobs: it was told to stop."""


class Worker:
    """Does jobs in a thread of its own, in the order they come; use it in ``with``.

    Leaving the block waits for all of them, unless an exception leaves it: then what has not
    begun is dropped, and what has begun is waited for a moment at most and left to itself after
    that. What a job raises is raised to whoever gives or awaits a job next, and ends the worker.

    Args:
        name: Of the thread.
        waiting: Jobs that may wait to begin; whoever gives another waits too.
        context: Entered in the thread before the first job, left after the last.
        patience: Seconds that a job under way is waited for when an exception leaves the block.
    """

    def __init__(
        self, name: str, *, waiting: int, context: AbstractContextManager[Any] | None = None, patience: float = 0.0
    ) -> None:
        self._jobs: queue.Queue[Callable[[], object] | None] = queue.Queue(waiting)
        self._context = context or nullcontext()
        self._patience = patience
        self._failure: BaseException | None = None
        # A daemon, so that a job left to itself does not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def put(self, job: Callable[[], object] | None, *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Give a job; wait, calling ``meanwhile`` now and then, while too many wait already.

        Raises:
            Stopped: If the worker was told to stop.
            BaseException: What an earlier job raised.
        """
        while True:
            self._check()
            try:
                return self._jobs.put(job, timeout=TICK)
            except queue.Full:
                meanwhile()

    def call(self, job: Callable[[], Result], *, meanwhile: Callable[[], None] = lambda: None) -> Result:
        """Give a job and return its result; raises as ``put`` does."""
        future: Future[Result] = Future()
        self.put(lambda: future.set_result(job()), meanwhile=meanwhile)
        while not future.done():
            self._check()
            try:
                return future.result(timeout=TICK)
            except TimeoutError:
                meanwhile()
        return future.result()

    def finish(self, *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until every job is done and the thread has ended; raises as ``put`` does."""
        if self._thread.is_alive():
            self.put(None, meanwhile=meanwhile)
        while self._thread.is_alive():
            self._thread.join(TICK)
            meanwhile()
        self._check()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.finish()
        finally:  # which may be interrupted too
            self._failure = self._failure or Stopped()
            self._thread.join(self._patience)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            with self._context:
                while self._failure is None:
                    try:
                        job = self._jobs.get(timeout=TICK)
                    except queue.Empty:
                        continue
                    if job is None:
                        return
                    job()
        except BaseException as error:  # whatever it is, the one who waits must hear of it
            self._failure = self._failure or error
