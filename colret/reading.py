"""Read documents page by page: words, image and hash of each, whatever the file's type.

Above the adapters (``render``, ``images``, ``words``, ``ocr``) and below ``readers``, which reads
in other processes. PDFium is not thread-safe: read documents from one thread of a process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from colret.closing import Closing
from colret.conversion import converted
from colret.documents import check_file, display_path, is_office, is_pdf
from colret.errors import DocumentError, ModelError
from colret.images import ImageFile, ImagePage
from colret.legibility import is_stamped_scan, legible_words
from colret.ocr import ocr_pixels, ocr_words
from colret.render import PdfFile, PdfPage
from colret.types import Page, PageRef, Words
from colret.words import read_text_layer


class Document(Closing):
    """A document, open, whose pages are read one at a time. Close it, or use it in ``with``.

    Args:
        source: Its pages, of which this takes care.
        name: What to call it in messages.
        held: What must last as long as the document is open.
    """

    def __init__(self, source: PdfFile | ImageFile, name: str, held: ExitStack | None = None) -> None:
        self._source = source
        self._name = name
        self._held = held or ExitStack()
        self.ocr_seconds = 0.0
        """Spent in OCR since the document was opened."""

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
            ocr: Read the image where the page has no text layer that can be trusted, or no more
                than a stamp, and is not blank.

        Raises:
            DocumentError: The page cannot be read; the subject names the file and the page.
            IndexError: There is no such page.
        """
        name = f"{self._name} page {number}"
        with self._source.page(number) as page:
            words, by_ocr = self._read_words(page, name, ocr=ocr)
            image = page.render(pixels) if pixels > 0 else None
            return Page(ref, page.width, page.height, words, image, page.image_hash(), by_ocr)

    def close(self) -> None:
        """Free the document."""
        self._source.close()
        self._held.close()

    def _read_words(self, page: PdfPage | ImagePage, name: str, *, ocr: bool) -> tuple[Words, bool]:
        """Return the words of a page, and whether they were read from its image."""
        if not isinstance(page, PdfPage):
            words = self._read_image(page, name) if ocr else Words.none()
            return words, bool(words.texts)
        layer = read_text_layer(page.handle, name=name)
        if not ocr:
            return layer.words, False
        legible = legible_words(layer)
        if legible.texts and not is_stamped_scan(page.handle, legible):
            return legible, False
        try:
            read = self._read_image(page, name)
        except DocumentError:
            if not legible.texts:
                raise
            return legible, False
        return (read, True) if len(read.texts) > len(legible.texts) else (legible, False)

    def _read_image(self, page: PdfPage | ImagePage, name: str) -> Words:
        image = page.render(ocr_pixels(page.width, page.height))
        started = time.monotonic()
        try:
            return ocr_words(image, name=name)
        except ModelError as error:
            problem = f"the page is a picture, and OCR is not there to read it ({error.subject} {error.problem})"
            raise DocumentError(name, problem, error.remedy, reason="no_text_no_ocr") from error
        finally:
            self.ocr_seconds += time.monotonic() - started


def open_document(
    path: Path,
    *,
    passwords: Sequence[str] = (),
    seconds: float = 60.0,
    conversion_seconds: float = 180.0,
    keep_at: Path | None = None,
) -> Document:
    """Open the document at ``path``; of what kind it is, its first bytes say, or else its name.

    Args:
        path: Of a PDF, an image, or what is converted to PDF first (Office documents, HTML).
        passwords: To try on a PDF that needs one.
        seconds: That a page may take; poppler gets half of them, so that PDFium can take over.
        conversion_seconds: That a conversion may take.
        keep_at: Where to keep the PDF that such a document becomes; if it is there, it is
            taken as it is. By default it lasts as long as the document is open.

    Raises:
        DocumentError: It cannot be opened, with the reason.
    """
    check_file(path)
    name = display_path(path)
    if is_office(path):
        with ExitStack() as held:
            pdf = _kept(path, keep_at, conversion_seconds, held)
            return Document(PdfFile(pdf, name, seconds=seconds / 2), name, held.pop_all())
    if is_pdf(path):
        return Document(PdfFile(path, name, passwords=passwords, seconds=seconds / 2), name)
    return Document(ImageFile(path, name), name)


def _kept(path: Path, place: Path | None, seconds: float, held: ExitStack) -> Path:
    """Return the PDF of an Office document: at ``place``, or without one for as long as ``held``."""
    if place is None:
        return held.enter_context(converted(path, seconds=seconds))
    if not place.exists():
        with converted(path, seconds=seconds) as pdf:
            pdf.replace(place)
    return place
