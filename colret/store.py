"""The index: pages, documents and settings in one LanceDB database. The only user of lancedb.

Three tables. ``pages`` carries a page whole: its single vector for the prefilter, its codes
for MaxSim, its words and boxes. ``documents`` is the commit record: a document's row is
written after its pages and deleted before them, and pages of a document without a "done" row
are invisible. So a reader that looks at ``documents`` first and at ``pages`` second sees
complete documents only, whatever a writer does meanwhile. ``settings`` is written last of
all when an index is made.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import colret
from colret.codecs import StoredVectors
from colret.errors import StoreError
from colret.schema import (
    DOCUMENTS_SCHEMA,
    FORMAT_VERSION,
    document_record,
    document_row,
    page_details,
    page_rows,
    pages_schema,
    settings_rows,
    settings_values,
)
from colret.types import (
    Candidate,
    Codec,
    DocumentRecord,
    EncodedPage,
    EncoderInfo,
    Float32,
    IndexInfo,
    IndexSettings,
    PageDetails,
    PageRef,
)

_TABLES = ("pages", "documents", "settings")
_KEY_CHUNK = 500  # ids in one SQL list

MANY_FRAGMENTS = 50  # commits since the last compaction
WORTH_FREEING = 0.2  # deleted rows for each one that is left


def settings_for(encoder: EncoderInfo, codec: Codec = "int8") -> IndexSettings:
    """Return the settings of a new index that ``encoder`` will fill."""
    return IndexSettings(
        model=encoder.name,
        revision=encoder.revision,
        family=encoder.family,
        dim=encoder.dim,
        query_template=encoder.query_template,
        codec=codec,
        format_version=FORMAT_VERSION,
        tool_version=colret.__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        page_tokens=encoder.page_tokens,
    )


class PageStore:
    """An open index. Reads see the moment of the last ``refresh``; write under ``writing``."""

    def __init__(self, path: Path, database: Any, settings: IndexSettings) -> None:
        self.path = path
        self.settings = settings
        self._pages, self._documents = (database.open_table(name) for name in ("pages", "documents"))

    @classmethod
    def create(cls, path: Path, settings: IndexSettings) -> PageStore:
        """Make an empty index at ``path``, finishing one whose making was interrupted.

        Raises:
            StoreError: If there is an index already, or the folder cannot be written.
        """
        with _explained(path):
            database = _connect(path)
            present = set(database.list_tables().tables)
            if "settings" in present:
                raise StoreError(path, "there is an index already", "open it, or choose another --index")
            for name in present & set(_TABLES):
                database.drop_table(name)
            pages = pages_schema(settings.dim, _codes_field())
            database.create_table("pages", schema=pages).set_unenforced_primary_key("page_id")
            database.create_table("documents", schema=DOCUMENTS_SCHEMA).set_unenforced_primary_key("doc_id")
            database.create_table("settings", data=settings_rows(settings))
            return cls(path, database, settings)

    @classmethod
    def open(cls, path: Path) -> PageStore:
        """Open the index at ``path``.

        Raises:
            StoreError: If there is none, or another format version wrote it.
        """
        if not path.is_dir():
            raise StoreError(path, "no index here", "make one with: colret ingest FOLDER")
        with _explained(path):
            database = _connect(path)
            if "settings" not in database.list_tables().tables:
                raise StoreError(path, "not a finished colret index", "make one with: colret ingest FOLDER")
            rows = database.open_table("settings").to_arrow()
            return cls(path, database, _read_settings(path, settings_values(rows)))

    @staticmethod
    def exists(path: Path) -> bool:
        """Tell whether there is a finished index at ``path``."""
        return (path / "settings.lance").is_dir()

    def check_encoder(self, encoder: EncoderInfo) -> None:
        """Refuse an encoder that did not make this index: its scores would mean nothing.

        Raises:
            StoreError: If model, revision, dimension, query template or kept page tokens differ.
        """
        for name in ("family", "revision", "dim", "query_template", "page_tokens"):
            mine, other = getattr(self.settings, name), getattr(encoder, name)
            if mine != other:
                problem = f"was made by {self.settings.model} ({name} {mine}), not {encoder.name} ({name} {other})"
                raise StoreError(self.path, problem, "leave --model out, or ingest into a new --index")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the index's one writer meanwhile; the lock dies with the process.

        Raises:
            StoreError: If another process is writing.
        """
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.path / "writer.lock", timeout=0):
                self.refresh()
                yield
        except Timeout as error:
            raise StoreError(self.path, "another colret is writing to it", "wait for it to end, then retry") from error

    def refresh(self) -> None:
        """See what has been committed until now."""
        with _explained(self.path):
            self._documents.checkout_latest()  # before the pages: see the module's docstring
            self._pages.checkout_latest()

    # Writing

    def add_pages(self, pages: Sequence[EncodedPage]) -> None:
        """Append pages in one commit; those without vectors are left out."""
        rows = [page for page in pages if len(page.embedding.vectors)]
        if not rows:
            return
        with _explained(self.path):
            self._pages.add(page_rows(rows, self.settings))

    def put_documents(self, records: Sequence[DocumentRecord]) -> None:
        """Write documents' records, replacing those with the same id: this makes pages visible."""
        if not records:
            return
        rows = pa.Table.from_pylist([document_row(record) for record in records], schema=DOCUMENTS_SCHEMA)
        with _explained(self.path):
            merge = self._documents.merge_insert("doc_id").when_matched_update_all().when_not_matched_insert_all()
            merge.use_index(False).execute(rows)  # with a scalar index, concurrent merges can double keys

    def remove_documents(self, doc_ids: Sequence[str]) -> None:
        """Delete documents with all their pages."""
        with _explained(self.path):
            for table in (self._documents, self._pages):
                for chunk in _chunks(doc_ids):
                    table.delete(_in("doc_id", chunk))

    def remove_orphans(self) -> int:
        """Delete pages whose document was never committed: what a killed ingest left. Return their number."""
        with _explained(self.path):
            known = set(_column(self._documents, "doc_id"))
            orphans = [doc_id for doc_id in _column(self._pages, "doc_id") if doc_id not in known]
            for chunk in _chunks(sorted(set(orphans))):
                self._pages.delete(_in("doc_id", chunk))
            return len(orphans)

    def compact(self) -> None:
        """Merge small files and drop what was deleted, where there is enough of either to be worth it.

        Merging rewrites the whole table, so adding a file to a large index must not do it each time.
        """
        with _explained(self.path):
            for table in (self._pages, self._documents):
                table.checkout_latest()  # optimize works on the handle's version: a stale one does nothing
                latest = table.list_versions()[-1]["metadata"]
                n_rows, n_deleted = int(latest["total_rows"]), int(latest["total_deletion_file_rows"])
                if int(latest["total_fragments"]) > MANY_FRAGMENTS or n_deleted > WORTH_FREEING * n_rows:
                    _optimize(table)

    # Reading

    def documents(self) -> list[DocumentRecord]:
        """Return every document's record, ordered by first path."""
        with _explained(self.path):
            records = [document_record(row) for row in self._documents.to_arrow().to_pylist()]
        return sorted(records, key=lambda record: (record.files[0].path if record.files else "", record.doc_id))

    def nearest(self, query: Float32, k: int) -> list[Candidate]:
        """Return the ``k`` visible pages whose single vectors (D,) are nearest to ``query``, nearest first."""
        visible = set(self._visible_documents())
        hidden: set[str] = set()
        while True:
            rows = self._nearest_rows(query, k, hidden)
            unseen = {candidate.ref.doc_id for candidate in rows} - visible
            if not unseen:
                return rows
            hidden |= unseen  # in the middle of being written: ask again without them

    def candidates(self) -> list[Candidate]:
        """Return every visible page, ordered by reference."""
        visible = set(self._visible_documents())
        with _explained(self.path):
            table = self._pages.search().select(["doc_id", "number"]).with_row_id(True).to_arrow()
        return sorted(candidate for candidate in _candidates(table) if candidate.ref.doc_id in visible)

    def vectors(self, row_ids: Sequence[int]) -> list[StoredVectors]:
        """Return the stored vectors of pages, in the order of ``row_ids``."""
        with _explained(self.path):
            codes = self._pages.fetch_blobs("codes", list(row_ids))
            table = self._pages.take_row_ids(list(row_ids)).select(["scale"]).with_row_id().to_arrow()
        # take_row_ids answers in the table's order, fetch_blobs in that of the request.
        scales = dict(zip(table["_rowid"].to_pylist(), table["scale"].to_pylist(), strict=True))
        views = (memoryview(code.as_buffer()) for code in codes)
        return [StoredVectors(view, scales[row_id]) for view, row_id in zip(views, row_ids, strict=True)]

    def details(self, row_ids: Sequence[int]) -> list[PageDetails]:
        """Return what is known of pages besides their vectors, in the order of ``row_ids``."""
        columns = ["doc_id", "number", "width", "height", "text", "word_boxes", "boxes"]
        with _explained(self.path):
            table = self._pages.take_row_ids(list(row_ids)).select(columns).with_row_id().to_arrow()
        by_id = {row["_rowid"]: page_details(row) for row in table.to_pylist()}
        return [by_id[row_id] for row_id in row_ids]

    def paths(self, doc_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the paths that hold each document."""
        found: dict[str, list[str]] = {}
        with _explained(self.path):
            for chunk in _chunks(sorted(set(doc_ids))):
                rows = self._documents.search().where(_in("doc_id", chunk)).select(["doc_id", "files"]).to_arrow()
                found |= {row["doc_id"]: [file["path"] for file in row["files"]] for row in rows.to_pylist()}
        return found

    def info(self) -> IndexInfo:
        """Count what the index holds and the bytes it takes on disk."""
        records = self.documents()
        done = {record.doc_id for record in records if record.status == "done"}
        with _explained(self.path):
            table = self._pages.search().select(["doc_id", "n_vectors"]).to_arrow()
        sizes = [n for doc_id, n in zip(*map(pa.ChunkedArray.to_pylist, table.columns), strict=True) if doc_id in done]
        return IndexInfo(
            settings=self.settings,
            n_documents=len(done),
            n_failed=len(records) - len(done),
            n_pages=len(sizes),
            n_blank=sum(record.n_blank for record in records),
            n_skipped_pages=sum(len(record.skipped) for record in records),
            n_vectors=sum(sizes),
            bytes_on_disk=_bytes_below(self.path),
        )

    def _visible_documents(self) -> list[str]:
        with _explained(self.path):
            return list(_column(self._documents, "doc_id", where="status = 'done'"))

    def _nearest_rows(self, query: Float32, k: int, hidden: set[str]) -> list[Candidate]:
        with _explained(self.path):
            search = self._pages.search(query, vector_column_name="single").distance_type("dot").limit(k)
            if hidden:
                search = search.where(f"NOT ({_in('doc_id', sorted(hidden))})")
            # _distance is selected only because leaving it out logs a warning for each query.
            table = search.select(["doc_id", "number", "_distance"]).with_row_id(True).to_arrow()
        return _candidates(table)


def _connect(path: Path) -> Any:
    # Read by Lance when it is loaded: rows that compaction holds in memory at a time.
    os.environ.setdefault("LANCE_DEFAULT_BATCH_SIZE", "64")
    import lancedb

    return lancedb.connect(str(path), storage_options={"new_table_enable_stable_row_ids": "true"})


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what LanceDB raises into one line about the index."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, pa.ArrowException) as error:
        # LanceDB has no exceptions of its own; its messages begin with the useful part.
        problem = str(error).split(", /", 1)[0].split("\n", 1)[0][:300]
        raise StoreError(path, f"LanceDB: {problem}", "check space and permissions, then retry") from error


def _optimize(table: Any) -> None:
    with warnings.catch_warnings():
        # It warns that readers of older versions will fail; colret reads anew for each search.
        warnings.filterwarnings("ignore", "optimize", UserWarning)
        table.optimize(cleanup_older_than=timedelta(0))


def _codes_field() -> pa.Field:
    from lancedb import blob

    return blob("codes")


def _read_settings(path: Path, values: dict[str, Any]) -> IndexSettings:
    version = values.get("format_version")
    if version != FORMAT_VERSION:
        remedy = "ingest again into a new --index, or use the colret that made it"
        raise StoreError(path, f"has format {version}, this colret reads format {FORMAT_VERSION}", remedy)
    known = {field.name for field in fields(IndexSettings)}
    if missing := known - values.keys():
        raise StoreError(path, f"its settings lack {', '.join(sorted(missing))}", "ingest again into a new --index")
    return IndexSettings(**{name: values[name] for name in known})


def _candidates(table: pa.Table) -> list[Candidate]:
    columns = (table[name].to_pylist() for name in ("doc_id", "number", "_rowid"))
    return [Candidate(PageRef(doc_id, number), row_id) for doc_id, number, row_id in zip(*columns, strict=True)]


def _column(table: Any, name: str, where: str | None = None) -> Iterator[Any]:
    search = table.search().select([name])
    yield from (search.where(where) if where else search).to_arrow()[name].to_pylist()


def _in(column: str, values: Sequence[str]) -> str:
    quoted = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    return f"{column} IN ({quoted})"


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[i : i + _KEY_CHUNK] for i in range(0, len(values), _KEY_CHUNK))


def _bytes_below(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
