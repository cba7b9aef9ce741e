"""Segments of signatures in the object store of their index, so that each machine need not make them anew.

Making them reads all codes, which are some ten times as many bytes. As everywhere, they are only
a cache: whoever finds one incomplete or of other pages does without.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from colret.remote_folder import RemoteFolder

FOLDER: Final = "signatures"
FILES: Final = ("bits.npy", "offsets.npy", "row_ids.npy")  # of a segment
DRAFT: Final = ".draft-"


def fetch_segments(remote: RemoteFolder, folder: Path, kind: str) -> None:
    """Copy the segments of a kind into a local folder that are not in it yet, as far as that can be written.

    Raises:
        StoreError: If the object store refuses.
    """
    for name in _complete_segments(remote, kind):
        if (folder / name).exists():
            continue
        draft = folder / f"{DRAFT}{uuid.uuid4().hex}"
        with suppress(OSError):
            draft.mkdir(parents=True)
            try:
                if all(remote.download(f"{FOLDER}/{name}/{file}", draft / file) for file in FILES):
                    os.rename(draft, folder / name)
            finally:
                shutil.rmtree(draft, ignore_errors=True)


def publish_segments(remote: RemoteFolder, folder: Path, kind: str, names: Collection[str]) -> None:
    """Copy segments of a kind from a local folder, and delete the others of that kind that are there.

    Raises:
        StoreError: If the object store refuses.
    """
    there = _complete_segments(remote, kind)
    for name in sorted(set(names) - there):
        with suppress(OSError):  # whoever empties the local folder leaves the making to readers
            for file in FILES:
                remote.upload(f"{FOLDER}/{name}/{file}", folder / name / file)
    for name in there - set(names):
        remote.drop(f"{FOLDER}/{name}")


def _complete_segments(remote: RemoteFolder, kind: str) -> set[str]:
    """Return the names of the segments of a kind that have all their files."""
    found: dict[str, set[str]] = {}
    for path in remote.sizes(FOLDER):
        match path.split("/"):
            case [_, name, file]:
                found.setdefault(name, set()).add(file)
    return {name for name, files in found.items() if name.startswith(f"{kind}-") and files >= set(FILES)}
