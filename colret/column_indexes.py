"""LanceDB's indexes over columns of the pages: approximate nearest neighbours and full text.

Rows added after an index was built are unindexed: searched too, without its help. Compaction
takes them into the index, and leaves what it says of the others valid, as row ids are stable.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import pyarrow as pa

from colret.types import Float32

AnnKind = Literal["ivf_flat", "ivf_sq", "ivf_rq", "ivf_pq", "hnsw_sq"]
ANN_KINDS: tuple[AnnKind, ...] = get_args(AnnKind)

_CLASSES: Final[dict[AnnKind, str]] = {
    "ivf_flat": "IvfFlat",
    "ivf_sq": "IvfSq",
    "ivf_rq": "IvfRq",
    "ivf_pq": "IvfPq",
    "hnsw_sq": "HnswSq",
}
_ANN_KEY = "colret:ann"  # in the metadata of the indexed column
_TRAINING: Final = {"max_iterations": 20, "sample_rate": 64}
"""Of clusters: a third of the time that LanceDB's 50 and 256 take, and the same recall within the noise."""


class AnnSettings(NamedTuple):
    """How an ANN index is built and asked."""

    kind: AnnKind
    n_partitions: int  # clusters that the vectors are divided into
    n_probes: int  # of them that a query looks into
    refine: int = 0  # k times this many are scored again by their exact vectors; 0 leaves that out


class ColumnIndex(NamedTuple):
    """What LanceDB says of an index over a column."""

    column: str
    kind: str  # as LanceDB calls it
    n_indexed: int  # rows
    n_unindexed: int
    n_bytes: int


def column_indexes(table: Any) -> dict[str, ColumnIndex]:
    """Return a table's indexes by column."""
    found = {}
    for index in table.list_indices():
        [column] = index.columns
        counts = (index.num_indexed_rows, index.num_unindexed_rows, index.size_bytes)
        found[column] = ColumnIndex(column, index.index_type, *(count or 0 for count in counts))
    return found


def build_ann_index(table: Any, column: str, settings: AnnSettings) -> None:
    """Index a column of unit vectors for dot products, in place of an index that is there."""
    import lancedb.index

    kind = getattr(lancedb.index, _CLASSES[settings.kind])
    training = {} if settings.kind == "ivf_pq" else _TRAINING  # codewords need theirs
    config = kind(distance_type="dot", num_partitions=settings.n_partitions, **training)
    table.create_index(column, config=config, name=_name(column))
    put_ann_settings(table, column, settings)


def build_text_index(table: Any, column: str) -> None:
    """Index a column of terms between spaces for BM25, in place of an index that is there."""
    from lancedb.index import FTS

    # Terms are what they should be already. Positions, which phrases need, break compaction.
    config = FTS(
        with_position=False,
        base_tokenizer="whitespace",
        max_token_length=None,
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
    )
    table.create_index(column, config=config, name=_name(column))


def drop_index(table: Any, column: str) -> None:
    """Drop the index over a column."""
    table.drop_index(_name(column))


def put_ann_settings(table: Any, column: str, settings: AnnSettings) -> None:
    """Keep the settings with the column, so that whoever asks it uses them."""
    put_note(table, column, _ANN_KEY, settings._asdict())


def get_ann_settings(table: Any, column: str) -> AnnSettings | None:
    """Return the settings of the ANN index over a column; None if there is no index."""
    kept = get_note(table, column, _ANN_KEY)
    return AnnSettings(**kept) if kept and column in column_indexes(table) else None


def put_note(table: Any, column: str, key: str, value: Any) -> None:
    """Keep what JSON can hold with a column, in place of what it held under that key."""
    table.update_field_metadata({"path": column, "metadata": {key: json.dumps(value)}})


def get_note(table: Any, column: str, key: str) -> Any:
    """Return what is kept with a column; None if nothing is."""
    kept = (table.schema.field(column).metadata or {}).get(key.encode())
    return json.loads(kept) if kept else None


def nearest_rows(
    table: Any,
    column: str,
    query: Float32,
    k: int,
    *,
    select: list[str],
    where: str | None = None,
    ann: AnnSettings | None = None,
) -> pa.Table:
    """Return the ``k`` rows, or all if there are fewer, whose unit vectors are nearest to ``query`` (d,) float32.

    Args:
        table: The table.
        column: Its column of vectors.
        query: A unit vector.
        k: Rows to return.
        select: Columns to return, besides ``_distance`` and ``_rowid``.
        where: An SQL condition that rows must satisfy.
        ann: How to ask the column's index; None compares every vector.
    """

    def ask(n_probes: int | None) -> pa.Table:
        search = table.search(query, vector_column_name=column).distance_type("dot").limit(k)
        if ann is None or n_probes is None:
            search = search.bypass_vector_index()
        else:
            search = search.nprobes(n_probes)
            search = search.refine_factor(ann.refine) if ann.refine else search
        search = search.where(where) if where else search
        return search.select([*select, "_distance"]).with_row_id(True).to_arrow()

    rows = ask(ann.n_probes if ann else None)
    if ann is not None and len(rows) < min(k, table.count_rows()):  # so few lie in the partitions that were probed
        return ask(None)
    return rows


def text_rows(
    table: Any, column: str, terms: Sequence[str], k: int, *, select: list[str], where: str | None = None
) -> pa.Table:
    """Return the ``k`` rows with the highest BM25 score for ``terms``; fewer if fewer have any.

    Which rows have a term is exact. Their ``_score`` is not: it depends on which rows were added
    or deleted since the index was built.
    """
    from lancedb.query import MatchQuery

    search = table.search(MatchQuery(" ".join(terms), column), query_type="fts").limit(k)
    search = search.where(where) if where else search
    return search.select([*select, "_score"]).with_row_id(True).to_arrow()


def _name(column: str) -> str:
    return f"{column}_index"
