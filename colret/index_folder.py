"""What an index needs of the place it is in besides LanceDB's tables: here, of a folder."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from colret.errors import BusyError, StoreError
from colret.lease import LOCK
from colret.location import Location

_MANIFEST: Final = re.compile(r"\d{20}\.manifest")  # the newer, the smaller its number
_MANIFEST_END: Final = b"LANC"

TABLES: Final = ("pages.lance", "documents.lance", "arrays.lance", "settings.lance")
"""Their folders in that of an index."""


class IndexFolder(Protocol):
    """The place of an index, which may not be there yet. Its methods raise the system's errors, or ``StoreError``."""

    location: Location
    uri: str  # as LanceDB takes it
    options: dict[str, str]
    is_private: bool  # nobody can write to it who does not hold the lock

    def entries(self) -> list[str] | None:
        """Return the names in it, sorted; None if it is not there."""

    def files(self) -> Iterator[str]:
        """Yield the paths in it of all that is no folder, with slashes."""

    def check_whole(self) -> None:
        """Refuse tables whose latest state was not written whole, where that can be: LanceDB panics on some."""

    def make(self) -> None:
        """Make it, unless it is there."""

    def drop(self, name: str) -> None:
        """Delete what it has under a name."""

    def has(self, name: str) -> bool:
        """Tell whether it has a folder of that name."""

    def n_bytes(self, name: str = "") -> int:
        """Return the bytes of all files below a name in it; by default of all."""

    def side_files(self, created: str) -> Path:
        """Return the local folder for what is made from the index that was created then."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Be the index's one writer meanwhile."""

    def check_writer(self) -> None:
        """Refuse to write if this process was the index's writer and is it no more."""

    def flush(self, since_ns: int) -> None:
        """Have what was written since then outlast a power cut."""

    def sweep(self) -> None:
        """Delete what killed writers left under temporary names; nobody else may be writing."""


class LocalFolder:
    """A folder of this machine."""

    is_private = True

    def __init__(self, location: Location, path: Path) -> None:
        self.location = location
        # Absolute, so that no name looks like the address of some other kind of database.
        self.uri = os.path.abspath(path)
        self.options: dict[str, str] = {}
        self._path = path
        try:
            self.uri.encode()
        except UnicodeEncodeError as error:
            raise StoreError(location, "its path is not UTF-8, as LanceDB wants it", "name another --index") from error

    def entries(self) -> list[str] | None:
        """Return the names in it, sorted; None if it is not there."""
        return sorted(entry.name for entry in self._path.iterdir()) if self._path.is_dir() else None

    def files(self) -> Iterator[str]:
        """Yield the paths in it of all that is no folder, with slashes; links are not followed."""
        return _files_below(str(self._path))

    def check_whole(self) -> None:
        """Refuse tables whose latest manifest was not written whole, as after a power cut.

        Raises:
            StoreError: If there is one.
        """
        for name in TABLES:
            with suppress(FileNotFoundError, NotADirectoryError):
                names = filter(_MANIFEST.fullmatch, os.listdir(self._path / name / "_versions"))
                latest = min(names, default=None)
                if latest and not (self._path / name / "_versions" / latest).read_bytes().endswith(_MANIFEST_END):
                    problem = f"is damaged: {name}/_versions/{latest} is no manifest"
                    raise StoreError(self.location, problem, "ingest into a new --index, or restore it from a copy")

    def make(self) -> None:
        """Make it, unless it is there.

        Raises:
            StoreError: If a file is.
        """
        if self._path.exists() and not self._path.is_dir():
            raise StoreError(self.location, "is not a folder", "name a new or empty folder as --index")
        self._path.mkdir(parents=True, exist_ok=True)

    def drop(self, name: str) -> None:
        """Delete what it has under a name, as far as that can be deleted."""
        shutil.rmtree(self._path / name, ignore_errors=True)

    def has(self, name: str) -> bool:
        """Tell whether it has a folder of that name."""
        return (self._path / name).is_dir()

    def n_bytes(self, name: str = "") -> int:
        """Return the bytes of all files below a name in it; by default of all."""
        return bytes_below(self._path / name)

    def side_files(self, created: str) -> Path:
        """Return the folder itself."""
        return self._path

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Be the index's one writer meanwhile; the lock dies with the process.

        Raises:
            BusyError: If another process is writing.
            OSError: If the folder cannot be written.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self._path / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            remedy = "wait for it to end, then retry"
            raise BusyError(self.location, "another colret is writing to it", remedy) from error
        try:
            yield
        finally:
            lock.release()

    def check_writer(self) -> None:
        """Do nothing: a lock that a process has is its own until it ends."""

    def flush(self, since_ns: int) -> None:
        """Have the disk keep all files and folders of tables that have changed since then."""
        if os.name != "posix":  # elsewhere a folder cannot be opened
            return
        for name in TABLES:
            for entry in _changed(str(self._path / name), since_ns):
                descriptor = os.open(entry, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)

    def sweep(self) -> None:
        """Delete the files under temporary names that killed writers left; nobody else may be writing."""
        for name in TABLES:
            for file in (self._path / name).rglob(".tmp*"):
                file.unlink(missing_ok=True)


def _changed(folder: str, since_ns: int) -> Iterator[str]:
    """Yield the files and folders below ``folder``, and itself, that have changed since then.

    Thousands of commits leave tens of thousands of files; ``Path.rglob`` takes 2.4 times as long.
    """
    if os.stat(folder).st_mtime_ns >= since_ns:
        yield folder
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _changed(entry.path, since_ns)
            elif entry.stat(follow_symlinks=False).st_mtime_ns >= since_ns:
                yield entry.path


def _files_below(folder: str, prefix: str = "") -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path, f"{prefix}{entry.name}/")
            else:
                yield f"{prefix}{entry.name}"


def bytes_below(path: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # another process may be compacting
            total += file.stat().st_size if file.is_file() else 0
    return total
