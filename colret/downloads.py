"""One object on its way to this machine, and the room that it takes there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from colret.addresses import Address
from colret.documents import SourceFile
from colret.errors import ColretError, DocumentError
from colret.objects import Downloaded, download
from colret.scratch import no_room


class Room:
    """Bytes that copies may take.

    Args:
        n_bytes: At most.
    """

    def __init__(self, n_bytes: int) -> None:
        self.bytes = n_bytes
        self.held = 0

    def has_for(self, n_bytes: int) -> bool:
        """Return whether so many more may be taken."""
        return self.held + n_bytes <= self.bytes


class Copy:
    """A copy of an object: on its way, there, or not to be had.

    Args:
        source: The object.
        path: Where to make the copy; None: it is only hashed.
        room: What it takes its bytes from.
    """

    def __init__(self, source: SourceFile, path: Path | None, room: Room) -> None:
        self.source = source
        self.path = path
        self.result: Downloaded | ColretError | None = None
        self.stop, self.done = threading.Event(), threading.Event()
        self.takers: list[Callable[[], None]] = []
        self._room, self._held = room, 0

    def hold(self) -> None:
        """Take the room that it needs."""
        self._held = self.source.size if self.path is not None else 0
        self._room.held += self._held

    def make(self) -> None:
        """Download the object."""
        address = self.source.path
        assert isinstance(address, Address)
        try:
            with self.path.open("wb") if self.path is not None else nullcontext() as to:
                self.result = download(address, to, self.stop)
        except DocumentError as error:
            self.result = error
        except OSError as error:
            self.result = no_room(error)
        except Exception as error:  # of no known kind; whoever waits for the copy must not wait for ever
            problem = f"cannot be read ({type(error).__name__})"
            self.result = DocumentError(address, problem, "try again", reason="unreadable")

    def delete(self) -> None:
        """Give its room back."""
        self._room.held -= self._held
        self._held = 0
        if self.path is not None:
            self.path.unlink(missing_ok=True)
