"""When an index is compacted: LanceDB rewrites all of it, so adding a file to a large one must not do it each time."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from colret.codecs import bytes_per_vector
from colret.column_indexes import column_indexes
from colret.database import TABLES, compact, live_file_bytes, n_fragments, sweep
from colret.types import IndexSettings

MANY_FRAGMENTS: Final = 50  # commits since the last compaction
WORTH_FREEING: Final = 0.3  # dead bytes for each live one
LITTLE: Final = 4_000_000  # bytes, that no compaction is for
BOX_BYTES: Final = 8  # of a vector's box

_IN_ROW: Final = 1 << 16  # bytes of a page's codes up to which they are in the file of its row


def compact_if_due(path: Path, pages: Any, documents: Any, settings: IndexSettings) -> bool:
    """Merge small files and delete dead ones, where there are enough of either; return whether there were.

    Nobody else may be writing: what a writer that was killed left is told from what one is at by
    that alone.
    """
    live, dead = live_bytes(pages, documents, settings), dead_bytes(path, pages, documents, settings)
    if dead <= live * WORTH_FREEING + LITTLE and max(map(n_fragments, (pages, documents))) <= MANY_FRAGMENTS:
        return False
    for table in (pages, documents):
        compact(table)
    sweep(path)
    return True


def live_bytes(pages: Any, documents: Any, settings: IndexSettings) -> int:
    """Return the bytes that the rows of ``pages`` and ``documents``, and the indexes over them, need."""
    n_vectors = pages.search().select(["n_vectors"]).to_arrow()["n_vectors"].to_numpy()
    codes = n_vectors * bytes_per_vector(settings.stored_dim, settings.codec)
    of_indexes = sum(index.n_bytes for index in column_indexes(pages).values())
    return int(codes[codes > _IN_ROW].sum()) + sum(map(live_file_bytes, (pages, documents))) + of_indexes


def dead_bytes(path: Path, pages: Any, documents: Any, settings: IndexSettings) -> int:
    """Return the bytes of deleted rows, of what later versions replaced and of what killed writers left."""
    return max(0, sum(bytes_below(path / table) for table in TABLES) - live_bytes(pages, documents, settings))


def bytes_below(path: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # another process may be compacting
            total += file.stat().st_size if file.is_file() else 0
    return total
