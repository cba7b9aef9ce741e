"""Where this machine keeps copies of what is in object stores. All of it may be deleted at any time."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Final

from colret.errors import ColretError

FOLDER: Final = "COLRET_CACHE"
"""The variable that names another folder."""

BYTES: Final = "COLRET_CACHE_BYTES"
"""The variable that says how large the copies of pages' vectors may grow together."""

DEFAULT_BYTES: Final = 4_000_000_000


def cache_root() -> Path:
    """Return the folder of all copies, which may not be there yet.

    Raises:
        ColretError: If no variable says where, and the user has no home.
    """
    base = os.environ.get(FOLDER)
    try:
        return Path(base).expanduser() if base else Path(_usual_folder()).expanduser() / "colret"
    except RuntimeError as error:
        raise ColretError(FOLDER, "is not set, and this user has no home folder", "set it to a folder") from error


def _usual_folder() -> str:
    if os.name == "nt":
        return os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    if sys.platform == "darwin":
        return "~/Library/Caches"
    return os.environ.get("XDG_CACHE_HOME") or "~/.cache"


def cache_of(address: str, created: str) -> Path:
    """Return the folder for copies of the index that is at an address and was created then."""
    return cache_root() / hashlib.sha256(f"{address}\n{created}".encode()).hexdigest()[:24]


def most_bytes() -> int:
    """Return how large the copies of pages' vectors may grow.

    Raises:
        ColretError: If the variable is no number.
    """
    value = os.environ.get(BYTES) or str(DEFAULT_BYTES)
    if not value.isdecimal():
        raise ColretError(BYTES, "is not a number of bytes", f"set it to one, such as {DEFAULT_BYTES}")
    return int(value)
