"""When an index is compacted: LanceDB rewrites all of it, so adding a file to a large one must not do it each time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from colret.codecs import bytes_per_vector
from colret.column_indexes import column_indexes, get_note, put_note
from colret.database import compact, n_fragments
from colret.types import IndexSettings

MANY_FRAGMENTS: Final = 50  # commits since the last compaction
WORTH_FREEING: Final = 0.3  # dead bytes for each live one
LITTLE: Final = 4_000_000  # bytes, that no compaction is for
BOX_BYTES: Final = 8  # of a vector's box
BESIDE_VECTORS: Final = 8_000  # bytes of a page's words and their boxes, and of what its row costs

_COMPACTED = "colret:compacted"  # bytes a page after the last compaction, kept with the column ``text``


def compact_if_due(path: Path, pages: Any, documents: Any, settings: IndexSettings) -> bool:
    """Merge small files and delete dead ones, where there are enough of either; return whether there were."""
    n_rows, tables = pages.count_rows(), (pages, documents)
    live = n_rows * _bytes_a_page(pages, settings) + _index_bytes(pages)
    dead = _table_bytes(path) - live
    if dead <= live * WORTH_FREEING + LITTLE and max(map(n_fragments, tables)) <= MANY_FRAGMENTS:
        return False
    for table in tables:
        compact(table)
    if n_rows:
        put_note(pages, "text", _COMPACTED, (_table_bytes(path) - _index_bytes(pages)) / n_rows)
    return True


def bytes_below(path: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # another process may be compacting
            total += file.stat().st_size if file.is_file() else 0
    return total


def _bytes_a_page(pages: Any, settings: IndexSettings) -> float:
    """Return what a page took when the index was last compacted; before that, a guess."""
    measured = get_note(pages, "text", _COMPACTED)
    if measured is not None:
        return float(measured)
    n_vectors: Sequence[int] = pages.search().select(["n_vectors"]).to_arrow()["n_vectors"].to_pylist()
    of_vectors = sum(n_vectors) * (bytes_per_vector(settings.stored_dim, settings.codec) + BOX_BYTES)
    return of_vectors / max(len(n_vectors), 1) + 4 * settings.stored_dim + BESIDE_VECTORS


def _index_bytes(pages: Any) -> int:
    return sum(index.n_bytes for index in column_indexes(pages).values())


def _table_bytes(path: Path) -> int:
    return sum(bytes_below(path / f"{name}.lance") for name in ("pages", "documents"))
