"""The index: pages, documents and settings in one LanceDB database. The only user of lancedb.

Three tables. ``pages`` carries a page whole: its single vector for the prefilter, its codes
for MaxSim, its words and boxes. ``documents`` is the commit record: a document's row is
written after its pages and deleted before them, and pages of a document without a "done" row
are invisible. So a reader that looks at ``documents`` first and at ``pages`` second sees
complete documents only, whatever a writer does meanwhile. ``settings`` is written last of
all when an index is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa

import colret
from colret.codecs import StoredVectors, bytes_per_vector
from colret.database import (
    Tables,
    compact,
    create_tables,
    exclusive,
    explained,
    is_index,
    n_fragments,
    open_tables,
)
from colret.errors import StoreError
from colret.schema import (
    DOCUMENTS_SCHEMA,
    FORMAT_VERSION,
    document_record,
    document_row,
    page_details,
    page_rows,
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

MANY_FRAGMENTS = 50  # commits since the last compaction
OVERHEAD = 1.15  # bytes of an index for each byte of codes
WORTH_FREEING = 0.3  # dead bytes for each live one
LITTLE = 4_000_000  # bytes, that no compaction is for

_KEY_CHUNK = 500  # ids in one SQL list
_LIBRARIES = ("colpali-engine", "lancedb", "pypdfium2", "rapidocr", "torch", "transformers")


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
        render_pixels=encoder.render_pixels,
        libraries={name: metadata.version(name) for name in _LIBRARIES},
    )


class PageStore:
    """An open index. Reads see the moment of the last ``refresh``; write under ``writing``."""

    def __init__(self, path: Path, tables: Tables) -> None:
        self.path = path
        self.settings = tables.settings
        self._pages = tables.pages
        self._documents = tables.documents
        self._visible: set[str] | None = None  # documents whose pages may be seen, as of the last refresh

    @classmethod
    def create(cls, path: Path, settings: IndexSettings) -> PageStore:
        """Make an empty index at ``path``, finishing one whose making was interrupted.

        Raises:
            StoreError: If there is an index already, tables of somebody else's lie there, or the
                folder cannot be written.
        """
        return cls(path, create_tables(path, settings))

    @classmethod
    def open(cls, path: Path) -> PageStore:
        """Open the index at ``path``.

        Raises:
            StoreError: If there is none, or another format version wrote it.
        """
        return cls(path, open_tables(path))

    @staticmethod
    def exists(path: Path) -> bool:
        """Tell whether there is a finished index at ``path``."""
        return is_index(path)

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
        with exclusive(self.path):
            self.refresh()
            yield

    def refresh(self) -> None:
        """See what has been committed until now."""
        with explained(self.path):
            self._visible = None
            self._documents.checkout_latest()  # before the pages: see the module's docstring
            self._pages.checkout_latest()

    # Writing

    def add_pages(self, pages: Sequence[EncodedPage]) -> None:
        """Append pages in one commit; those without vectors are left out."""
        rows = [page for page in pages if len(page.embedding.vectors)]
        if not rows:
            return
        table = page_rows(rows, self.settings)
        with explained(self.path):
            self._pages.add(table)

    def put_documents(self, records: Sequence[DocumentRecord]) -> None:
        """Write documents' records, replacing those with the same id: this makes pages visible."""
        if not records:
            return
        rows = pa.Table.from_pylist([document_row(record) for record in records], schema=DOCUMENTS_SCHEMA)
        self._visible = None
        with explained(self.path):
            merge = self._documents.merge_insert("doc_id").when_matched_update_all().when_not_matched_insert_all()
            merge.use_index(False).execute(rows)  # with a scalar index, concurrent merges can double keys

    def remove_documents(self, doc_ids: Sequence[str]) -> None:
        """Delete documents with all their pages: their records first, so that no half of one is seen."""
        self._visible = None
        with explained(self.path):
            for table in (self._documents, self._pages):
                for chunk in _chunks(doc_ids):
                    table.delete(_in("doc_id", chunk))

    def remove_orphans(self) -> int:
        """Delete pages that no commit record covers: what a killed ingest left. Return their number."""
        visible = self._visible_documents()
        with explained(self.path):
            orphans = [doc_id for doc_id in _column(self._pages, "doc_id") if doc_id not in visible]
            for chunk in _chunks(sorted(set(orphans))):
                self._pages.delete(_in("doc_id", chunk))
            return len(orphans)

    def compact(self) -> None:
        """Merge small files and delete dead ones, where there are enough of either.

        It rewrites the whole index, so adding a file to a large one must not do it each time.
        """
        with explained(self.path):
            tables = (self._pages, self._documents)
            n_vectors = sum(_column(self._pages, "n_vectors"))
            live = n_vectors * bytes_per_vector(self.settings.dim, self.settings.codec)
            dead = _bytes_below(self.path) - live * OVERHEAD
            if dead > live * WORTH_FREEING + LITTLE or max(map(n_fragments, tables)) > MANY_FRAGMENTS:
                for table in tables:
                    compact(table)

    # Reading

    def documents(self) -> list[DocumentRecord]:
        """Return every document's record, ordered by first path."""
        with explained(self.path):
            rows = self._documents.to_arrow().to_pylist()
        records = [document_record(row) for row in rows]
        return sorted(records, key=lambda record: (record.files[0].path if record.files else "", record.doc_id))

    def n_pages(self) -> int:
        """Return N, the number of visible pages."""
        columns = ["n_pages", "n_blank", "skipped"]
        with explained(self.path):
            rows = self._documents.search().where("status = 'done'").select(columns).to_arrow().to_pylist()
        return sum(row["n_pages"] - row["n_blank"] - len(row["skipped"]) for row in rows)

    def nearest(self, query: Float32, k: int) -> list[Candidate]:
        """Return the ``k`` visible pages whose single vectors are nearest to ``query`` (D,), nearest first.

        Equal distances are ordered by page, though which of several equal pages make the cut is
        the database's choice.
        """
        visible = self._visible_documents()
        hidden: set[str] = set()
        while True:
            rows = self._nearest_rows(query, k, hidden)
            unseen = {candidate.ref.doc_id for candidate in rows} - visible
            if not unseen:
                return rows
            hidden |= unseen  # in the middle of being written: ask again without them

    def candidates(self) -> list[Candidate]:
        """Return every visible page, ordered by reference."""
        visible = self._visible_documents()
        with explained(self.path):
            table = self._pages.search().select(["doc_id", "number"]).with_row_id(True).to_arrow()
        return sorted(candidate for candidate in _candidates(table) if candidate.ref.doc_id in visible)

    def vectors(self, row_ids: Sequence[int]) -> list[StoredVectors]:
        """Return the stored vectors of pages, in the order of ``row_ids``."""
        with explained(self.path):
            codes = self._pages.fetch_blobs("codes", list(row_ids))
            table = self._pages.take_row_ids(list(row_ids)).select(["scale"]).with_row_id().to_arrow()
        # take_row_ids answers in the table's order, fetch_blobs in that of the request.
        scales = dict(zip(table["_rowid"].to_pylist(), table["scale"].to_pylist(), strict=True))
        views = (memoryview(code.as_buffer()) for code in codes)
        return [StoredVectors(view, scales[row_id]) for view, row_id in zip(views, row_ids, strict=True)]

    def details(self, row_ids: Sequence[int]) -> list[PageDetails]:
        """Return what is known of pages besides their vectors, in the order of ``row_ids``."""
        columns = ["doc_id", "number", "width", "height", "text", "word_boxes", "boxes"]
        with explained(self.path):
            table = self._pages.take_row_ids(list(row_ids)).select(columns).with_row_id().to_arrow()
        by_id = {row["_rowid"]: page_details(row) for row in table.to_pylist()}
        if missing := set(row_ids) - by_id.keys():
            raise StoreError(self.path, f"{len(missing)} of the pages are gone", "search again")
        return [by_id[row_id] for row_id in row_ids]

    def paths(self, doc_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the paths that hold each document."""
        found: dict[str, list[str]] = {}
        with explained(self.path):
            for chunk in _chunks(sorted(set(doc_ids))):
                rows = self._documents.search().where(_in("doc_id", chunk)).select(["doc_id", "files"]).to_arrow()
                found |= {row["doc_id"]: [file["path"] for file in row["files"]] for row in rows.to_pylist()}
        return found

    def info(self) -> IndexInfo:
        """Count what the index holds and the bytes it takes on disk."""
        records = self.documents()
        done = {record.doc_id for record in records if record.status == "done"}
        with explained(self.path):
            table = self._pages.search().select(["doc_id", "n_vectors"]).to_arrow()
        sizes = [n for doc_id, n in zip(*map(pa.ChunkedArray.to_pylist, table.columns), strict=True) if doc_id in done]
        return IndexInfo(
            settings=self.settings,
            n_documents=len(done),
            n_failed=sum(record.status == "failed" for record in records),
            n_pages=len(sizes),
            n_blank=sum(record.n_blank for record in records),
            n_skipped_pages=sum(len(record.skipped) for record in records),
            n_vectors=sum(sizes),
            bytes_on_disk=_bytes_below(self.path),
        )

    def _visible_documents(self) -> set[str]:
        if self._visible is None:
            with explained(self.path):
                self._visible = set(_column(self._documents, "doc_id", where="status = 'done'"))
        return self._visible

    def _nearest_rows(self, query: Float32, k: int, hidden: set[str]) -> list[Candidate]:
        with explained(self.path):
            search = self._pages.search(query, vector_column_name="single").distance_type("dot").limit(k)
            if hidden:
                search = search.where(f"NOT ({_in('doc_id', sorted(hidden))})")
            table = search.select(["doc_id", "number", "_distance"]).with_row_id(True).to_arrow()
        by_distance = sorted(zip(table["_distance"].to_pylist(), _candidates(table), strict=True))
        return [candidate for _, candidate in by_distance]


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
    total = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # another process may be compacting
            total += file.stat().st_size if file.is_file() else 0
    return total
