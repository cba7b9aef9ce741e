"""The LanceDB database under an index, in a folder or an object store: making, opening, compacting."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from colret.errors import StoreError
from colret.index_folder import TABLES, IndexFolder, LocalFolder
from colret.lease import CLOCK, LOCK
from colret.location import Location
from colret.object_storage import failure
from colret.remote_folder import RemoteFolder
from colret.schema import (
    ARRAYS_SCHEMA,
    DOCUMENTS_SCHEMA,
    pages_schema,
    read_settings,
    settings_rows,
)
from colret.types import IndexSettings, Int64

_OWN_ENTRIES = frozenset({*TABLES, "signatures", LOCK, CLOCK})
_LEFTOVER = re.compile(  # what a making that was interrupted leaves, and an index whose tables were deleted
    rf"""{re.escape(LOCK)} | {re.escape(CLOCK)}
    | (pages|documents|arrays|settings)\.lance/_versions/([^/]*\.manifest[^/]*|latest_version_hint\.json)
    | (pages|documents|arrays|settings)\.lance/_transactions/[^/]*\.txn[^/]*
    | settings\.lance/data/[^/]*\.lance
    | signatures/[^/]+/(bits|offsets|row_ids)\.npy""",
    re.VERBOSE,
)
_RAISED = (OSError, RuntimeError, ValueError, pa.ArrowException)  # by LanceDB and the file system
_CLOCK_TICK_NS = 100_000_000  # that a file's time may lag behind
_ANEW = "ingest into a new --index, or restore it from a copy"
_DAMAGED = "if it stays, the index is damaged: ingest into a new --index"


class Tables(NamedTuple):
    """The open tables of an index, and what it was made with."""

    pages: Any
    documents: Any
    arrays: Any
    settings: IndexSettings


class StaleReadError(StoreError):
    """What was being read has been compacted away: after a refresh it is there again."""


def folder_at(location: Location) -> IndexFolder:
    """Return the place that a location names; nothing is made or asked yet.

    Raises:
        StoreError: If its options cannot be understood.
    """
    return RemoteFolder(location) if location.folder is None else LocalFolder(location, location.folder)


def create_tables(folder: IndexFolder, settings: IndexSettings) -> Tables:
    """Make an empty index in ``folder``; settings come last, so what lacks them is unfinished.

    Raises:
        StoreError: If there is an index already, tables of somebody else's lie there, or the
            folder cannot be written.
    """
    location = folder.location
    with explained(location):
        folder.make()
        foreign = [name for name in folder.entries() or [] if name not in _OWN_ENTRIES]
    if foreign:
        raise _holds_other(location, foreign[0])
    with exclusive(folder), explained(location):
        database = _connect(folder)
        if _settings_rows(folder, database) is not None:
            raise StoreError(location, "there is an index already", "open it, or choose another --index")
        for name in database.list_tables().tables:
            _refuse_filled(location, database, name)
        # Making an index must never mean deleting what somebody keeps in a folder of such a name.
        for path in folder.files():
            if not _LEFTOVER.fullmatch(path):
                raise _holds_other(location, path)
        for name in database.list_tables().tables:
            database.drop_table(name)
        folder.drop("signatures")
        pages = database.create_table("pages", schema=pages_schema(settings.stored_dim, _codes_field()))
        pages.set_unenforced_primary_key("page_id")
        documents = database.create_table("documents", schema=DOCUMENTS_SCHEMA)
        documents.set_unenforced_primary_key("doc_id")
        database.create_table("arrays", schema=ARRAYS_SCHEMA)
        database.create_table("settings", data=settings_rows(settings))
    return open_tables(folder)


def open_tables(folder: IndexFolder) -> Tables:
    """Open the index in ``folder``.

    Raises:
        StoreError: If there is none, or another format version wrote it.
    """
    location = folder.location
    remedy = f"make one with: colret ingest FOLDER --index {location}"
    with explained(location):
        if folder.entries() is None:
            raise StoreError(location, "no index here", remedy)
        database = _connect(folder)
        rows = _settings_rows(folder, database)
    if rows is None:
        raise StoreError(location, "not a finished colret index", remedy)
    settings = read_settings(location, rows)
    with explained(location):
        # Documents first, as a refresh does: a snapshot of them must not be newer than that of the pages.
        documents, pages, arrays = map(database.open_table, ("documents", "pages", "arrays"))
        pages_names = pages_schema(settings.stored_dim, _codes_field()).names
        for table, names in ((documents, DOCUMENTS_SCHEMA.names), (pages, pages_names), (arrays, ARRAYS_SCHEMA.names)):
            if not set(names) <= set(table.schema.names):
                raise StoreError(location, f"its table {table.name} is damaged", _ANEW)
    return Tables(pages, documents, arrays, settings)


def is_index(folder: IndexFolder) -> bool:
    """Tell whether there is a finished index in ``folder``."""
    with explained(folder.location):
        return folder.entries() is not None and _settings_rows(folder, _connect(folder)) is not None


def check_still(folder: IndexFolder, settings: IndexSettings) -> None:
    """Refuse an index that was removed and made anew since it was opened: what was made of the old one is wrong.

    Raises:
        StoreError: If it was.
    """
    with explained(folder.location):
        rows = _settings_rows(folder, _connect(folder))
    if rows is None or read_settings(folder.location, rows).created != settings.created:
        raise StoreError(folder.location, "was removed and made anew since it was opened", "open it again")


@contextmanager
def exclusive(folder: IndexFolder) -> Iterator[None]:
    """Be the index's one writer meanwhile.

    Raises:
        BusyError: If another process is writing.
        StoreError: If the folder cannot be written.
    """
    with ExitStack() as stack:
        with explained(folder.location):
            stack.enter_context(folder.exclusive())
        yield


def n_fragments(table: Any) -> int:
    """Return how many files of rows a table has: about one a commit since the last compaction."""
    return int(_latest(table)["total_fragments"])


def live_file_bytes(table: Any) -> int:
    """Return what a table's rows take in its files of rows, the deleted ones in them left out."""
    latest = _latest(table)
    n_bytes, n_live, n_rows = (int(latest[key]) for key in ("total_files_size", "total_rows", "total_data_file_rows"))
    return n_bytes * n_live // max(n_rows, 1)


