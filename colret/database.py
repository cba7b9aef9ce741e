"""The LanceDB database under an index: making, opening, locking, compacting."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from colret.errors import StoreError
from colret.schema import (
    ARRAYS_SCHEMA,
    DOCUMENTS_SCHEMA,
    pages_schema,
    read_settings,
    settings_rows,
)
from colret.types import IndexSettings, Int64

TABLES: Final = ("pages.lance", "documents.lance", "arrays.lance", "settings.lance")
"""Their folders in that of an index."""

_OWN_ENTRIES = frozenset({*TABLES, "signatures", "writer.lock"})
_CLOCK_TICK_NS = 100_000_000  # that a file's time may lag behind
_DAMAGED = "if it stays, the index is damaged: ingest into a new --index"


class Tables(NamedTuple):
    """The open tables of an index, and what it was made with."""

    pages: Any
    documents: Any
    arrays: Any
    settings: IndexSettings


class BusyError(StoreError):
    """Another process is writing to the index."""


class StaleReadError(StoreError):
    """What was being read has been compacted away: after a refresh it is there again."""


def create_tables(path: Path, settings: IndexSettings) -> Tables:
    """Make an empty index at ``path``; settings come last, so what lacks them is unfinished.

    Raises:
        StoreError: If there is an index already, tables of somebody else's lie there, or the
            folder cannot be written.
    """
    if path.exists() and not path.is_dir():
        raise StoreError(path, "is not a folder", "name a new or empty folder as --index")
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
        foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in _OWN_ENTRIES)
    if foreign:  # deleting an index must never mean deleting somebody's documents
        raise StoreError(path, f"holds other things, such as {foreign[0]}", "name a new or empty folder as --index")
    with exclusive(path), explained(path):
        database = _connect(path)
        if _settings_rows(database) is not None:
            raise StoreError(path, "there is an index already", "open it, or choose another --index")
        for name in database.list_tables().tables:
            _clear_leftover(path, database, name)
        shutil.rmtree(path / "signatures", ignore_errors=True)  # of an index whose tables were deleted
        pages = database.create_table("pages", schema=pages_schema(settings.stored_dim, _codes_field()))
        pages.set_unenforced_primary_key("page_id")
        documents = database.create_table("documents", schema=DOCUMENTS_SCHEMA)
        documents.set_unenforced_primary_key("doc_id")
        database.create_table("arrays", schema=ARRAYS_SCHEMA)
        database.create_table("settings", data=settings_rows(settings))
    return open_tables(path)


def open_tables(path: Path) -> Tables:
    """Open the index at ``path``.

    Raises:
        StoreError: If there is none, or another format version wrote it.
    """
    with explained(path):
        if not path.is_dir():
            raise StoreError(path, "no index here", f"make one with: colret ingest FOLDER --index {path}")
        database = _connect(path)
        rows = _settings_rows(database)
    if rows is None:
        remedy = f"make one with: colret ingest FOLDER --index {path}"
        raise StoreError(path, "not a finished colret index", remedy)
    settings = read_settings(path, rows)
    with explained(path):
        # Documents first, as a refresh does: a snapshot of them must not be newer than that of the pages.
        documents, pages, arrays = map(database.open_table, ("documents", "pages", "arrays"))
    return Tables(pages, documents, arrays, settings)


def is_index(path: Path) -> bool:
    """Tell whether there is a finished index at ``path``."""
    with explained(path):
        return path.is_dir() and _settings_rows(_connect(path)) is not None


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Be the index's one writer meanwhile; the lock dies with the process.

    Raises:
        BusyError: If another process is writing.
        StoreError: If the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path / "writer.lock", timeout=0)
    try:
        with explained(path):
            lock.acquire()
    except Timeout as error:
        raise BusyError(path, "another colret is writing to it", "wait for it to end, then retry") from error
    try:
        yield
    finally:
        lock.release()


def n_fragments(table: Any) -> int:
    """Return how many files of rows a table has: about one a commit since the last compaction."""
    return int(_latest(table)["total_fragments"])


def live_file_bytes(table: Any) -> int:
    """Return what a table's rows take in its files of rows, the deleted ones in them left out."""
    latest = _latest(table)
    n_bytes, n_live, n_rows = (int(latest[key]) for key in ("total_files_size", "total_rows", "total_data_file_rows"))
    return n_bytes * n_live // max(n_rows, 1)


def compact(table: Any) -> None:
    """Merge a table's files and delete what its latest version does not need. This rewrites all of it.

    Nobody else may be writing: files that no version knows, as a killed writer leaves, go too.
    """
    table.checkout_latest()  # on a stale handle optimize does nothing
    with warnings.catch_warnings():
        # It warns that readers of older versions will fail; ours then raise StaleReadError and retry.
        warnings.filterwarnings("ignore", "optimize", UserWarning)
        table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)


