"""Find the documents below folders, and tell what is there no more. No file is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from colret.documents import (
    SourceFile,
    absolute_path,
    check_file,
    display_path,
    is_archive,
    is_supported,
    path_on_disk,
    unsupported,
    unusable,
)
from colret.errors import DocumentError

_RACY: Final = -1  # in place of the time of a file that may change once more without a sign of it
_FINE_TICK_NS, _COARSE_TICK_NS = 50_000_000, 2_000_000_000  # of file systems' clocks, at the most


class Found(NamedTuple):
    """What there is below the paths that were given."""

    sources: list[SourceFile]  # sorted by path
    unusable: dict[str, DocumentError]  # by path as text: what has a document's name, and folders, that cannot be read
    problems: list[DocumentError]  # given paths that are missing or no documents
    roots: tuple[Path, ...]  # the paths that were given, absolute
    listed: set[Path]  # folders that were looked into


def find_documents(paths: Sequence[Path]) -> Found:
    """Find the documents under ``paths``, each once.

    Folders are searched to any depth. Hidden entries (a leading dot, or the ``~$`` of Word's
    lock files) and folders that are symbolic links are left out of the search, so that it
    ends; a path given by name is taken whatever it is called. No file is opened.

    Args:
        paths: Files and folders, overlapping or not.
    """
    search = _Search()
    roots = [absolute_path(path) for path in paths]
    for root in roots:
        search.root(root)
    sources = [search.sources[path] for path in sorted(search.sources, key=os.fsencode)]
    return Found(sources, search.unusable, search.problems, tuple(roots), search.listed)


def is_below(path: Path, roots: Sequence[Path]) -> bool:
    """Return whether ``path`` is one of ``roots`` or below one."""
    return any(root == path or root in path.parents for root in roots)


def is_gone(path: Path) -> bool:
    """Return whether no file has that path; a refusal to tell is no sign of that."""
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
    path = path_on_disk(text)
    if not is_gone(path):
        return False
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
    """Return the time by which a file, hashed now, is known again; ``_RACY`` where its clock has not ticked since.

    It could change once more within the tick, to as many bytes, and look the same; so it is
    hashed again next time, as git does. Whole milliseconds are taken for a sign of a coarse clock.
    """
    tick = _FINE_TICK_NS if mtime_ns % 1_000_000 else _COARSE_TICK_NS
    return _RACY if abs(now_ns - mtime_ns) < tick else mtime_ns


class _Search:
    """A walk that notes what it finds."""

    def __init__(self) -> None:
        self.sources: dict[Path, SourceFile] = {}
        self.unusable: dict[str, DocumentError] = {}
        self.problems: list[DocumentError] = []
        self.listed: set[Path] = set()
        self._pending: list[Path] = []

    def root(self, root: Path) -> None:
        """Take a path that was given."""
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
            self.sources[path] = SourceFile(path, status.st_size, status.st_mtime_ns)
