"""The table of visible pages: page order, visibility, and places by row id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from colret.page_table import PageTable
from colret.types import Candidate, PageRef

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ab", "B", "é"]), st.integers(1, 2000)), unique=True, min_size=1, max_size=30
)


def table(rows: list[tuple[str, int]]) -> pa.Table:
    """Return rows as the index gives them, row ids counting from 7."""
    ids, numbers = zip(*rows, strict=True)
    columns = {
        "doc_id": pa.array(ids, pa.string()),
        "number": pa.array(numbers, pa.int32()),
        "n_vectors": pa.array([number + 1 for number in numbers], pa.int32()),
        "scale": pa.array([float(number) for number in numbers], pa.float32()),
        "text_length": pa.array([2 * number for number in numbers], pa.int32()),
        "contents": pa.array([number % 3 == 0 for number in numbers]),
        "_rowid": pa.array(range(7, 7 + len(rows)), pa.uint64()),
    }
    return pa.table(columns)


@given(ROWS, st.sets(st.sampled_from(["a", "b", "B", "é", "other"])))
def test_visible_pages_stand_in_page_order(rows: list[tuple[str, int]], visible: set[str]) -> None:
    pages = PageTable.from_arrow(table(rows), visible)
    expected = sorted(
        Candidate(PageRef(doc_id, number), 7 + i) for i, (doc_id, number) in enumerate(rows) if doc_id in visible
    )
    assert pages.candidates() == expected
    assert len(pages) == len(expected)
    assert pages.n_vectors.tolist() == [page.ref.number + 1 for page in expected]
    assert pages.scales.tolist() == [float(page.ref.number) for page in expected]
    assert pages.text_lengths.tolist() == [2 * page.ref.number for page in expected]
    assert pages.contents.tolist() == [page.ref.number % 3 == 0 for page in expected]
    assert pages.as_arrow().to_pylist() == [
        {"doc_id": page.ref.doc_id, "number": page.ref.number, "n_vectors": page.ref.number + 1} for page in expected
    ]


@given(ROWS, st.lists(st.integers(0, 60)))
def test_places_follow_the_row_ids_asked_for(rows: list[tuple[str, int]], row_ids: list[int]) -> None:
    pages = PageTable.from_arrow(table(rows), {"a", "B"})
    by_row = {page.row_id: place for place, page in enumerate(pages.candidates())}
    assert pages.places(row_ids).tolist() == [by_row[row_id] for row_id in row_ids if row_id in by_row]


def test_chosen_places_come_in_the_order_asked_for() -> None:
    pages = PageTable.from_arrow(table([("b", 1), ("a", 2), ("a", 1)]), {"a", "b"})
    everything = pages.candidates()
    assert pages.candidates(np.array([2, 0])) == [everything[2], everything[0]]
