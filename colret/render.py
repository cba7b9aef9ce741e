"""PDF documents: pages as images, as displayed (cropped and rotated).

Poppler renders, through pdf2image, where it is installed; PDFium elsewhere and wherever
poppler fails or sees another page than PDFium does. Sizes, words and hashes always come from
PDFium, so that an index does not depend on what is installed. PDFium is not thread-safe: use
this module from one thread of a process.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from PIL import Image

from colret.closing import Closing
from colret.errors import DocumentError
from colret.pixels import image_hash, target_size
from colret.poppler import PopplerPages, poppler_available

_HASH_PIXELS = 96 * 96
_DRAW_FLAGS = pdfium_c.FPDF_ANNOT | pdfium_c.FPDF_REVERSE_BYTE_ORDER


class PdfPage:
    """One page of a PDF, loaded; ``handle`` is PDFium's, valid inside ``PdfFile.page`` only."""

    def __init__(self, handle: pdfium.PdfPage, name: str, poppler: PopplerPages | None, number: int) -> None:
        self.handle = handle
        self._name = name
        self._poppler = poppler
        self._number = number
        self.width: float = handle.get_width()  # points, as displayed
        self.height: float = handle.get_height()
        if not (0 < self.width < math.inf and 0 < self.height < math.inf):
            raise _unreadable_page(name, f"a page of {self.width} x {self.height} points")

    def render(self, max_pixels: int) -> Image.Image:
        """Return the page as an RGB image that fills ``max_pixels``: see ``pixels.target_size``.

        Raises:
            DocumentError: There is no memory for the image (``render_memory``).
        """
        size = target_size(self.width, self.height, max_pixels)
        if self._poppler is not None:
            image = self._poppler.render(self._number, size, (self.width, self.height))
            if image is not None:
                return image
        return self._draw(size)

    def image_hash(self) -> int:
        """Return the perceptual hash of the page: see ``pixels.image_hash``."""
        return image_hash(self._draw(target_size(self.width, self.height, _HASH_PIXELS)))

    def _draw(self, size: tuple[int, int]) -> Image.Image:
        """Render with PDFium, annotations and form fields included, to exactly ``size``."""
        try:
            bitmap = pdfium.PdfBitmap.new_native(*size, pdfium_c.FPDFBitmap_BGR, rev_byteorder=True)
        except pdfium.PdfiumError as error:
            raise DocumentError(
                self._name,
                "there is no memory for its image",
                "ingest again with more memory free",
                reason="render_memory",
            ) from error
        try:
            bitmap.fill_rect((255, 255, 255, 255), 0, 0, *size)
            place = (bitmap, self.handle, 0, 0, *size, 0, _DRAW_FLAGS)
            pdfium_c.FPDF_RenderPageBitmap(*place)
            if self.handle.formenv:
                pdfium_c.FPDF_FFLDraw(self.handle.formenv, *place)
            return Image.frombytes("RGB", size, bytes(bitmap.buffer), "raw", "RGB", bitmap.stride)
        finally:
            bitmap.close()


class PdfFile(Closing):
    """A PDF, open.

    Args:
        path: Of the file.
        name: What to call it in messages.
        passwords: To try if it needs one.
        seconds: For poppler to draw one page, before PDFium has to.

    Raises:
        DocumentError: It cannot be opened, with the reason.
    """

    def __init__(self, path: Path, name: str, *, passwords: Sequence[str] = (), seconds: float = 30.0) -> None:
        self._name = name
        try:
            n_bytes = path.stat().st_size
        except OSError as error:
            raise _refusal(name, pdfium_c.FPDF_ERR_FILE) from error
        self._pdf, locked = _load(path, name, passwords)
        # A broken count may claim a million pages: there are no more than there are bytes.
        self.n_pages = min(len(self._pdf), n_bytes)
        # Poppler takes a password on its command line, where everybody could read it.
        drawn_by_poppler = poppler_available() and not locked
        self._poppler = PopplerPages(path, self.n_pages, seconds=seconds) if drawn_by_poppler else None
        if self.n_pages < 1:
            self.close()
            raise DocumentError(
                name,
                "the PDF has no pages, or they are lost",
                "save it again from its source",
                reason="no_pages",
            )

    @contextmanager
    def page(self, number: int) -> Iterator[PdfPage]:
        """Load page ``number``, from 1, and free it afterwards.

        Raises:
            DocumentError: The page cannot be loaded (``page_unreadable``).
        """
        if not 1 <= number <= self.n_pages:
            raise IndexError(number)
        name = f"{self._name} page {number}"
        try:
            handle = self._pdf.get_page(number - 1)
        except pdfium.PdfiumError as error:
            raise _unreadable_page(name, "it cannot be loaded") from error
        try:
            yield PdfPage(handle, name, self._poppler, number)
        finally:
            handle.close()

    def close(self) -> None:
        """Free the document."""
        self._pdf.close()


def _load(path: Path, name: str, passwords: Sequence[str]) -> tuple[pdfium.PdfDocument, bool]:
    """Open with PDFium; return the document, and whether it took one of ``passwords``.

    The path goes as bytes: names that are not UTF-8 work too.
    """
    code = pdfium_c.FPDF_ERR_PASSWORD
    for password in (None, *passwords):
        secret = None if password is None else password.encode("utf-8", "surrogateescape")
        raw = pdfium_c.FPDF_LoadDocument(os.fsencode(path), secret)
        if raw:
            pdf = pdfium.PdfDocument(raw)
            _load_forms(pdf)
            return pdf, secret is not None
        # Also 0, "success", for some broken files: whatever is not known is a broken PDF.
        code = pdfium_c.FPDF_GetLastError()
        if code != pdfium_c.FPDF_ERR_PASSWORD:
            break
    raise _refusal(name, code, tried=bool(passwords))


def _load_forms(pdf: pdfium.PdfDocument) -> None:
    """Let the contents of form fields be drawn; without the warning that XFA forms are not run."""
    logger = logging.getLogger("pypdfium2")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        pdf.init_forms()
    finally:
        logger.setLevel(level)


def _refusal(name: str, code: int, *, tried: bool = False) -> DocumentError:
    """Return the error for PDFium's ``code``; ``tried``: passwords were given."""
    if code == pdfium_c.FPDF_ERR_PASSWORD:
        problem = "the PDF needs another password than those given" if tried else "the PDF needs a password"
        remedy = "give it in a --password-file, or save a copy without one"
        return DocumentError(name, problem, remedy, reason="password_required")
    if code == pdfium_c.FPDF_ERR_SECURITY:
        return DocumentError(
            name,
            "the PDF's encryption is not supported",
            "save a copy without it",
            reason="unsupported_encryption",
        )
    if code == pdfium_c.FPDF_ERR_FILE:
        return DocumentError(name, "cannot be read", "check the path and its permissions", reason="unreadable")
    return DocumentError(name, "not a PDF, or a broken one", "repair it, or save it again", reason="not_a_pdf")


def _unreadable_page(name: str, cause: str) -> DocumentError:
    return DocumentError(
        name,
        f"the page cannot be read ({cause})",
        "repair the PDF, or go without it",
        reason="page_unreadable",
    )