def sweep(path: Path) -> None:
    """Delete the files under temporary names that killed writers left; nobody else may be writing."""
    for name in TABLES:
        for file in (path / name).rglob(".tmp*"):
            file.unlink(missing_ok=True)


def _latest(table: Any) -> dict[str, str]:
    """Return what a table says of its latest version."""
    latest: dict[str, str] = table.list_versions()[-1]["metadata"]
    return latest


def matching_rows(table: pa.Table, where: str) -> Int64:
    """Return the places, ascending, of the rows of ``table`` for which the SQL condition ``where`` holds.

    Raises:
        ValueError, RuntimeError: If it is no condition on such rows, or fails on one: LanceDB's own.
    """
    import lancedb

    numbered = table.append_column("_place", pa.array(np.arange(len(table))))
    rows = lancedb.connect("memory://").create_table("rows", numbered)
    found = rows.search().where(where).select(["_place"]).to_arrow()
    return np.sort(found["_place"].to_numpy())


def new_table(folder: Path, name: str, schema: pa.Schema) -> Callable[[pa.Table], None]:
    """Make a LanceDB table in a folder that is no index; return what appends rows to it, a file each time.

    Raises:
        StoreError: If it cannot be written, then or while rows are added.
    """

    def write(action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (OSError, RuntimeError, ValueError) as error:
            problem = str(error).split(", /", 1)[0].split("\n", 1)[0][:300]
            raise StoreError(folder, f"LanceDB: {problem}", "check space and permissions") from error

    table = write(lambda: _connect(folder).create_table(name, schema=schema))
    return lambda rows: write(lambda: table.add(rows))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what LanceDB and the file system raise into one line about the index."""
    try:
        yield
    except TimeoutError:
        raise
    except (OSError, RuntimeError, ValueError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.strerror:  # the system's own refusal, not LanceDB's
            problem = f"cannot be read or written ({error.strerror})"
            raise StoreError(path, problem, "check space and permissions") from error
        # LanceDB has no exceptions of its own; its messages begin with the useful part.
        problem = str(error).split(", /", 1)[0].split("\n", 1)[0][:300]
        if "not found" in problem.lower():
            raise StaleReadError(path, f"LanceDB: {problem}", f"retry; {_DAMAGED}") from error
        raise StoreError(path, f"LanceDB: {problem}", f"check space and permissions; {_DAMAGED}") from error


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Make what is written meanwhile to an index last through a power cut, which LanceDB leaves to chance.

    Raises:
        StoreError: If the index is there no more, where LanceDB would begin another, or cannot be written.
    """
    with explained(path):
        if not (path / "settings.lance").is_dir():
            remedy = f"make it anew with: colret ingest FOLDER --index {path}"
            raise StoreError(path, "the index was removed while it was written to", remedy)
        began = time.time_ns() - _CLOCK_TICK_NS
        yield
        _flush(path, began)


def _flush(path: Path, since_ns: int) -> None:
    """Have the disk keep all files and folders that have changed since then."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    for name in TABLES:
        for entry in (path / name, *(path / name).rglob("*")):
            if entry.stat().st_mtime_ns >= since_ns:
                descriptor = os.open(entry, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)


def _connect(path: Path) -> Any:
    # Read by Lance when it is loaded: rows that compaction holds in memory at a time.
    os.environ.setdefault("LANCE_DEFAULT_BATCH_SIZE", "64")
    import lancedb

    # Absolute, so that no name looks like the address of some other kind of database.
    return lancedb.connect(os.path.abspath(path), storage_options={"new_table_enable_stable_row_ids": "true"})


def _codes_field() -> pa.Field:
    from lancedb import blob

    return blob("codes")


def _settings_rows(database: Any) -> pa.Table | None:
    """Return the rows of the settings; None if there are none, or the making of an index died there."""
    if "settings" not in database.list_tables().tables:
        return None
    try:
        rows = database.open_table("settings").to_arrow()
    except ValueError:  # a folder of that name without a table in it
        return None
    return rows if {"key", "value_json"} <= set(rows.column_names) else None


def _clear_leftover(path: Path, database: Any, name: str) -> None:
    """Drop an empty table that an interrupted making left; never one that holds anything."""
    try:
        table = database.open_table(name)
    except ValueError:  # a folder without a table in it
        database.drop_table(name)
        return
    if name not in ("pages", "documents", "arrays") or table.count_rows():
        raise StoreError(path, f"holds a table that is not colret's: {name}", "choose another --index")
    database.drop_table(name)
