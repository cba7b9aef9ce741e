"""Keep what a long run leaves behind in memory from growing with it."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_PRIMITIVES: Final = "32"


def bound_memory() -> None:
    """Have oneDNN keep what it has compiled for the last few shapes of tensors, not for 1,024.

    Pages have as many lengths as there are pages. oneDNN reads its setting at its first
    computation, so call this before that; where another was chosen, that one stays.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _PRIMITIVES)


def release_memory() -> None:
    """Give freed memory back to the system, where the allocator is glibc's.

    It keeps for each thread what lies between pieces still in use; 64 pages leave some 100 MB
    that way. Takes some 50 ms.
    """
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
