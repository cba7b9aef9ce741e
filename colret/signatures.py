"""Signatures: a small copy of every page's vectors that prefilters scan, memory-mapped beside the index.

Two kinds, both a bit a dimension. ``bits`` are the signs of every stored vector, an eighth of the
int8 bytes; ``sketch`` those of the means of 32 contiguous blocks of a page's vectors. Both are
made from what the index stores, so the files are a cache: anyone may delete them, and whoever
misses pages in them adds a segment. A segment holds the pages that were missing when it was
made, by the index's stable row ids, and is never changed; a folder under its final name is
complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from colret.packing import pack_signs, unpack_nibbles
from colret.page_table import PageTable
from colret.pooling import block_means
from colret.remote_folder import RemoteFolder
from colret.scoring import float_vectors, hamming_maxsim, maxsim
from colret.shared_segments import DRAFT as _DRAFT
from colret.shared_segments import FOLDER as FOLDER
from colret.shared_segments import fetch_segments, publish_segments
from colret.store import PageStore
from colret.types import Float32, Int64, Multivectors

Kind = Literal["bits", "sketch"]
KINDS: tuple[Kind, ...] = get_args(Kind)

SKETCH_BLOCKS: Final = 32
MANY_SEGMENTS: Final = 8  # after which they are merged

_DRAFT_SECONDS = 3600  # after which nobody is writing it any more
_UNUSABLE = (
    OSError,
    ValueError,
    EOFError,
    IndexError,
    TypeError,
    AttributeError,
    MemoryError,
)  # what reading a damaged segment raises
_BLOCK_PAGES = 256  # pages in memory at a time


class Segment(NamedTuple):
    """Signatures of some pages, and where it lies; None if it could not be written."""

    row_ids: Int64
    pages: Multivectors
    folder: Path | None


class Signatures:
    """The signatures of one kind of every visible page, as of a page table."""

    def __init__(self, kind: Kind, table: PageTable, segments: Sequence[Segment]) -> None:
        self.kind = kind
        self.segments = tuple(segments)
        self._segment = np.full(len(table), -1, np.int32)  # (N,) which segment holds each page
        self._row = np.zeros(len(table), np.int64)  # (N,) and where
        for number, segment in enumerate(self.segments):
            places, held = table.locate(segment.row_ids)
            self._segment[places[held]] = number
            self._row[places[held]] = np.flatnonzero(held)

    def missing(self) -> Int64:
        """Return the places of pages without a signature."""
        return np.flatnonzero(self._segment < 0)

    def n_dead(self) -> int:
        """Return how many signatures are of pages that are gone, or held twice."""
        return sum(len(segment.row_ids) for segment in self.segments) - int((self._segment >= 0).sum())

    def scan(self, query: Float32, places: Int64, *, signs_only: bool = False) -> Float32:
        """Return the MaxSim of a query (T, d) float32 with the signatures of pages, (len(places),) float32.

        Args:
            query: Unit rows.
            places: Pages of the table.
            signs_only: Compare with the signs of the query: faster, and less exact.
        """
        scores = np.empty(len(places), np.float32)
        held_by = self._segment[places]
        for number, segment in enumerate(self.segments):
            mine = np.flatnonzero(held_by == number)
            rows = self._row[places[mine]]
            score = hamming_maxsim if signs_only else maxsim
            if len(mine):
                scores[mine] = score(query, segment.pages, rows=rows)
        return scores

    def take(self, places: Int64) -> Multivectors:
        """Return copies of the signatures of pages, in the order of ``places``."""
        held = [(self.segments[self._segment[place]].pages, int(self._row[place])) for place in places.tolist()]
        bits = [np.asarray(pages.values[pages.offsets[row] : pages.offsets[row + 1]], np.uint8) for pages, row in held]
        return _packed(bits, held[0][0].dim)


def open_signatures(
    store: PageStore, kind: Kind, *, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> Signatures:
    """Return the signatures of every visible page, making those that are missing.

    Where the index's folder cannot be written, they are made in memory, in each process.

    Args:
        store: The index.
        kind: Which.
        on_progress: Called with the pages done and the pages that are to be made.
    """
    made: Signatures = store.derived(_key(kind), lambda: _open(store, kind, on_progress))
    return made


def _key(kind: Kind) -> tuple[str, Kind]:
    return "signatures", kind


def _open(store: PageStore, kind: Kind, on_progress: Callable[[int, int], None]) -> Signatures:
    table = store.page_table()
    found = Signatures(kind, table, _load_all(store, kind))
    if len(found.missing()) and isinstance(store.folder, RemoteFolder):
        fetch_segments(store.folder, store.side_files / FOLDER, kind)
        found = Signatures(kind, table, _load_all(store, kind))
    missing = found.missing()
    if not len(missing):
        return found
    segment = _write(store, kind, missing, lambda: _make(store, kind, missing, on_progress))
    return Signatures(kind, table, [*found.segments, segment])


def merge_segments(store: PageStore, kind: Kind) -> None:
    """Make one segment of many, or of one with many dead pages; only under ``store.writing()``.

    What cannot be read, and drafts that a killed process left, are deleted.
    """
    folder = store.side_files / FOLDER
    found = open_signatures(store, kind)
    readable = {segment.folder for segment in _load_all(store, kind)}
    drafts = [draft for draft in folder.glob(f"{_DRAFT}*") if time.time() - draft.stat().st_mtime > _DRAFT_SECONDS]
    for each in {*folder.glob(_names(kind)), *drafts} - readable:
        _delete(each)
    everything = np.arange(store.n_pages())
    if len(found.segments) <= MANY_SEGMENTS and found.n_dead() <= len(everything) // 2:
        _publish(store, kind, found.segments)
        return
    merged = _write(store, kind, everything, lambda: map(found.take, _chunks(everything)))
    for segment in found.segments:
        if merged.folder and segment.folder and segment.folder != merged.folder:
            _delete(segment.folder)  # readers keep what they have mapped
    store.forget(_key(kind))
    _publish(store, kind, [merged])


def _publish(store: PageStore, kind: Kind, segments: Sequence[Segment]) -> None:
    """Let other machines have them, if the index is in an object store and they are all on disk."""
    names = [segment.folder.name for segment in segments if segment.folder]
    if isinstance(store.folder, RemoteFolder) and len(names) == len(segments):
        publish_segments(store.folder, store.side_files / FOLDER, kind, names)


def signature(pages: Multivectors, kind: Kind) -> Multivectors:
    """Return the signatures of stored pages, in binary."""
    if kind == "bits":
        return _sign_bits(pages)
    bits = [pack_signs(block_means(float_vectors(pages, i), SKETCH_BLOCKS)) for i in range(len(pages))]
    return _packed(bits, pages.dim)


def _sign_bits(pages: Multivectors) -> Multivectors:
    if pages.coding == "binary":
        return pages
    if pages.coding == "int4":
        return _binary(pack_signs(unpack_nibbles(pages.values.view(np.uint8), pages.dim)), pages.offsets, pages.dim)
    return _binary(pack_signs(pages.values), pages.offsets, pages.dim)


def n_signature_vectors(n_vectors: Int64, kind: Kind) -> Int64:
    """Return how many vectors the signature of each page has."""
    return n_vectors if kind == "bits" else np.minimum(n_vectors, SKETCH_BLOCKS)


def _make(
    store: PageStore, kind: Kind, places: Int64, on_progress: Callable[[int, int], None]
) -> Iterator[Multivectors]:
    done = 0
    for block in _chunks(places):
        yield signature(store.vectors(block), kind)
        done += len(block)
        on_progress(done, len(places))


def _packed(bits: Sequence[NDArray[np.uint8]], dim: int) -> Multivectors:
    offsets = np.zeros(len(bits) + 1, np.int64)
    np.cumsum([len(page) for page in bits], out=offsets[1:])
    return _binary(np.concatenate(bits), offsets, dim)


def _binary(bits: NDArray[np.uint8], offsets: Int64, dim: int) -> Multivectors:
    return Multivectors(bits, offsets, np.full(len(offsets) - 1, dim**-0.5, np.float32), "binary", dim)


def _chunks(places: Int64) -> Iterator[Int64]:
    return (places[start : start + _BLOCK_PAGES] for start in range(0, len(places), _BLOCK_PAGES))


# Files


def is_used(store: PageStore, kind: Kind) -> bool:
    """Tell whether signatures of this kind have been made for an index."""
    names = [path.name for path in (store.side_files / FOLDER).glob(f"{kind}-*")]
    if isinstance(store.folder, RemoteFolder):
        names += [path.split("/")[1] for path in store.folder.sizes(FOLDER)]
    return any(name.startswith(f"{kind}-") for name in names)


def _delete(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            draft = path.with_name(f"{_DRAFT}{uuid.uuid4().hex}")
            os.rename(path, draft)  # a final name means a whole segment, also while it goes
            shutil.rmtree(draft, ignore_errors=True)
        else:
            path.unlink()


def _load_all(store: PageStore, kind: Kind) -> list[Segment]:
    segments = []
    for each in sorted((store.side_files / FOLDER).glob(_names(kind))):
        # Damaged, of another version, or merged away a moment ago: its pages are missing then.
        with suppress(*_UNUSABLE):
            segments.append(_load(store, kind, each))
    return segments


def _names(kind: Kind) -> str:
    """Return the pattern of segments' names, which hardly fits what somebody else would put there."""
    return f"{kind}-{'[0-9a-f]' * 16}*"


