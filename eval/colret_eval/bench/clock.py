"""Time and memory of this process, and percentiles of times."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

Item = TypeVar("Item")


class Elapsed(NamedTuple):
    """Seconds between two moments."""

    wall: float
    cpu: float  # of all threads of the process


class Stopwatch:
    """Started when made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def elapsed(self) -> Elapsed:
        """Return the seconds since it was made."""
        return Elapsed(time.perf_counter() - self._wall, time.process_time() - self._cpu)


class TimedIterator(Iterator[Item]):
    """Passes items on and counts the seconds that making them took, which are not the taker's."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self.wall = 0.0

    def __next__(self) -> Item:
        started = time.perf_counter()
        try:
            return next(self._items)
        finally:
            self.wall += time.perf_counter() - started


def milliseconds(times: Sequence[Elapsed]) -> dict[str, float]:
    """Return p50 and p95 of wall time, and the median of processor time, in ms."""
    wall, cpu = np.array(times).T * 1000
    return {
        "p50_ms": float(np.percentile(wall, 50)),
        "p95_ms": float(np.percentile(wall, 95)),
        "cpu_ms": float(np.median(cpu)),
    }


def peak_memory() -> int:
    """Return the most bytes this process has had resident, pages of mapped files included."""
    status = Path("/proc/self/status")
    if status.is_file():  # VmHWM: ru_maxrss also remembers the parent's, from before exec
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024
    import resource
    import sys

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
