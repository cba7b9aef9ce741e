"""One thread that asks the index, and the bounded queue before it.

A search costs more alone than with others: what arrives within a few milliseconds, or while the
thread is busy, is answered together. Whoever has stopped waiting is not answered at all.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

How = TypeVar("How", bound=Hashable)
Answer = TypeVar("Answer")
Value = TypeVar("Value")


class BusyError(Exception):
    """So much waits already that nothing more is taken on."""


@dataclass(slots=True)
class _Job:
    """What the thread is to do: a search, which shares a call with others asked alike, or a call of its own."""

    future: Future[Any]
    text: str = ""
    how: Hashable = None
    call: Callable[[], Any] | None = None
    arrived: float = field(default_factory=time.perf_counter)


class Batcher(Generic[How, Answer]):
    """Answers searches of many clients in one thread.

    Args:
        answer: Answers texts that are asked alike, in their order; ValueError: one of them is at fault.
        most: Texts that it is given at a time.
        most_characters: Of these, about.
        gather_seconds: To wait for more of them.
        length: Jobs that may wait.
        observe: Is told the seconds that a job has waited, and of a call of ``answer`` how many texts it had.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[str], How], Sequence[Answer]],
        *,
        most: int,
        most_characters: int,
        gather_seconds: float,
        length: int,
        observe: Callable[[str, float], None] = lambda what, value: None,
    ) -> None:
        self._answer = answer
        self._most, self._most_characters = most, most_characters
        self._gather_seconds = gather_seconds
        self._observe = observe
        self._queue: queue.Queue[_Job | None] = queue.Queue(length)  # None: the end
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="colret-search", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Return how many jobs wait, about."""
        return self._queue.qsize()

    async def ask(self, text: str, how: How) -> Answer:
        """Return the answer to ``text``, which is what it would be alone.

        Raises:
            BusyError: If too many wait.
        """
        answer: Answer = await self._done(_Job(Future(), text=text, how=how))
        return answer

    async def call(self, function: Callable[[], Value]) -> Value:
        """Return what ``function`` returns in the thread.

        Raises:
            BusyError: If too many wait.
        """
        value: Value = await self._done(_Job(Future(), call=function))
        return value

    def close(self) -> None:
        """End the thread after what it is doing; what still waits is cancelled."""
        while self._thread.is_alive():
            for job in self._drained():
                job.future.cancel()
            try:
                self._queue.put_nowait(None)
            except queue.Full:
                continue
            self._thread.join()

    async def _done(self, job: _Job) -> Any:
        try:
            self._queue.put_nowait(job)
        except queue.Full as error:
            raise BusyError from error
        return await asyncio.wrap_future(job.future)  # cancelled with the request, if it has not begun

    def _run(self) -> None:
        while (jobs := self._gathered()) is not None:
            begun = [job for job in jobs if job.future.set_running_or_notify_cancel()]
            now = time.perf_counter()
            for job in begun:
                self._observe("queue", now - job.arrived)
            alike: dict[Hashable, list[_Job]] = {}
            for job in begun:
                if job.call is None:
                    alike.setdefault(job.how, []).append(job)
            for group in alike.values():
                self._search(group)
            for job in begun:
                if job.call is not None:
                    _settle(job.future, job.call)

    def _gathered(self) -> list[_Job] | None:
        """Return the next jobs, waiting for the first and a moment for more; None at the end."""
        first = None if self._closing else self._queue.get()
        if first is None:
            return None
        jobs, end = [first], time.perf_counter() + self._gather_seconds
        while len(jobs) < self._most and sum(len(job.text) for job in jobs) < self._most_characters:
            try:
                job = self._queue.get(timeout=max(end - time.perf_counter(), 0.0))
            except queue.Empty:
                break
            if job is None:
                self._closing = True
                break
            jobs.append(job)
        return jobs

    def _search(self, group: list[_Job]) -> None:
        """Answer jobs that are asked alike.

        Where a text is at fault they are asked one by one, so that the failure is its own; any other would
        be that of each, and asking a store that does not answer once for each keeps everybody waiting.
        """
        how: Any = group[0].how
        self._observe("batch", len(group))
        try:
            answers = list(zip(group, self._answer([job.text for job in group], how), strict=True))
        except Exception as error:
            if isinstance(error, ValueError) and len(group) > 1:
                for job in group:
                    self._search([job])
                return
            for job in group:
                job.future.set_exception(error)
            return
        for job, answer in answers:
            job.future.set_result(answer)

    def _drained(self) -> list[_Job]:
        jobs: list[_Job] = []
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return jobs
            if job is not None:
                jobs.append(job)


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    """Give a future what a call returns or raises."""
    try:
        value = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)