def _name(store: PageStore, kind: Kind, row_ids: Int64, offsets: Int64) -> str:
    """Return the name of a segment: a digest of what it holds, and of which index, as rows count from 0 in each."""
    digest = hashlib.sha256(store.settings.created.encode())
    for array in (row_ids, offsets):
        digest.update(array.tobytes())
    return f"{kind}-{digest.hexdigest()[:16]}"


def _load(store: PageStore, kind: Kind, folder: Path) -> Segment:
    row_ids, offsets = (np.load(folder / f"{name}.npy") for name in ("row_ids", "offsets"))
    if not folder.name.startswith(_name(store, kind, row_ids, offsets)):
        raise ValueError("signatures of other pages than the name says")
    bits = np.load(folder / "bits.npy", mmap_mode="r")
    return Segment(row_ids, _binary(bits, offsets, store.settings.stored_dim), folder)


def _write(store: PageStore, kind: Kind, places: Int64, blocks: Callable[[], Iterable[Multivectors]]) -> Segment:
    """Write a segment under the name of what it holds, or keep it in memory if the folder refuses."""
    table, dim = store.page_table(), store.settings.stored_dim
    row_ids, folder = table.row_ids[places], store.side_files / FOLDER
    offsets = np.zeros(len(row_ids) + 1, np.int64)
    np.cumsum(n_signature_vectors(table.n_vectors[places], kind), out=offsets[1:])
    draft, final = folder / f"{_DRAFT}{uuid.uuid4().hex}", folder / _name(store, kind, row_ids, offsets)
    try:
        draft.mkdir(parents=True)
        try:
            _write_bits(draft / "bits.npy", (int(offsets[-1]), -(-dim // 8)), blocks())
            for name, array in (("row_ids", row_ids), ("offsets", offsets)):
                with (draft / f"{name}.npy").open("wb") as file:
                    np.save(file, array)
                    _to_disk(file)
            try:
                os.rename(draft, final)
            except OSError:  # another process has just made the same, or it is there and damaged
                with suppress(*_UNUSABLE):
                    return _load(store, kind, final)
                final = final.with_name(f"{final.name}-{uuid.uuid4().hex[:8]}")
                os.rename(draft, final)
            return _load(store, kind, final)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError:  # no space or no permission
        bits = np.concatenate([np.asarray(block.values, np.uint8) for block in blocks()])
        return Segment(row_ids, _binary(bits, offsets, dim), None)


def _write_bits(path: Path, shape: tuple[int, int], blocks: Iterable[Multivectors]) -> None:
    """Write the blocks' bits as one array. A full disk raises, as no memory map would."""
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.uint8)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block.values).data)
        _to_disk(file)


def _to_disk(file: IO[bytes]) -> None:
    """Wait for the disk: a complete name must mean complete bytes, also after a power cut."""
    file.flush()
    os.fsync(file.fileno())
