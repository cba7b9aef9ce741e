"""What a process and those it starts take of time, processor and memory."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import psutil

_MAX_GAP = 1.0  # seconds between readings
_FAMILY_SECONDS = 0.5  # between searches for children: each is a walk over all processes


class Usage(NamedTuple):
    """What was taken since the meter was reset, and what is held now."""

    waited: float  # seconds by the clock
    cpu: float  # seconds of processor time, in all processes together
    bytes: int  # resident, in all processes together


class Meter:
    """Measures a process and its children, from one answer of the process to the next."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._children: list[psutil.Process] = []
        self._waited = self._searched = self._cpu_before = 0.0

    def reset(self) -> None:
        """Count from now on."""
        self._waited = self._searched = 0.0
        self._children = []

    def read(self, seconds: float) -> Usage:
        """Return what was taken; nothing, if the process is gone.

        Args:
            seconds: Since the last reading. A gap is counted as a second at most: then its owner
                was stopped (by Ctrl-Z), or the machine asleep.
        """
        cpu, n_bytes = _taken(self._process)
        if self._waited == 0:
            self._cpu_before = cpu
        self._waited += min(seconds, _MAX_GAP)
        if self._waited - self._searched > _FAMILY_SECONDS:
            self._searched = self._waited
            with contextlib.suppress(psutil.Error):
                self._children = self._process.children(recursive=True)
        for child in self._children:
            more_cpu, more_bytes = _taken(child)
            cpu, n_bytes = cpu + more_cpu, n_bytes + more_bytes
        return Usage(self._waited, cpu - self._cpu_before, n_bytes)

    def resident(self) -> int:
        """Return the resident bytes of the process alone."""
        return _taken(self._process)[1]


def _taken(process: psutil.Process) -> tuple[float, int]:
    """Return processor time, that of children which ended included, and resident bytes."""
    try:
        with process.oneshot():
            return sum(process.cpu_times()[:4]), process.memory_info().rss
    except psutil.Error:
        return 0.0, 0
