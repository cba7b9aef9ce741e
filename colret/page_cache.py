"""Copies of pages' codes on this machine, as an object store is slower and each request costs.

The codes under a row id never change, so a copy is right for as long as the index is there. Where
an older state of it is put back, its next pages get row ids anew, so each copy says of which page it
is. Several processes share a folder: files appear under their names when they are complete, and what
is read is checked. The files read longest ago are deleted when there are too many bytes.
"""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from colret.types import Int64

FOLDER: Final = "codes"  # below that of an index

_OWN_FILE = re.compile(rf"[0-9a-f]{{24}}/{FOLDER}/[0-9a-f]+/(\.[0-9a-f]{{32}}|[0-9a-f]+)")  # of any index
_CHECKSUM_BYTES = 4
_TOGETHER = 10  # bits of a row id that do not name a folder: 1,024 pages are in one
_LEFT = 0.9  # of the most bytes, after files were deleted
_RECOUNT_SHARE = 1 / 16  # of the most bytes, written between two counts of what others wrote too
_DRAFT_SECONDS = 3600.0  # after which nobody is writing it any more
_TOUCH_SECONDS = 600.0  # a file read more often than that is not marked as read each time


class PageCache:
    """The copies of one index's codes.

    Args:
        folder: Of the index's copies; beside it are those of other indexes, which are counted too.
        most_bytes: That all of them may have together. Each process may exceed it by a sixteenth.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._root = folder.parent
        self._folder = folder / FOLDER
        self._most_bytes = most_bytes
        self._until_recount = 0.0  # bytes that may be written before
        self._counting = threading.Lock()

    def read(
        self,
        row_ids: Int64,
        page_ids: Sequence[str],
        sizes: Int64,
        fetch: Callable[[Int64], NDArray[np.uint8]],
    ) -> NDArray[np.uint8]:
        """Return the codes of pages one after another, (sum of sizes,) uint8; what there is no copy of is copied.

        Args:
            row_ids: (C,) where the index has the pages.
            page_ids: C names of them.
            sizes: (C,) bytes of each one's codes.
            fetch: Returns the same of the row ids that it is given; called at most once.
        """
        flat = np.empty(int(sizes.sum()), np.uint8)
        places = np.split(flat, np.cumsum(sizes)[:-1]) if len(sizes) else []
        missing = []
        for i, (row_id, page_id, place) in enumerate(zip(row_ids.tolist(), page_ids, places, strict=True)):
            found = self.get(row_id, page_id, len(place))
            if found is None:
                missing.append(i)
            else:
                place[:] = found
        if missing:
            fetched = np.split(fetch(row_ids[missing]), np.cumsum(sizes[missing])[:-1])
            for i, codes in zip(missing, fetched, strict=True):
                places[i][:] = codes
                self.put(int(row_ids[i]), page_ids[i], codes)
        return flat

    def get(self, row_id: int, page_id: str, n_bytes: int) -> NDArray[np.uint8] | None:
        """Return the codes of a page, (n_bytes,) uint8; None if there is no sound copy."""
        path = self._path(row_id)
        try:
            with path.open("rb") as file:
                content = file.read()
                read_at = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        codes, checksum = content[:n_bytes], content[n_bytes:]
        if len(codes) != n_bytes or checksum != _checksum(page_id, codes):
            return None
        if time.time() - read_at > _TOUCH_SECONDS:
            with suppress(OSError):
                os.utime(path)
        return np.frombuffer(codes, np.uint8)

    def put(self, row_id: int, page_id: str, codes: NDArray[np.uint8]) -> None:
        """Keep the codes of a page, where there is room; a disk that refuses is no failure."""
        if len(codes) + _CHECKSUM_BYTES > self._most_bytes * _RECOUNT_SHARE:
            return
        path, content = self._path(row_id), codes.tobytes()
        draft = path.with_name(f".{uuid.uuid4().hex}")
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_bytes(content + _checksum(page_id, content))
                os.replace(draft, path)
            except OSError:
                draft.unlink(missing_ok=True)
                raise
            self._count(len(content))

    def _path(self, row_id: int) -> Path:
        return self._folder / f"{row_id >> _TOGETHER:x}" / f"{row_id:x}"

    def _count(self, n_bytes: int) -> None:
        with self._counting:
            self._until_recount -= n_bytes
            if self._until_recount < 0:
                self._make_room()
                self._until_recount = self._most_bytes * _RECOUNT_SHARE

    def _make_room(self) -> None:
        """Delete the files read longest ago, of any index, if all have too many bytes.

        Whatever else there is in the folder, which somebody may have named for more than copies, is left alone.
        """
        files = []
        for path in self._root.glob(f"*/{FOLDER}/*/*"):
            if not _OWN_FILE.fullmatch(path.relative_to(self._root).as_posix()):
                continue
            with suppress(OSError):
                found = path.stat()
                files.append((found.st_mtime, found.st_size, path))
        n_bytes = sum(size for _, size, _ in files)
        excess = n_bytes - self._most_bytes * _LEFT if n_bytes > self._most_bytes else 0
        old = time.time() - _DRAFT_SECONDS
        for read_at, size, path in sorted(files):
            is_draft = path.name.startswith(".")
            if (is_draft and read_at < old) or (not is_draft and excess > 0):
                with suppress(OSError):
                    path.unlink()
                    excess -= size


def _checksum(page_id: str, content: bytes) -> bytes:
    return zlib.crc32(content, zlib.crc32(page_id.encode())).to_bytes(_CHECKSUM_BYTES, "little")
