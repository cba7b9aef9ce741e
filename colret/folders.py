"""Find the documents below folders and in object storage, and tell what is there no more. None is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from colret.addresses import Address, Place
from colret.documents import (
    EARLIEST_NS,
    LATEST_NS,
    SourceFile,
    check_file,
    display_path,
    is_archive,
    is_supported,
    modified_ns,
    unsupported,
    unusable,
)
from colret.errors import DocumentError
from colret.object_listing import list_documents
from colret.places import absolute_place, place_of

_NO_OPTIONS: Mapping[str, str] = {}
_FINE_TICK_NS, _COARSE_TICK_NS = 50_000_000, 2_000_000_000  # of file systems' clocks, at the most


class Found(NamedTuple):
    """What there is below the paths that were given."""

    sources: list[SourceFile]  # sorted by path
    unusable: dict[str, DocumentError]  # by path as text: what has a document's name, and folders, that cannot be read
    problems: list[DocumentError]  # given paths that are missing or no documents
    roots: tuple[Place, ...]  # the paths that were given, absolute
    listed: set[Place]  # folders that were looked into
    objects: Set[Place] = frozenset()  # what of object storage has a document's name, taken or not


def find_documents(paths: Sequence[str | Place], options: Mapping[str, str] = _NO_OPTIONS) -> Found:
    """Find the documents under ``paths``, each once.

    Folders are searched to any depth. Hidden entries (a leading dot, or the ``~$`` of Word's
    lock files) and folders that are symbolic links are left out of the search, so that it
    ends; a path given by name is taken whatever it is called. No file is opened.

    Args:
        paths: Files, folders and addresses, overlapping or not.
        options: What opens the buckets of the addresses: see ``object_storage``.
    """
    search = _Search()
    for path in paths:
        search.given(path, options)
    sources = [search.sources[path] for path in sorted(search.sources, key=lambda path: os.fsencode(str(path)))]
    return Found(sources, search.unusable, search.problems, tuple(search.roots), search.listed, search.objects)


def is_below(path: Place, roots: Sequence[Place]) -> bool:
    """Return whether ``path`` is one of ``roots`` or below one."""
    return any(root == path or root in path.parents for root in roots)


def is_gone(path: Place, found: Found) -> bool:
    """Return whether no file has that path; a refusal to tell is no sign of that.

    Of objects there is only the listing to tell: what lies outside of it is not gone.
    """
    if isinstance(path, Address):
        unseen = any(display_path(place) in found.unusable for place in path.parents if place not in found.listed)
        return path not in found.objects and not found.listed.isdisjoint(path.parents) and not unseen
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def has_vanished(text: str, found: Found) -> bool:
    """Return whether a file known by ``text`` has gone from a folder that was looked into.

    What lies in a folder that could not be listed, or behind a link that leads nowhere, as on a
    disk that is not mounted, has not vanished.
    """
    path = place_of(text)
    if not is_gone(path, found):
        return False
    if isinstance(path, Address):
        return True
    for folder in path.parents:
        if folder in found.listed:
            return True
        try:
            if not stat.S_ISREG(folder.lstat().st_mode):  # a file where the folder was holds nothing
                return False
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return False
    return False


def lasting_time(mtime_ns: int, now_ns: int) -> int:
    """Return the time to record of a file that was hashed now: its own, by which it is known again.

    Where its clock has not ticked since, it could change once more, to as many bytes, and look the
    same. So its time less a nanosecond is recorded, which it does not have, and it is hashed again
    next time, as git does. Whole milliseconds are taken for a sign of a coarse clock. The latest time
    stands for all later ones, and the earliest for all earlier ones, so they tell nothing either.
    """
    tick = _FINE_TICK_NS if mtime_ns % 1_000_000 else _COARSE_TICK_NS
    shared = mtime_ns in (EARLIEST_NS, LATEST_NS)
    return mtime_ns - 1 if shared or abs(now_ns - mtime_ns) < tick else mtime_ns


class _Search:
    """A walk that notes what it finds."""

    def __init__(self) -> None:
        self.sources: dict[Place, SourceFile] = {}
        self.unusable: dict[str, DocumentError] = {}
        self.problems: list[DocumentError] = []
        self.listed: set[Place] = set()
        self.objects: set[Place] = set()
        self.roots: list[Place] = []
        self._pending: list[Path] = []

    def given(self, path: str | Place, options: Mapping[str, str]) -> None:
        """Take a path that was given."""
        try:
            root = absolute_place(path, options)
            self.roots.append(root)
            if isinstance(root, Address):
                self._take_objects(root)
            else:
                self._root(root)
        except DocumentError as error:
            self.problems.append(error)

    def _take_objects(self, root: Address) -> None:
        listing = list_documents(root)
        self.sources |= listing.sources
        self.unusable |= listing.unusable
        self.listed |= listing.listed
        self.objects |= listing.existing
        self.problems += listing.problems

    def _root(self, root: Path) -> None:
        try:
            mode = root.stat().st_mode
        except (OSError, ValueError) as error:
            self.problems.append(unusable(root, error))
            return
        if stat.S_ISDIR(mode):
            self._pending.append(root)
            while self._pending:
                self._list(self._pending.pop())
        elif is_supported(root) or is_archive(root):
            self._take(root)
        else:
            self.problems.append(unsupported(root))

    def _list(self, folder: Path) -> None:
        if folder in self.listed:
            return
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._visit(entry)
        except OSError as error:
            self.unusable[display_path(folder)] = unusable(folder, error)
        else:
            self.listed.add(folder)

    def _visit(self, entry: os.DirEntry[str]) -> None:
        """Note one entry of a folder: a document, a folder to search, or neither."""
        if entry.name.startswith((".", "~$")):
            return
        path = Path(entry.path)
        try:
            if entry.is_dir(follow_symlinks=False):
                self._pending.append(path)
            elif (is_supported(path) or is_archive(path)) and not entry.is_dir():
                self._take(path)
        except OSError as error:
            self.unusable[display_path(path)] = unusable(path, error)

    def _take(self, path: Path) -> None:
        try:
            status = check_file(path)
        except DocumentError as error:
            self.unusable[display_path(path)] = error
        else:
            self.sources[path] = SourceFile(path, status.st_size, modified_ns(status))
