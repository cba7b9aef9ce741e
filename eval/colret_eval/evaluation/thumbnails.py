"""Small pictures of pages, as data URIs that a report can carry."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from typing import Final

from PIL import Image

from colret.errors import ColretError
from colret.reading import open_document
from colret.types import PageRef
from colret_eval.datasets import Dataset, page_key
from colret_eval.datasets.pages import TextDocument

WIDTH: Final = 240
"""Pixels."""

_PIXELS = 4 * WIDTH**2  # rendered, then made smaller
_QUALITY = 60


def thumbnails(dataset: Dataset, keys: Iterable[str]) -> dict[str, str]:
    """Return a JPEG of each page as a data URI, without those that have no picture or cannot be read."""
    names = {PageRef.parse(page_key(name, 1)).doc_id: name for name in (*dataset.documents, *dataset.page_documents)}
    by_document: dict[str, list[PageRef]] = {}
    for key in dict.fromkeys(keys):
        ref = PageRef.parse(key)
        by_document.setdefault(ref.doc_id, []).append(ref)
    found = {}
    for doc_id, refs in by_document.items():
        try:
            for ref, image in _images(dataset, names[doc_id], refs):
                found[ref.page_id] = _data_uri(image)
        except ColretError:
            continue
    return {key: found[key] for key in keys if key in found}


def _images(dataset: Dataset, name: str, refs: list[PageRef]) -> Iterable[tuple[PageRef, Image.Image]]:
    if name in dataset.documents:
        with open_document(dataset.documents[name]) as document:
            for ref in refs:
                image = document.read_page(ref.number, ref=ref, pixels=_PIXELS, ocr=False).image
                if image is not None:
                    yield ref, image
        return
    pages = dataset.page_documents[name]
    if isinstance(pages, TextDocument):
        return
    for ref in refs:
        image = pages.read_page(ref.number, ref=ref, pixels=_PIXELS, ocr=False).image
        if image is not None:
            yield ref, image


def _data_uri(image: Image.Image) -> str:
    small = image.convert("RGB")
    small.thumbnail((WIDTH, 2 * WIDTH))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=_QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
