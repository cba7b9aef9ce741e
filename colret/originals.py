"""The files that indexed pages came from, as long as they are what they were."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colret.documents import display_path, document_id, path_on_disk
from colret.errors import DocumentError
from colret.reading import open_document
from colret.store import PageStore
from colret.types import Page, PageRef


def find_original(store: PageStore, doc_id: str) -> Path:
    """Return the first file that still holds the document's content; every byte of it is read.

    Raises:
        DocumentError: If none does: they are gone (``missing``), or hold something else.
        StoreError: If the index cannot be read.
    """
    paths = store.paths([doc_id]).get(doc_id, [])
    failure = DocumentError(doc_id, "not in the index", "see: colret list", reason="missing")
    for text in paths:
        path = path_on_disk(text)
        try:
            if document_id(path) == doc_id:
                return path
            failure = DocumentError(
                display_path(path), "has changed since it was ingested", "ingest it again", reason="changed_while_read"
            )
        except DocumentError as error:
            failure = error
    raise failure


def read_page_of(path: Path, ref: PageRef, *, pixels: int, ocr: bool = False, passwords: Sequence[str] = ()) -> Page:
    """Return a page of the file at ``path``.

    Args:
        path: Of a document.
        ref: What the page is called, and its number.
        pixels: Largest number of pixels of its image; 0 leaves the image out.
        ocr: Read the image where the page has no text layer.
        passwords: To try on a PDF that needs one.

    Raises:
        DocumentError: The file or the page cannot be read, or there is no such page.
    """
    with open_document(path, passwords=passwords) as document:
        if not 1 <= ref.number <= document.n_pages:
            pages = "1 page" if document.n_pages == 1 else f"{document.n_pages:,} pages"
            raise DocumentError(
                f"{display_path(path)} page {ref.number}", f"there are {pages}", "give one of them", reason="missing"
            )
        return document.read_page(ref.number, ref=ref, pixels=pixels, ocr=ocr)
