"""Follow folders: tell when something in them has changed and come to rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from colret.documents import absolute_path, is_archive, is_supported
from colret.errors import DocumentError

SETTLE_SECONDS: Final = 1.0  # without a change, after which a file is taken for written
STARVED_SECONDS: Final = 30.0  # of changes without such a pause, after which there is no more waiting
RETRY_SECONDS: Final = 5.0  # before a sync that asked for another
RESYNC_SECONDS: Final = 300.0  # between syncs without a change: network folders tell nothing
_TICK_MS = 250  # between looks at the clock


def follow(
    folders: Sequence[Path], sync: Callable[[], bool], *, ignore: Path | None, stop: threading.Event | None = None
) -> None:
    """Call ``sync`` at once, and each time that something below ``folders`` has changed; return on ``stop``.

    Changes during a sync make another one due. A folder that is moved away is looked for until
    something has its name again.

    Args:
        folders: Folders, to any depth.
        sync: Brings an index up to date; returns whether to be called again soon, though nothing
            may change.
        ignore: A folder whose changes do not count: that of the index, if it is in one.
        stop: Ends it within a moment, unless a sync is under way.

    Raises:
        DocumentError: If the system cannot watch a folder.
    """
    stop = stop or threading.Event()
    roots = [absolute_path(folder) for folder in folders]
    clock = _Clock()
    while not stop.is_set():
        watched = _identities(roots)
        for paths in _changes([root for root in roots if root.is_dir()], stop):
            clock.tick(any(_concerns(path, roots, ignore and absolute_path(ignore)) for path in paths))
            if clock.is_due():
                clock.synced(again=sync())
            if _identities(roots) != watched:  # what is watched is not what has that name now
                clock.tick(True)
                break


class _Clock:
    """When the next sync is due."""

    def __init__(self) -> None:
        self._first = self._last = -STARVED_SECONDS  # changes since the last sync; the first sync is due at once
        self._changed = True
        self._next = 0.0

    def tick(self, changed: bool) -> None:
        """Note whether something has changed by now."""
        if changed:
            self._last = time.monotonic()
            self._first = self._first if self._changed else self._last
            self._changed = True

    def is_due(self) -> bool:
        now = time.monotonic()
        rests = now - self._last >= SETTLE_SECONDS or now - self._first >= STARVED_SECONDS
        return (self._changed and rests) or (not self._changed and now >= self._next)

    def synced(self, *, again: bool) -> None:
        self._changed = False
        self._next = time.monotonic() + (RETRY_SECONDS if again else RESYNC_SECONDS)


def _changes(folders: Sequence[Path], stop: threading.Event) -> Iterable[list[Path]]:
    """Yield the paths that changed, every moment, though there be none.

    Raises:
        DocumentError: If the system cannot watch a folder.
    """
    import watchfiles

    if not folders:
        stop.wait(_TICK_MS / 1000)
        yield []
        return
    try:
        for changes in watchfiles.watch(
            *folders,
            watch_filter=None,
            debounce=_TICK_MS,
            rust_timeout=_TICK_MS,
            yield_on_timeout=True,
            stop_event=stop,
            ignore_permission_denied=True,
        ):
            yield [Path(path) for _, path in changes]
    except FileNotFoundError:  # moved away a moment ago
        stop.wait(_TICK_MS / 1000)
        yield []
    except (OSError, RuntimeError) as error:
        remedy = "raise the limit of watched files, or set WATCHFILES_FORCE_POLLING=1"
        raise DocumentError(folders[0], f"cannot be watched ({error})", remedy, reason="unreadable") from error


def _identities(folders: Sequence[Path]) -> list[tuple[int, int] | None]:
    """Return which folders have these names at the moment."""
    return [_identity(folder) for folder in folders]


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _concerns(path: Path, roots: Sequence[Path], ignore: Path | None) -> bool:
    """Return whether a change of ``path`` may be one of a document, or of a folder that holds some."""
    if ignore in (path, *path.parents):
        return False
    for root in roots:
        if path == root or root in path.parents:
            if any(part.startswith((".", "~$")) for part in path.relative_to(root).parts):
                return False
            return is_supported(path) or is_archive(path) or not path.is_file()
    return False
