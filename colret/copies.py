"""Copies of the objects that somebody looks at, kept as long as the process and a limit let them."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final, NamedTuple

from colret.addresses import Address
from colret.documents import check_name
from colret.objects import download
from colret.scratch import no_room, scratch_folder

MOST_BYTES: Final = 1 << 30
"""Of all copies; the latest is kept whatever its size."""

_PREFIX = "colret-originals-"
_NAME_BYTES = 100  # of a copy's name, which a key may exceed

_lock = threading.Lock()
_copies: OrderedDict[str, _Copy] = OrderedDict()  # by the document's id, the latest used last


class _Copy(NamedTuple):
    path: Path
    size: int  # bytes


def known_copy(doc_id: str) -> Path | None:
    """Return the copy of a document, if there is one."""
    with _lock:
        copy = _copies.get(doc_id)
        if copy is None or not copy.path.exists():
            return None
        _copies.move_to_end(doc_id)
        return copy.path


def make_copy(address: Address) -> tuple[str, Path]:
    """Return the id of the document that an object is, and a copy of it.

    Raises:
        DocumentError: The object is no document, is gone or cannot be read.
        ColretError: There is no place for the copy.
    """
    check_name(address)
    try:
        path = Path(tempfile.mkdtemp(dir=scratch_folder(_PREFIX))) / _name(address)
        try:
            with path.open("wb") as file:
                doc_id, source = download(address, file, threading.Event())
        except BaseException:
            shutil.rmtree(path.parent, ignore_errors=True)
            raise
    except OSError as error:
        raise no_room(error) from error
    _keep(doc_id, _Copy(path, source.size))
    return doc_id, path


def _keep(doc_id: str, copy: _Copy) -> None:
    with _lock:
        old = _copies.pop(doc_id, None)
        dropped = [old] if old else []
        _copies[doc_id] = copy
        while len(_copies) > 1 and sum(each.size for each in _copies.values()) > MOST_BYTES:
            dropped.append(_copies.popitem(last=False)[1])
    for each in dropped:
        shutil.rmtree(each.path.parent, ignore_errors=True)


def _name(address: Address) -> str:
    """Return a name for people to recognise, with the suffix that says what kind of document it is."""
    stem = address.stem.encode()[:_NAME_BYTES].decode(errors="ignore")
    return stem + address.suffix.lower()
