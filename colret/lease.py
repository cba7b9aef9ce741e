"""The right to write to an index in an object store, where no lock dies with its process.

It is an object that one writer after another owns: taken and renewed by conditional puts, so that
of two takers one wins, and given back by another. An owner that stops renewing it has it for
``LEASE_SECONDS`` more, by the clock of the server: no machine's own clock is asked.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from colret.errors import BusyError, StoreError
from colret.object_storage import requesting

if TYPE_CHECKING:
    from obstore.store import ObjectStore

LEASE_SECONDS: Final = 60.0
"""That a writer which is killed blocks others for."""

LOCK: Final = "writer.lock"
CLOCK: Final = "writer.clock"  # written to see what time the server has

_FREE = b"free "  # what the content of a lock that was given back begins with
_RENEWALS = 6  # within the time of a lease, so that some may fail
_RESOLUTION = 1.0  # seconds, of the times that servers tell
_PATIENCE = 2.0  # seconds that giving it back waits for a renewal under way


class Lease:
    """One writer's right to write.

    Args:
        objects: Those of the index.
        index: What messages call it.
        seconds: That it lasts without being renewed.
    """

    def __init__(self, objects: ObjectStore, index: object, *, seconds: float | None = None) -> None:
        self._objects = objects
        self._index = index
        self._seconds = LEASE_SECONDS if seconds is None else seconds
        self._token = uuid.uuid4().hex
        self._n_puts = 0
        self._version: dict[str, str] = {}  # of the lock, as this writer put it
        self._valid_until = 0.0
        self._lost = False
        self._over = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="colret-lease", daemon=True)

    def acquire(self) -> None:
        """Take it, and go on renewing it.

        Raises:
            BusyError: If another writer has it.
            StoreError: If the object store refuses.
        """
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with requesting(self._index):
            try:
                self._put("create")
            except (AlreadyExistsError, PreconditionError):
                if not self._renew_if_mine() and not self._take_over():
                    problem = "another colret is writing to it, or was stopped within the last minute"
                    raise BusyError(self._index, problem, "wait for it to end, then retry") from None
        self._beating.start()

    def check(self) -> None:
        """Refuse to go on once another writer may have it.

        Raises:
            StoreError: If this process did not renew it in time.
        """
        if self._lost or _now() > self._valid_until:
            problem = "this colret lost the right to write to it, as it could not renew it in time"
            raise StoreError(self._index, problem, "run the same command again to go on")

    def release(self) -> None:
        """Give it back; where that fails, it runs out by itself."""
        from obstore.exceptions import BaseError

        self._over.set()
        self._beating.join(_PATIENCE)
        if self._lost or self._beating.is_alive():
            return
        try:
            self._objects.put(LOCK, _FREE + self._token.encode(), mode=self._version)  # type: ignore[arg-type]
        except (BaseError, OSError):
            return

    def _put(self, mode: str | dict[str, str]) -> None:
        """Write the lock; each time another content, as a server's tag may be that of the content alone."""
        began = _now()
        self._n_puts += 1
        content = f"{self._token} {self._n_puts} {self._seconds:g}".encode()
        self._version = _version(self._objects.put(LOCK, content, mode=mode))  # type: ignore[arg-type]
        self._valid_until = began + self._seconds * (1 - 1 / _RENEWALS)

    def _renew_if_mine(self) -> bool:
        """Renew the lock if it is this writer's after all: a put whose answer was lost is made twice.

        When the lost one came to the server is not known, so that it was made extends nothing.
        """
        try:
            found = self._objects.get(LOCK)
        except FileNotFoundError:
            return False
        if not bytes(found.bytes()).startswith(self._token.encode()):
            return False
        self._put(_version(found.meta))
        return True

    def _take_over(self) -> bool:
        """Take a lock that was given back, or whose owner stopped renewing it; return whether that succeeded."""
        from obstore.exceptions import PreconditionError

        try:
            found = self._objects.get(LOCK)
        except FileNotFoundError:
            return False
        content = bytes(found.bytes())
        if content and not content.startswith(_FREE):
            self._objects.put(CLOCK, b"")
            age = (self._objects.head(CLOCK)["last_modified"] - found.meta["last_modified"]).total_seconds()
            if age < _seconds_of(content) + _RESOLUTION:
                return False
        try:
            self._put(_version(found.meta))
        except PreconditionError:
            return self._renew_if_mine()
        return True

    def _beat(self) -> None:
        """Renew it until it is given back, or lost."""
        from obstore.exceptions import BaseError, PreconditionError

        while not self._over.wait(self._seconds / _RENEWALS):
            try:
                self._put(self._version)
            except (PreconditionError, FileNotFoundError):
                try:
                    self._lost = not self._renew_if_mine()
                except (BaseError, OSError):
                    continue
                if self._lost:
                    return
            except (BaseError, OSError):  # it may work next time; if it does not, ``check`` sees the time
                continue


def _seconds_of(content: bytes) -> float:
    """Return how long a lock says that it lasts; of what is no lock of ours, the usual time."""
    try:
        seconds = float(content.split()[-1])
    except (IndexError, ValueError):
        return LEASE_SECONDS
    return seconds if math.isfinite(seconds) else LEASE_SECONDS


def _version(of: Mapping[str, Any]) -> dict[str, str]:
    """Return what a conditional put asks for: a tag, and a number where the store has one."""
    return {name: of[name] for name in ("e_tag", "version") if of.get(name)}


def _now() -> float:
    """Return seconds of a clock that goes on while the machine sleeps, where there is one."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":  # where time.monotonic() stands still then
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()
