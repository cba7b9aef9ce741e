"""Pages as people name them: a document and a number."""

from __future__ import annotations

from colret.errors import ColretError
from colret.search import Scope, pages_in_scope
from colret.store import PageStore
from colret.types import Candidate, PageRef


def page_named(store: PageStore, name: str, number: int) -> tuple[PageRef, Candidate | None]:
    """Return the page of a document, and its place in the index; None if it has no vectors, such as a blank one.

    Args:
        store: The index.
        name: One document, as ``filters.page_mask`` takes it: a path, a glob, or the beginning of an id.
        number: From 1.

    Raises:
        FilterError: If ``name`` names no document.
        ColretError: If it names several.
    """
    pages = store.page_table().candidates(pages_in_scope(store, Scope(docs=(name,))))
    ids = sorted({page.ref.doc_id for page in pages})
    if len(ids) > 1:
        raise ColretError(name, f"names {len(ids)} documents", "give the whole path of one, or its id")
    ref = PageRef(ids[0], number)
    return ref, next((page for page in pages if page.ref == ref), None)