def compact(table: Any, *, is_private: bool) -> None:
    """Merge a table's files and delete what its latest version does not need. This rewrites all of it.

    Args:
        table: The table.
        is_private: Nobody else can be writing, so files that no version knows, as a killed writer
            leaves, go too. Else they do when they are a week old.
    """
    table.checkout_latest()  # on a stale handle optimize does nothing
    with warnings.catch_warnings():
        # It warns that readers of older versions will fail; ours then raise StaleReadError and retry.
        warnings.filterwarnings("ignore", "optimize", UserWarning)
        table.optimize(cleanup_older_than=timedelta(0), delete_unverified=is_private)


def _latest(table: Any) -> dict[str, str]:
    """Return what a table says of its latest version."""
    latest: dict[str, str] = table.list_versions()[-1]["metadata"]
    return latest


def matching_rows(table: pa.Table, where: str) -> Int64:
    """Return the places, ascending, of the rows of ``table`` for which the SQL condition ``where`` holds.

    Raises:
        ValueError, RuntimeError: If it is no condition on such rows, or fails on one: LanceDB's own.
    """
    numbered = table.append_column("_place", pa.array(np.arange(len(table))))
    rows = _lancedb().connect("memory://").create_table("rows", numbered)
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

    table = write(lambda: _database(os.path.abspath(folder), {}).create_table(name, schema=schema))
    return lambda rows: write(lambda: table.add(rows))


