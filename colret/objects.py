"""Objects as documents: read whole and of one state, known again by size, time and tag.

This goes to ``obstore`` itself. Its fsspec interface, like any, would hide what is needed here, the
state of an object that comes with its bytes and reads that fail if it is another one meanwhile, and
lists through the same calls.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from colret.addresses import Address
from colret.documents import EARLIEST_NS, LATEST_NS, SourceFile, changed_while_read, empty_file, id_of_digest
from colret.errors import DocumentError
from colret.object_storage import PATIENCE, failure, open_prefix

if TYPE_CHECKING:
    import threading

    from obstore import ObjectMeta
    from obstore.store import ObjectStore

MAX_OBJECT_BYTES: Final = 4 << 30
"""Of one document: it has to be copied to this machine."""

PART_BYTES: Final = 16 << 20
"""Asked for at a time, so that the time a request may take does not limit the size of an object."""

_PIECE_BYTES = 1 << 20
_EARLIEST_SECOND, _LATEST_SECOND = EARLIEST_NS // 10**9 + 1, LATEST_NS // 10**9 - 1  # with all of their parts

_FOREIGN: Final = {"s3": ("azure_", "google_"), "gs": ("aws_", "azure_"), "az": ("aws_", "google_")}


class Downloaded(NamedTuple):
    """An object as it was read."""

    doc_id: str
    source: SourceFile  # of the state that was read


def download(address: Address, to: BinaryIO | None, stop: threading.Event) -> Downloaded:
    """Read an object whole, all of it in one state.

    Args:
        address: Of the object.
        to: Takes its bytes; None: they only are hashed.
        stop: Ends it with a ``DocumentError`` at the next piece.

    Raises:
        DocumentError: It is gone (``missing``), cannot be read (``unreadable``), is empty or too
            large, or became another while it was read (``changed_while_read``).
        OSError: ``to`` does not take its bytes.
    """
    digest, n_bytes, source, tag = hashlib.sha256(), 0, None, None
    while source is None or n_bytes < source.size:
        meta, pieces = _part(address, n_bytes, tag)
        now = source_of(address, meta)
        if source is not None and now != source:  # where the server does not mind the tag
            raise changed_while_read(address)
        source, tag, start = now, meta["e_tag"], n_bytes
        check_size(source)
        for piece in pieces:
            if stop.is_set():
                raise DocumentError(address, "was left off", "ingest again", reason="unreadable")
            digest.update(piece)
            n_bytes += len(piece)
            if to is not None:
                to.write(piece)
        if n_bytes == start:
            break
    if n_bytes != source.size:
        raise changed_while_read(address)
    return Downloaded(id_of_digest(digest.hexdigest()), source)


def state_of(address: Address) -> SourceFile | None:
    """Return an object as it is now; None if there is none."""
    import obstore

    try:
        with explained(address):
            return source_of(address, obstore.head(bucket_of(address), address.key))
    except DocumentError as error:
        if error.reason == "missing":
            return None
        raise


def source_of(address: Address, meta: ObjectMeta) -> SourceFile:
    """Return an object as it is listed.

    Its time is exact to the second in some answers of a server and finer in others, and two states may
    share it. So the part below a second is made from its tag, which differs with its content.
    """
    seconds = min(max(int(meta["last_modified"].timestamp()), _EARLIEST_SECOND), _LATEST_SECOND)
    tag = (meta["e_tag"] or "").removeprefix("W/").strip('"')
    part = int.from_bytes(hashlib.sha256(tag.encode()).digest()[:8]) % 10**9 if tag else 0
    return SourceFile(address, meta["size"], seconds * 10**9 + part)


def has_tag(source: SourceFile) -> bool:
    """Return whether the server gave the object a tag, so that no other state of it looks the same."""
    return source.mtime_ns % 10**9 != 0


def check_size(source: SourceFile) -> None:
    """Refuse what is not worth a download.

    Raises:
        DocumentError: The object is empty or too large.
    """
    if source.size == 0:
        raise empty_file(source.path)
    if source.size > MAX_OBJECT_BYTES:
        problem = f"holds more than {MAX_OBJECT_BYTES / 10**9:.1f} GB, and is copied to this machine to be read"
        raise DocumentError(source.path, problem, "split it, or ingest a copy on a disk", reason="too_large")


def _part(address: Address, start: int, tag: str | None) -> tuple[ObjectMeta, Iterator[Any]]:
    """Return the state of an object, and its bytes from ``start`` on in pieces, one part of them."""
    import obstore

    options: Any = {"range": (start, start + PART_BYTES)}
    if tag and not tag.startswith("W/"):  # a weak tag matches nothing
        options["if_match"] = tag
    with explained(address):
        result = obstore.get(bucket_of(address), address.key, options=options)
    return result.meta, _pieces(address, result)


def _pieces(address: Address, result: Any) -> Iterator[Any]:
    with explained(address):
        yield from result.stream(min_chunk_size=_PIECE_BYTES)


def bucket_of(address: Address) -> ObjectStore:
    """Return what opens the bucket; options of another cloud, as an index may need, are left out."""
    cloud = next((cloud for cloud in ("s3", "gs") if address.root.startswith(cloud)), "az")
    options = {k: v for k, v in address.options.items() if not k.lower().startswith(_FOREIGN[cloud])}
    return _opened(address.root, frozenset({**PATIENCE, **options}.items()))


@functools.lru_cache(maxsize=16)
def _opened(root: str, options: frozenset[tuple[str, str]]) -> ObjectStore:
    return open_prefix(root, dict(options))


@contextmanager
def explained(address: Address, *, but: type[Exception] | tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise what obstore raises as a ``DocumentError`` on ``address``."""
    from obstore.exceptions import BaseError, NotFoundError, PreconditionError

    try:
        yield
    except but:
        raise
    except (FileNotFoundError, NotFoundError) as error:
        raise DocumentError(address, "no such object", "check the address", reason="missing") from error
    except PreconditionError as error:
        raise changed_while_read(address) from error
    except (BaseError, OSError, ValueError) as error:
        problem, remedy = failure(str(error))
        raise DocumentError(address, f"cannot be read: {problem}", remedy, reason="unreadable") from None  # no secrets
