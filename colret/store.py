"""The index: pages, documents and settings in one LanceDB database.

Four tables. ``pages`` carries a page whole: its single vector for the prefilter, its codes
for MaxSim, its words and boxes. ``documents`` is the commit record: a document's row is
written after its pages and deleted before them, and pages of a document without a "done" row
are invisible. So a reader that looks at ``documents`` first and at ``pages`` second sees
complete documents only, whatever a writer does meanwhile. ``arrays`` holds the projection,
where vectors are stored in fewer or rotated dimensions. ``settings`` is written last of all
when an index is made.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colret.cache_folder import most_bytes
from colret.codecs import bytes_per_vector, decode
from colret.column_indexes import (
    AnnSettings,
    ColumnIndex,
    build_ann_index,
    build_text_index,
    column_indexes,
    drop_index,
    get_ann_settings,
    get_note,
    nearest_rows,
    put_ann_settings,
    put_note,
    text_rows,
)
from colret.compaction import compact_if_due, dead_bytes
from colret.database import (
    StaleReadError,
    Tables,
    check_still,
    create_tables,
    exclusive,
    explained,
    folder_at,
    is_index,
    open_tables,
    written,
)
from colret.errors import StoreError
from colret.index_folder import IndexFolder
from colret.location import Location, StrPath
from colret.page_cache import PageCache
from colret.page_table import COLUMNS, PageTable
from colret.schema import (
    DOCUMENTS_SCHEMA,
    array_rows,
    document_record,
    document_row,
    page_details,
    page_rows,
    read_array,
)
from colret.types import (
    Candidate,
    DocumentRecord,
    EncodedPage,
    EncoderInfo,
    Float32,
    IndexInfo,
    IndexSettings,
    Int64,
    Multivectors,
    PageDetails,
    PageRef,
)

# Unindexed pages that are put up with. Each makes a text query 0.2 ms slower; building the text
# index takes 0.2 ms a page, so what makes it due took several times longer to ingest.
TEXT_LAG, TEXT_LAG_SHARE = 64, 1 / 200

_KEY_CHUNK = 500  # ids in one SQL list
_PROJECTION = "projection"  # its name in ``arrays``


class PageStore:
    """An open index. Reads see the moment of the last ``refresh``; write under ``writing``."""

    def __init__(self, folder: IndexFolder, tables: Tables) -> None:
        self.location = folder.location
        self.folder = folder
        self.settings = tables.settings
        self._pages = tables.pages
        self._documents = tables.documents
        self._arrays = tables.arrays
        self._projection: Float32 | None = None
        remote = self.location.folder is None
        self._copies = PageCache(self.side_files, most_bytes()) if remote else None
        self._refreshed_at = -math.inf
        self._seen = self._versions()  # that are of this index
        # As of the last refresh:
        self._visible: set[str] | None = None  # documents whose pages may be seen
        self._table: PageTable | None = None
        self._derived: dict[Hashable, Any] = {}

    @classmethod
    def create(cls, place: Location | StrPath, settings: IndexSettings) -> PageStore:
        """Make an empty index in a folder or an object store, finishing one whose making was interrupted.

        Raises:
            StoreError: If there is an index already, tables of somebody else's lie there, or the
                place cannot be written.
        """
        folder = folder_at(Location.of(place))
        return cls(folder, create_tables(folder, settings))

    @classmethod
    def open(cls, place: Location | StrPath) -> PageStore:
        """Open the index in a folder or an object store.

        Raises:
            StoreError: If there is none, or another format version wrote it.
        """
        folder = folder_at(Location.of(place))
        return cls(folder, open_tables(folder))

    @staticmethod
    def exists(place: Location | StrPath) -> bool:
        """Tell whether there is a finished index in a folder or an object store."""
        return is_index(folder_at(Location.of(place)))

    @property
    def path(self) -> Path:
        """The folder that it is in.

        Raises:
            StoreError: If it is in an object store.
        """
        if self.location.folder is None:
            raise StoreError(self.location, "is no folder of this machine", "copy the index into one first")
        return self.location.folder

    @property
    def side_files(self) -> Path:
        """The folder of this machine for what is made from the index: its own, or one of copies."""
        return self.folder.side_files(self.settings.created)

    def check_encoder(self, encoder: EncoderInfo) -> None:
        """Refuse an encoder that did not make this index: its scores would mean nothing.

        Raises:
            StoreError: If model, revision, dimension, query template or kept page tokens differ.
        """
        for name in ("family", "revision", "dim", "query_template", "page_tokens"):
            mine, other = getattr(self.settings, name), getattr(encoder, name)
            if mine != other:
                problem = f"was made by {self.settings.model} ({name} {mine}), not {encoder.name} ({name} {other})"
                raise StoreError(self.location, problem, "leave --model out, or ingest into a new --index")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the index's one writer meanwhile; the lock dies with the process.

        Raises:
            StoreError: If another process is writing.
        """
        with exclusive(self.folder):
            self.refresh()
            yield

    def refresh(self, *, within: float = 0.0) -> None:
        """See what has been committed until now.

        Args:
            within: In an object store, where each look takes a round trip, do without it if the
                last one was at most so many seconds ago.

        Raises:
            StoreError: If it cannot be read, or is another index by now.
        """
        now = time.monotonic()
        if self._copies is not None and now - self._refreshed_at < within:
            return
        self._refreshed_at = now
        with explained(self.location):
            self._documents.checkout_latest()  # before the pages: see the module's docstring
            self._pages.checkout_latest()
        if self._versions() != self._seen:
            self._forget()
            check_still(self.folder, self.settings)
            self._seen = self._versions()

    # Writing

    def add_pages(self, pages: Sequence[EncodedPage]) -> None:
        """Append pages in one commit; those without vectors are left out."""
        rows = [page for page in pages if len(page.embedding.vectors)]
        if not rows:
            return
        table = page_rows(rows, self.settings)
        self._forget()
        with written(self.folder):
            self._pages.add(table)

    def put_projection(self, matrix: Float32) -> None:
        """Keep the (D, d) float32 matrix that vectors are projected with, before any page is added.

        Raises:
            ValueError: If it does not lead from the encoder's dimensions to the stored ones.
        """
        if matrix.shape != (self.settings.dim, self.settings.stored_dim):
            raise ValueError(f"a projection of this index is {self.settings.dim} x {self.settings.stored_dim}")
        with written(self.folder):
            self._arrays.add(array_rows(_PROJECTION, matrix))

    def put_documents(self, records: Sequence[DocumentRecord]) -> None:
        """Write documents' records, replacing those with the same id: this makes pages visible."""
        if not records:
            return
        rows = pa.Table.from_pylist([document_row(record) for record in records], schema=DOCUMENTS_SCHEMA)
        self._forget()
        with written(self.folder):
            merge = self._documents.merge_insert("doc_id").when_matched_update_all().when_not_matched_insert_all()
            merge.use_index(False).execute(rows)  # with a scalar index, concurrent merges can double keys

    def remove_documents(self, doc_ids: Sequence[str]) -> None:
        """Delete documents with all their pages: their records first, so that no half of one is seen."""
        self._forget()
        for table in (self._documents, self._pages):
            with written(self.folder):  # each for itself: no power cut may keep a record and take its pages
                for chunk in _chunks(doc_ids):
                    table.delete(_in("doc_id", chunk))

    def remove_orphans(self) -> int:
        """Delete pages that no commit record covers: what a killed ingest left. Return their number.

        In an object store, also what a late write of a writer that had lost its lease leaves.
        """
        visible = self._visible_documents()
        with explained(self.location):
            self.folder.check_writer()
            held = list(_column(self._pages, "doc_id"))
            orphans = [doc_id for doc_id in held if doc_id not in visible]
            for chunk in _chunks(sorted(set(orphans))):
                self._pages.delete(_in("doc_id", chunk))
        if not self.folder.is_private:
            self._remove_hollow(set(held))
            return len(orphans) + self._remove_doubles()
        return len(orphans)

    def _remove_hollow(self, held: Set[str]) -> None:
        """Delete the records of documents that have none of their pages any more, so that they are read again.

        Args:
            held: The documents that have pages.
        """
        hollow = [
            record.doc_id
            for record in self.documents()
            if record.status == "done" and record.doc_id not in held and record.n_pages > record.n_left_out
        ]
        if hollow:
            self._forget()
        with explained(self.location):
            for chunk in _chunks(hollow):
                self._documents.delete(_in("doc_id", chunk))

    def _remove_doubles(self) -> int:
        """Delete pages that a writer added after it had lost its lease, and another too. Return their number."""
        with explained(self.location):
            rows = self._pages.search().select(["doc_id"]).with_row_id(True).to_arrow()
            seen = set(self.page_table().row_ids.tolist())
            doubles = sorted(set(rows["_rowid"].to_pylist()) - seen)
            for start in range(0, len(doubles), _KEY_CHUNK):
                self._pages.delete(f"_rowid IN ({', '.join(map(str, doubles[start : start + _KEY_CHUNK]))})")
        if doubles:
            self._forget()
        return len(doubles)

    def compact(self) -> None:
        """Merge small files and delete dead ones, where there are enough of either."""
        with explained(self.location):
            self.folder.check_writer()
            if compact_if_due(self.folder, self._pages, self._documents, self.settings):
                self._forget()

    # Reading

    def documents(self) -> list[DocumentRecord]:
        """Return every document's record, ordered by first path."""
        with explained(self.location):
            rows = self._documents.to_arrow().to_pylist()
        records = [document_record(row) for row in rows]
        return sorted(records, key=lambda record: (record.files[0].path if record.files else "", record.doc_id))

    def projection(self) -> Float32 | None:
        """Return the (D, d) float32 matrix that vectors are projected with; None if there is none, or none yet."""
        if self.settings.projected and self._projection is None:
            with explained(self.location):
                self._arrays.checkout_latest()
                self._projection = read_array(self._arrays.to_arrow(), _PROJECTION)
        return self._projection

    def page_table(self) -> PageTable:
        """Return the visible pages."""
        if self._table is None:
            visible = self._visible_documents()
            with explained(self.location):
                rows = self._pages.search().select(list(COLUMNS)).with_row_id(True).to_arrow()
            self._table = PageTable.from_arrow(rows, visible)
        return self._table

    def derived(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what ``make`` computes from the page table, computed once until that changes."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def forget(self, key: Hashable) -> None:
        """Have ``derived`` compute ``key`` again."""
        self._derived.pop(key, None)

    @property
    def version(self) -> tuple[int, int]:
        """Of the documents and of the pages, as they are seen: another after each commit."""
        return self._versions()

    def n_pages(self) -> int:
        """Return N, the number of visible pages."""
        return len(self.page_table())

    def candidates(self) -> list[Candidate]:
        """Return every visible page, ordered by reference."""
        return self.page_table().candidates()

    def vectors(self, places: Int64) -> Multivectors:
        """Return the stored vectors of the pages at ``places`` of the page table, in that order."""
        table = self.page_table()
        row_ids = table.row_ids[places]
        sizes = table.n_vectors[places] * bytes_per_vector(self.settings.stored_dim, self.settings.codec)
        if self._copies:
            page_ids = [page.ref.page_id for page in table.candidates(places)]
            flat = self._copies.read(row_ids, page_ids, sizes, self._fetch)
        else:
            flat = self._fetch(row_ids)
        return decode(flat, sizes, table.scales[places], self.settings.stored_dim, self.settings.codec)

    def singles(self, places: Int64) -> Float32:
        """Return the single vectors of the pages at ``places``, (len(places), d) float32, in that order."""
        singles = self._column_at("single", places)
        return np.asarray(singles.flatten().to_numpy().reshape(len(places), -1), np.float32)

    def image_hashes(self, places: Int64) -> NDArray[np.uint64]:
        """Return the perceptual hashes of the pages at ``places``, (len(places),), in that order."""
        hashes: NDArray[np.uint64] = self._column_at("image_hash", places).to_numpy().view(np.uint64)
        return hashes

    def terms(self, places: Int64) -> list[str]:
        """Return the terms of the pages at ``places``, in that order, as ``bm25.joined`` made them."""
        terms: list[str] = self._column_at("terms", places).to_pylist()
        return terms

    def texts(self, places: Int64) -> list[str]:
        """Return the words of the pages at ``places``, in that order, single spaces between them."""
        texts: list[str] = self._column_at("text", places).to_pylist()
        return texts

    def details(self, row_ids: Sequence[int]) -> list[PageDetails]:
        """Return what is known of pages besides their vectors, in the order of ``row_ids``."""
        columns = ["doc_id", "number", "width", "height", "text", "word_boxes", "boxes"]
        with explained(self.location):
            table = self._pages.take_row_ids(list(row_ids)).select(columns).with_row_id().to_arrow()
        by_id = {row["_rowid"]: page_details(row) for row in table.to_pylist()}
        if missing := set(row_ids) - by_id.keys():
            raise StoreError(self.location, f"{len(missing)} of the pages are gone", "search again")
        return [by_id[row_id] for row_id in row_ids]

    def paths(self, doc_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the paths that hold each document."""
        found: dict[str, list[str]] = {}
        with explained(self.location):
            for chunk in _chunks(sorted(set(doc_ids))):
                rows = self._documents.search().where(_in("doc_id", chunk)).select(["doc_id", "files"]).to_arrow()
                found |= {row["doc_id"]: [file["path"] for file in row["files"]] for row in rows.to_pylist()}
        return found

    def info(self) -> IndexInfo:
        """Count what the index holds and the bytes it takes on disk."""
        records = self.documents()
        done = {record.doc_id for record in records if record.status == "done"}
        with explained(self.location):
            table = self._pages.search().select(["doc_id", "n_vectors"]).to_arrow()
            n_dead = dead_bytes(self.folder, self._pages, self._documents, self.settings)
        sizes = [n for doc_id, n in zip(*map(pa.ChunkedArray.to_pylist, table.columns), strict=True) if doc_id in done]
        return IndexInfo(
            settings=self.settings,
            n_documents=len(done),
            n_failed=sum(record.status == "failed" for record in records),
            n_pages=len(sizes),
            n_blank=sum(record.n_blank for record in records if record.doc_id in done),
            n_skipped_pages=sum(len(record.skipped) for record in records if record.doc_id in done),
            n_vectors=sum(sizes),
            bytes_on_disk=self.folder.n_bytes(),
            dead_bytes=n_dead,
        )

    # Indexes

    def nearest(
        self, query: Float32, k: int, *, exact: bool = False, trial: AnnSettings | None = None
    ) -> list[Candidate]:
        """Return the ``k`` visible pages whose single vectors are nearest to ``query``, nearest first.

        Equal distances are ordered by page, though which of several equal pages make the cut is
        the database's choice.

        Args:
            query: A unit vector, (d,) float32.
            k: Pages to return; an index of fewer returns them all.
            exact: Compare every page, though there be an ANN index.
            trial: How to ask the ANN index, in place of the settings kept with it.
        """
        ann = None if exact else trial or self.ann_settings()

        def ask(where: str | None) -> pa.Table:
            return nearest_rows(self._pages, "single", query, k, select=["doc_id", "number"], where=where, ann=ann)

        return self._visible_only(ask, lambda rows: rows["_distance"].to_pylist())

    def matching_terms(self, terms: Sequence[str], k: int, *, doc_ids: Sequence[str] | None = None) -> list[Candidate]:
        """Return the at most ``k`` visible pages with the highest BM25 score for ``terms``, best first.

        Equal scores are ordered by page. Pages that have none of the terms are left out. The scores
        are LanceDB's, which depend on the history of the index: good enough for choosing candidates.

        Args:
            terms: As ``terms.query_terms`` gives them; at least one.
            k: Most pages to return.
            doc_ids: The documents to look into; all by default.
        """
        within = None if doc_ids is None else _in("doc_id", doc_ids)

        def ask(where: str | None) -> pa.Table:
            where = f"({within}) AND ({where})" if within and where else within or where
            return text_rows(self._pages, "terms", terms, k, select=["doc_id", "number"], where=where)

        return self._visible_only(ask, lambda rows: [-score for score in rows["_score"].to_pylist()])

    def places_with_term(self, term: str) -> Int64:
        """Return the places of all visible pages that have a term, ascending."""
        with explained(self.location):
            if "terms" in self.column_indexes():
                rows = text_rows(self._pages, "terms", [term], max(self._pages.count_rows(), 1), select=[])
            else:  # before the first ingest is done
                quoted = term.replace("'", "''")
                found = self._pages.search().where(f"contains(terms, ' {quoted} ')")
                rows = found.select(["number"]).with_row_id(True).to_arrow()
        return np.sort(self.page_table().places(rows["_rowid"].to_pylist()))

    def column_indexes(self) -> dict[str, ColumnIndex]:
        """Return LanceDB's indexes over the pages, by column: ``single`` and ``terms`` may have one."""
        with explained(self.location):
            return column_indexes(self._pages)

    def ann_settings(self) -> AnnSettings | None:
        """Return how the ANN index over single vectors is asked; None if there is none."""

        def read() -> AnnSettings | None:
            with explained(self.location):
                return get_ann_settings(self._pages, "single")

        settings: AnnSettings | None = self.derived("ann", read)
        return settings

    def build_ann_index(self, settings: AnnSettings) -> None:
        """Index the single vectors, in place of an ANN index that is there; under ``writing``."""
        self._forget()
        with explained(self.location):
            self.folder.check_writer()
            build_ann_index(self._pages, "single", settings)

    def put_ann_settings(self, settings: AnnSettings) -> None:
        """Change how the ANN index is asked; under ``writing``."""
        self._forget()
        with explained(self.location):
            self.folder.check_writer()
            put_ann_settings(self._pages, "single", settings)

    def note(self, key: str) -> Any:
        """Return what JSON can hold and is kept with the index under ``key``; None if nothing is."""
        with explained(self.location):
            return get_note(self._pages, "page_id", key)

    def put_note(self, key: str, value: Any) -> None:
        """Keep what JSON can hold with the index, in place of what it held under ``key``; under ``writing``."""
        self._forget()
        with written(self.folder):
            put_note(self._pages, "page_id", key, value)

    def build_text_index(self) -> None:
        """Index the pages' terms, in place of a text index that is there; under ``writing``."""
        with explained(self.location):
            self.folder.check_writer()
            build_text_index(self._pages, "terms")

    def drop_index(self, column: str) -> None:
        """Drop the index over a column; under ``writing``."""
        self._forget()
        with explained(self.location):
            self.folder.check_writer()
            drop_index(self._pages, column)

    def update_indexes(self) -> None:
        """Make the text index, or make it anew if many pages are missing in it; under ``writing``.

        LanceDB adds rows to an index only while it compacts, which rewrites every page.
        """
        if not self._pages.count_rows():
            return
        text = self.column_indexes().get("terms")
        if text is None or text.n_unindexed > TEXT_LAG + text.n_indexed * TEXT_LAG_SHARE:
            self.build_text_index()

    def _fetch(self, row_ids: Int64) -> NDArray[np.uint8]:
        """Return the codes of pages, one after another, as the database has them."""
        with explained(self.location):
            codes = self._pages.fetch_blobs("codes", row_ids.tolist())
        _, offsets, values = codes.buffers()
        ends = np.frombuffer(offsets, np.int64)[codes.offset : codes.offset + len(codes) + 1]
        return np.frombuffer(values, np.uint8)[ends[0] : ends[-1]]

    def _column_at(self, column: str, places: Int64) -> pa.Array:
        """Return a column of the pages at ``places``, in that order."""
        row_ids = self.page_table().row_ids[places]
        with explained(self.location):
            rows = self._pages.take_row_ids(row_ids.tolist()).select([column]).with_row_id().to_arrow()
        found = rows["_rowid"].to_numpy().astype(np.int64)  # in the table's order, not that of the request
        if len(found) != len(row_ids):
            raise StaleReadError(self.location, "pages are gone", "search again")
        order = np.argsort(found)
        return rows[column].combine_chunks().take(order[np.searchsorted(found, row_ids, sorter=order)])

    def _visible_only(
        self, ask: Callable[[str | None], pa.Table], keys: Callable[[pa.Table], list[float]]
    ) -> list[Candidate]:
        """Return what ``ask`` finds, by ascending key, then page; documents that nobody may see yet are left out."""
        visible = self._visible_documents()
        hidden: set[str] = set()
        while True:
            with explained(self.location):
                rows = ask(f"NOT ({_in('doc_id', sorted(hidden))})" if hidden else None)
            found = sorted(zip(keys(rows), _candidates(rows), strict=True))
            unseen = {candidate.ref.doc_id for _, candidate in found} - visible
            if not unseen:
                return [candidate for _, candidate in found]
            hidden |= unseen  # in the middle of being written: ask again without them

    def _versions(self) -> tuple[int, int]:
        return self._documents.version, self._pages.version

    def _forget(self) -> None:
        """Forget what was read: this or another process has changed it."""
        self._visible = None
        self._table = None
        self._derived = {}

    def _visible_documents(self) -> set[str]:
        if self._visible is None:
            with explained(self.location):
                self._visible = set(_column(self._documents, "doc_id", where="status = 'done'"))
        return self._visible


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
