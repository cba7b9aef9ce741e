"""Folders for temporary files that do not outlive their process for long, however it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from colret.errors import ColretError

_LOCK = "lock"  # its file: held as long as the process lives
_YOUNG_SECONDS: Final = 60.0  # a folder may be there before its lock is held

_folders: dict[tuple[int, str], Path] = {}  # by process, for a fork inherits them, and prefix


def scratch_folder(prefix: str) -> Path:
    """Return this process's folder whose name starts with ``prefix``, made at the first call.

    It is deleted when the process ends, or, if that is killed, when another one makes its own.
    """
    pid = os.getpid()
    if (pid, prefix) not in _folders:
        delete_abandoned(Path(tempfile.gettempdir()), prefix)
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        lock = FileLock(folder / _LOCK)
        lock.acquire(blocking=False)
        atexit.register(_leave, folder, lock, pid)
        _folders[pid, prefix] = folder
    return _folders[pid, prefix]


def no_room(error: OSError) -> ColretError:
    """Return the error that tells that nothing can be written there."""
    problem = f"cannot be written to ({error.strerror})"
    return ColretError("the folder for temporary files", problem, "free space there, or set TMPDIR to another folder")


def delete_abandoned(parent: Path, prefix: str) -> None:
    """Delete the scratch folders in ``parent`` whose processes are gone: locks end with their processes."""
    for folder in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError, Timeout):
            if not folder.is_symlink() and time.time() - folder.stat().st_mtime > _YOUNG_SECONDS:
                with FileLock(folder / _LOCK, blocking=False):
                    shutil.rmtree(folder, ignore_errors=True)


def _leave(folder: Path, lock: FileLock, pid: int) -> None:
    if os.getpid() == pid:  # not in a process forked from it
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)
