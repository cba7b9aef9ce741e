"""Read documents page by page: words, image and hash of each, whatever the file's type.

Above the adapters (``render``, ``images``, ``words``, ``ocr``) and below ``ingest``. PDFium is
not thread-safe: read documents from the main thread of a process.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from colret.documents import check_file, display_path, is_pdf
from colret.images import ImageFile, ImagePage
from colret.ocr import ocr_pixels, ocr_words
from colret.render import PdfFile, PdfPage
from colret.types import Page, PageRef, Words
from colret.words import text_layer_words


class Document:
    """A document, open, whose pages are read one at a time. Close it, or use it in ``with``."""

    def __init__(self, source: PdfFile | ImageFile, name: str) -> None:
        self._source = source
        self._name = name

    @property
    def n_pages(self) -> int:
        """Number of pages, those that cannot be read included."""
        return self._source.n_pages

    def read_page(self, number: int, *, ref: PageRef, pixels: int, ocr: bool) -> Page:
        """Return page ``number``, from 1; after a failure the next page can still be read.

        Args:
            number: Of the page in this document.
            ref: What the page is called in the index.
            pixels: Largest number of pixels of its image; 0 leaves the image out.
            ocr: Read the image where the page has no text layer and is not blank.

        Raises:
            DocumentError: The page cannot be read; the subject names the file and the page.
            IndexError: There is no such page.
        """
        name = f"{self._name} page {number}"
        with self._source.page(number) as page:
            words = text_layer_words(page.handle, name=name) if isinstance(page, PdfPage) else Words.none()
            if ocr and not words.texts:
                words = _read_image(page, name)
            image = page.render(pixels) if pixels > 0 else None
            return Page(ref, page.width, page.height, words, image, page.image_hash())

    def close(self) -> None:
        """Free the document."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_document(path: Path) -> Document:
    """Open the PDF or image at ``path``; which of both, its first bytes say.

    Raises:
        DocumentError: It cannot be opened, with the reason.
    """
    check_file(path)
    name = display_path(path)
    return Document(PdfFile(path, name) if is_pdf(path) else ImageFile(path, name), name)


def _read_image(page: PdfPage | ImagePage, name: str) -> Words:
    return ocr_words(page.render(ocr_pixels(page.width, page.height)), name=name)
