"""When an index is compacted: LanceDB rewrites all of it, so adding a file to a large one must not do it each time."""

from __future__ import annotations

from typing import Any, Final

from colret.codecs import bytes_per_vector
from colret.column_indexes import column_indexes, get_note, put_note
from colret.database import compact, live_file_bytes, n_fragments
from colret.index_folder import TABLES, IndexFolder
from colret.types import IndexSettings

MANY_FRAGMENTS: Final = 50  # commits since the last compaction
WORTH_FREEING: Final = 0.3  # dead bytes for each live one
LITTLE: Final = 4_000_000  # bytes, that no compaction is for
BOX_BYTES: Final = 8  # of a vector's box

_NOTED: Final = "page_id"  # the column that notes are kept with
_UNFREED: Final = "colret:unfreed"  # a note: dead bytes that the last compaction had to leave
_IN_ROW: Final = 1 << 16  # bytes of a page's codes up to which they are in the file of its row


def compact_if_due(folder: IndexFolder, pages: Any, documents: Any, settings: IndexSettings) -> bool:
    """Merge small files and delete dead ones, where there are enough of either; return whether there were.

    Nobody else may be writing: what a writer that was killed left is told from what one is at by
    that alone. In an object store a writer may not know yet that it is one no more, so what is
    left there stays for a week, and is no reason to compact again.
    """
    live, dead = live_bytes(pages, documents, settings), dead_bytes(folder, pages, documents, settings)
    unfreed = 0 if folder.is_private else get_note(pages, _NOTED, _UNFREED) or 0
    few_fragments = max(map(n_fragments, (pages, documents))) <= MANY_FRAGMENTS
    if dead - unfreed <= live * WORTH_FREEING + LITTLE and few_fragments:
        return False
    for table in (pages, documents):
        compact(table, is_private=folder.is_private)
    folder.sweep()
    if not folder.is_private:
        put_note(pages, _NOTED, _UNFREED, dead_bytes(folder, pages, documents, settings))
    return True


def live_bytes(pages: Any, documents: Any, settings: IndexSettings) -> int:
    """Return the bytes that the rows of ``pages`` and ``documents``, and the indexes over them, need."""
    n_vectors = pages.search().select(["n_vectors"]).to_arrow()["n_vectors"].to_numpy()
    codes = n_vectors * bytes_per_vector(settings.stored_dim, settings.codec)
    of_indexes = sum(index.n_bytes for index in column_indexes(pages).values())
    return int(codes[codes > _IN_ROW].sum()) + sum(map(live_file_bytes, (pages, documents))) + of_indexes


def dead_bytes(folder: IndexFolder, pages: Any, documents: Any, settings: IndexSettings) -> int:
    """Return the bytes of deleted rows, of what later versions replaced and of what killed writers left."""
    return max(0, sum(map(folder.n_bytes, TABLES)) - live_bytes(pages, documents, settings))
