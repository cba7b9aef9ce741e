"""Pages of a PDF as poppler sees and draws them, through pdf2image."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import cast

import pdf2image
from pdf2image import exceptions
from PIL import Image

_BLOCK_PAGES = 64  # measured by one call: a long document is measured as far as it is read
_SAME_SIZE = 0.01  # relative difference up to which two page sizes are the same
_FAILURES: tuple[type[Exception], ...] = (
    exceptions.PDFInfoNotInstalledError,
    exceptions.PDFPageCountError,
    exceptions.PDFPopplerTimeoutError,
    exceptions.PDFSyntaxError,
    OSError,  # these three: output cut off in the middle
    ValueError,
    IndexError,
)


def poppler_available() -> bool:
    """Return whether poppler's programs are on the PATH."""
    return all(shutil.which(program) for program in ("pdfinfo", "pdftoppm"))


class PopplerPages:
    """A PDF as poppler sees it: asked for a page, it gives the image or, on any doubt, nothing.

    Args:
        path: Of the file.
        n_pages: Its pages, by another's count.
        seconds: For one call of poppler: to draw a page, or to measure some.
    """

    def __init__(self, path: Path, n_pages: int, *, seconds: float) -> None:
        self._path = path
        self._n_pages = n_pages
        self._seconds = seconds
        self._slow = False
        self._block = 0
        self._sizes: dict[int, tuple[float, float]] = {}  # of the pages in the block

    def render(self, number: int, size: tuple[int, int], points: tuple[float, float]) -> Image.Image | None:
        """Return page ``number`` in RGB at ``size`` pixels, if poppler's page measures ``points``."""
        measured = self._size(number)
        if measured is None or not all(map(_same, measured, points)):
            return None
        # By resolution: poppler's options for a size mix up the sides of a rotated page. It
        # rounds sides up, so what exceeds the size by a pixel or two is cut off.
        scale = max(size[0] / points[0], size[1] / points[1])  # pixels per point
        if any(side * scale > limit + 2 for side, limit in zip(points, size, strict=True)):
            return None  # a strip so thin that its image is not in proportion
        image = self._convert(number, 72 * scale)
        if image is None or image.width < size[0] or image.height < size[1]:
            return None
        return image.crop((0, 0, *size))

    def _convert(self, number: int, dpi: float) -> Image.Image | None:
        try:
            images = pdf2image.convert_from_path(
                str(self._path),
                dpi=dpi,
                first_page=number,
                last_page=number,
                use_cropbox=True,
                strict=True,  # poppler draws what it can of a broken page; PDFium draws more
                timeout=self._seconds,
            )
            return cast(Image.Image, images[0].convert("RGB"))
        except exceptions.PDFPopplerTimeoutError:
            self._slow = True
        except _FAILURES:
            pass
        return None

    def _size(self, number: int) -> tuple[float, float] | None:
        """Return the displayed size in points of page ``number``, if poppler knows it."""
        if self._slow:  # once, so again: the rest of this file is PDFium's
            return None
        first = number - (number - 1) % _BLOCK_PAGES
        if first != self._block:
            self._block, self._sizes = first, self._measure(first, min(first + _BLOCK_PAGES - 1, self._n_pages))
        return self._sizes.get(number)

    def _measure(self, first: int, last: int) -> dict[int, tuple[float, float]]:
        """Return the displayed size in points of each page, or nothing when the counts differ.

        pdfinfo lists ``Page    1 size`` (of the crop box, before rotation) and ``Page    1 rot``.
        """
        try:
            info: dict[str, object] = pdf2image.pdfinfo_from_path(
                str(self._path), first_page=first, last_page=last, timeout=self._seconds
            )
        except exceptions.PDFPopplerTimeoutError:
            self._slow = True
            return {}
        except _FAILURES:
            return {}
        if info["Pages"] != self._n_pages:
            return {}
        sizes = {}
        for number in range(first, last + 1):
            width, x, height, *_ = (*str(info.get(f"Page {number:4d} size", "")).split(), "", "", "")
            if x == "x":
                size = float(width), float(height)
                sideways = info.get(f"Page {number:4d} rot") in ("90", "270")
                sizes[number] = size[::-1] if sideways else size
        return sizes


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_SAME_SIZE)
