"""Keep what a long run leaves behind in memory from growing with it."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_MALLOPT: Final = {-8: 2, -1: 1 << 20, -3: 1 << 20}  # M_ARENA_MAX, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_PRIMITIVES: Final = "32"


def bound_memory() -> None:
    """Have this process give memory back that it has done with; it is a little slower for it.

    Pages have as many lengths as there are pages. oneDNN keeps what it has compiled for the last
    1,024 shapes, and glibc's allocator keeps a heap for each of several threads, none of which
    shrinks while anything at its end is in use. oneDNN reads its setting at its first
    computation, so call this before that; where another was chosen, that one stays.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _PRIMITIVES)
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's own
    if mallopt is not None:
        for option, value in _MALLOPT.items():
            mallopt(option, value)
