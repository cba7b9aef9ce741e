"""What an index needs of the place it is in besides LanceDB's tables: here, of an object store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colret.cache_folder import cache_of
from colret.lease import Lease
from colret.location import Location
from colret.object_storage import PATIENCE, open_prefix, requesting

_CHUNK_BYTES = 8_000_000  # of an object, that are asked for at a time


class RemoteFolder:
    """A prefix in an object store. See ``index_folder.IndexFolder``; all methods raise ``StoreError``."""

    # A writer that lost its lease without noticing yet may still be writing files.
    is_private = False

    def __init__(self, location: Location) -> None:
        self.location = location
        self.uri = location.address
        self.options = {**PATIENCE, **location.options}
        self._lease: Lease | None = None
        with requesting(location):
            self._objects = open_prefix(location.address, self.options)

    def entries(self) -> list[str] | None:
        """Return the names below the prefix, sorted; None if there are none."""
        with requesting(self.location):
            listed = self._objects.list_with_delimiter()
        return sorted([*listed["common_prefixes"], *(each["path"] for each in listed["objects"])]) or None

    def files(self) -> Iterator[str]:
        """Yield the paths of all objects below the prefix."""
        with requesting(self.location):
            for batch in self._objects.list():
                yield from (each["path"] for each in batch)

    def check_whole(self) -> None:
        """Do nothing: an object is written whole or not at all."""

    def make(self) -> None:
        """Do nothing: a prefix is there as soon as an object has it."""

    def drop(self, name: str) -> None:
        """Delete all objects below a name."""
        paths = list(self.sizes(name))
        if paths:
            with requesting(self.location):
                self._objects.delete(paths)

    def has(self, name: str) -> bool:
        """Tell whether there is an object below a name."""
        with requesting(self.location):
            listed = self._objects.list_with_delimiter(name)
        return bool(listed["common_prefixes"] or listed["objects"])

    def n_bytes(self, name: str = "") -> int:
        """Return the bytes of all objects below a name; by default of all."""
        return sum(self.sizes(name).values())

    def side_files(self, created: str) -> Path:
        """Return the local folder for copies of that index."""
        return cache_of(self.location.address, created)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Be the index's one writer meanwhile; a process that dies is it for a minute more.

        Raises:
            BusyError: If another process is writing.
            StoreError: If the object store refuses.
        """
        lease = Lease(self._objects, self.location)
        lease.acquire()
        self._lease = lease
        try:
            yield
        finally:
            self._lease = None
            lease.release()

    def check_writer(self) -> None:
        """Refuse to write if this process was the index's writer and may be it no more."""
        if self._lease is not None:
            self._lease.check()

    def flush(self, since_ns: int) -> None:
        """Do nothing: what an object store has acknowledged is kept."""

    def sweep(self) -> None:
        """Do nothing: what is begun has no name yet."""

    def check_writable(self) -> None:
        """Write an object and delete it again."""
        name = "writer.probe"
        with requesting(self.location):
            self._objects.put(name, b"")
            self._objects.delete(name)

    def sizes(self, name: str = "") -> dict[str, int]:
        """Return the bytes of each object below a name, by its path."""
        with requesting(self.location):
            return {each["path"]: each["size"] for batch in self._objects.list(name or None) for each in batch}

    def download(self, path: str, file: Path) -> bool:
        """Write what an object holds, which is something, into a new file; return whether it is there.

        It comes in parts, as a single request may take no longer than others.

        Raises:
            OSError: If the file cannot be written.
        """
        with file.open("wb") as target:
            size = 1  # until the first answer says it
            while (start := target.tell()) < size:
                with requesting(self.location):
                    try:
                        part = self._objects.get(path, options={"range": (start, start + _CHUNK_BYTES)})
                    except FileNotFoundError:
                        return False
                    size = part.meta["size"]
                    content = part.bytes()
                target.write(content)
        return True

    def upload(self, path: str, file: Path) -> None:
        """Write an object with what a file holds.

        Raises:
            OSError: If the file cannot be read.
        """
        with file.open("rb") as source, requesting(self.location):
            self._objects.put(path, source)