@contextmanager
def explained(location: Location) -> Iterator[None]:
    """Turn what LanceDB and the file system raise into one line about the index."""
    try:
        yield
    except Exception as error:
        # Of LanceDB's own there is one, for a panic of it, and that cannot be imported.
        is_panic = type(error).__module__ == "pyo3_async_runtimes"
        if isinstance(error, TimeoutError) or not (isinstance(error, _RAISED) or is_panic):
            raise
        if location.folder is None:
            raise _remote_error(location, str(error)) from None  # which may quote what is secret
        if isinstance(error, OSError) and error.strerror:  # the system's own refusal, not LanceDB's
            problem = f"cannot be read or written ({error.strerror})"
            raise StoreError(location, problem, "check space and permissions") from error
        # LanceDB's messages begin with the useful part.
        problem = str(error).split(", /", 1)[0].split("\n", 1)[0][:300]
        if "not found" in problem.lower():
            raise StaleReadError(location, f"LanceDB: {problem}", f"retry; {_DAMAGED}") from error
        raise StoreError(location, f"LanceDB: {problem}", f"check space and permissions; {_DAMAGED}") from error


def _holds_other(location: Location, path: str) -> StoreError:
    return StoreError(location, f"holds other things, such as {path}", "name a new or empty folder as --index")


def _remote_error(location: Location, message: str) -> StoreError:
    """Return what an object store, or LanceDB's use of it, came to; messages may quote what is secret."""
    if "not found" in message.lower() and "NoSuchBucket" not in message:
        return StaleReadError(location, "LanceDB: an object of it is not found", f"retry; {_DAMAGED}")
    return StoreError(location, *failure(message))


@contextmanager
def written(folder: IndexFolder) -> Iterator[None]:
    """Make what is written meanwhile to an index last through a power cut, which LanceDB leaves to chance.

    Raises:
        StoreError: If the index is there no more, where LanceDB would begin another, or cannot be written.
    """
    location = folder.location
    with explained(location):
        if not folder.has("settings.lance"):
            remedy = f"make it anew with: colret ingest FOLDER --index {location}"
            raise StoreError(location, "the index was removed while it was written to", remedy)
        folder.check_writer()
        began = time.time_ns() - _CLOCK_TICK_NS
        yield
        folder.flush(began)


def _connect(folder: IndexFolder) -> Any:
    return _database(folder.uri, folder.options)


def _database(uri: str, options: Mapping[str, str]) -> Any:
    return _lancedb().connect(uri, storage_options={**options, "new_table_enable_stable_row_ids": "true"})


def _codes_field() -> pa.Field:
    return _lancedb().blob("codes")


def _lancedb() -> Any:
    """Return LanceDB, which reads these variables when it is loaded."""
    os.environ.setdefault("LANCE_DEFAULT_BATCH_SIZE", "64")  # rows that compaction holds in memory at a time
    os.environ.setdefault("LANCEDB_LOG", "error")  # it warns, with places in its sources, of what it then raises
    import lancedb

    return lancedb


def _settings_rows(folder: IndexFolder, database: Any) -> pa.Table | None:
    """Return the rows of the settings; None if there are none, or the making of an index died there.

    Raises:
        StoreError: If they are damaged, or those of another program.
    """
    folder.check_whole()
    if "settings" not in database.list_tables().tables:
        return None
    try:
        rows = database.open_table("settings").to_arrow()
    except ValueError:  # a folder of that name without a table in it
        return None
    if not {"key", "value_json"} <= set(rows.column_names):
        raise StoreError(folder.location, "its settings are damaged, or another program's", "name another --index")
    return rows


def _refuse_filled(location: Location, database: Any, name: str) -> None:
    """Refuse a table that is no empty one of ours, as an interrupted making leaves it."""
    try:
        table = database.open_table(name)
    except ValueError:  # a folder without a table in it
        return
    if name not in ("pages", "documents", "arrays") or table.count_rows():
        raise StoreError(location, f"holds a table that is not colret's: {name}", "choose another --index")
