"""The files that indexed pages came from, as long as they are what they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from colret.addresses import Address, Place
from colret.copies import known_copy, make_copy
from colret.documents import check_file, display_path, document_id
from colret.errors import DocumentError
from colret.places import place_of
from colret.reading import open_document
from colret.store import PageStore
from colret.types import Page, PageRef

_NO_OPTIONS: Mapping[str, str] = {}


def find_original(store: PageStore, doc_id: str) -> Path:
    """Return the first file that still holds the document's content; every byte of it is read.

    Of an object it is a copy, which is there for a while: see ``copies``.

    Raises:
        DocumentError: If none does: they are gone (``missing``), or hold something else.
        StoreError: If the index cannot be read.
    """
    return original_among(doc_id, store.paths([doc_id]).get(doc_id, []), store.location.options)


def original_among(doc_id: str, paths: Sequence[str], options: Mapping[str, str] = _NO_OPTIONS) -> Path:
    """Return the first of ``paths`` that still holds the document's content; raises as ``find_original``.

    Args:
        doc_id: Of the document.
        paths: Of files, and addresses of objects, as the index has them.
        options: What opens the buckets of the addresses: see ``object_storage``.
    """
    if copy := known_copy(doc_id):
        return copy
    failure = DocumentError(doc_id, "not in the index", "see: colret list", reason="missing")
    for text in paths:
        place = place_of(text, options)
        try:
            found, path = make_copy(place) if isinstance(place, Address) else (document_id(place), place)
            if found == doc_id:
                return path
            failure = DocumentError(
                display_path(place), "has changed since it was ingested", "ingest it again", reason="changed_while_read"
            )
        except DocumentError as error:
            failure = error
    raise failure


def local_file(place: Place) -> Path:
    """Return the file that holds a document, or a copy of the object that does; see ``copies``.

    Raises:
        DocumentError: It is no document, is missing or cannot be read.
    """
    if isinstance(place, Address):
        return make_copy(place)[1]
    check_file(place)
    return place


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
