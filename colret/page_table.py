"""Every page that a search may find, in memory: 41 bytes a page, and each document's id once."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colret.types import Candidate, Float32, Int64, PageRef

COLUMNS = ("doc_id", "number", "n_vectors", "scale", "text_length", "contents")
"""What the table needs of the index's ``pages``, besides row ids."""


@dataclass(frozen=True, slots=True)
class PageTable:
    """The visible pages in page order; a page is known by its place, from 0 to N - 1."""

    doc_ids: tuple[str, ...]  # each document once, ascending
    documents: NDArray[np.int32]  # (N,) places in doc_ids
    numbers: NDArray[np.int32]  # (N,) page numbers
    row_ids: Int64  # (N,) where the index keeps each page
    n_vectors: Int64  # (N,) P of each
    scales: Float32  # (N,) what multiplies each page's codes
    text_lengths: NDArray[np.int32]  # (N,) words of each
    contents: NDArray[np.bool_]  # (N,) whether a page is a list of contents
    by_row_id: Int64  # (N,) places in the order of row ids

    def __len__(self) -> int:
        """Return N."""
        return len(self.row_ids)

    @classmethod
    def from_arrow(cls, rows: pa.Table, visible: Set[str]) -> PageTable:
        """Build it from rows of ``COLUMNS`` and ``_rowid``, leaving out documents that are not visible.

        Of rows for the same page the oldest counts: a writer that lost its lease while it wrote may
        have doubled some. See ``lease``.
        """
        column = rows["doc_id"].combine_chunks()
        rows = rows.filter(pc.is_in(column, pa.array(sorted(visible), column.type)))
        encoded = rows["doc_id"].combine_chunks().dictionary_encode()
        names: list[str] = encoded.dictionary.to_pylist()
        order = sorted(range(len(names)), key=names.__getitem__)
        place = np.empty(len(names), np.int32)
        place[order] = np.arange(len(names), dtype=np.int32)
        documents = place[encoded.indices.to_numpy()]
        numbers = rows["number"].to_numpy()
        row_ids = rows["_rowid"].to_numpy().astype(np.int64)
        by_page = np.lexsort((row_ids, numbers, documents))
        by_page = by_page[_first_of_equal(documents[by_page], numbers[by_page])]
        row_ids = row_ids[by_page]
        return cls(
            tuple(names[i] for i in order),
            documents[by_page],
            numbers[by_page],
            row_ids,
            rows["n_vectors"].to_numpy().astype(np.int64)[by_page],
            rows["scale"].to_numpy()[by_page],
            rows["text_length"].to_numpy()[by_page],
            rows["contents"].to_numpy()[by_page],
            np.argsort(row_ids),
        )

    def candidates(self, places: Int64 | None = None) -> list[Candidate]:
        """Return the pages at ``places``, or all of them."""
        chosen = slice(None) if places is None else places
        columns = (column[chosen].tolist() for column in (self.documents, self.numbers, self.row_ids))
        return [Candidate(PageRef(self.doc_ids[i], number), row_id) for i, number, row_id in zip(*columns, strict=True)]

    def places(self, row_ids: Iterable[int]) -> Int64:
        """Return the places of those of ``row_ids`` that are visible, in their order."""
        places, visible = self.locate(np.fromiter(row_ids, np.int64))
        return places[visible]

    def locate(self, row_ids: Int64) -> tuple[Int64, NDArray[np.bool_]]:
        """Return the place of each of ``row_ids``, and whether it is visible; if not, its place means nothing."""
        if not len(self):
            return np.zeros(len(row_ids), np.int64), np.zeros(len(row_ids), np.bool_)
        at = np.searchsorted(self.row_ids, row_ids, sorter=self.by_row_id)
        places = self.by_row_id[np.minimum(at, len(self) - 1)]
        return places, self.row_ids[places] == row_ids

    def as_arrow(self) -> pa.Table:
        """Return doc_id, number and n_vectors of each page, in page order."""
        ids = pa.DictionaryArray.from_arrays(pa.array(self.documents), pa.array(self.doc_ids, pa.string()))
        return pa.table(
            {"doc_id": ids.cast(pa.string()), "number": self.numbers, "n_vectors": self.n_vectors.astype(np.int32)}
        )


def _first_of_equal(*columns: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which rows, sorted by ``columns``, differ from the row before them."""
    differs = np.ones(len(columns[0]), np.bool_)
    if len(differs):
        differs[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return differs
