"""Words of a PDF page and their boxes, from the page's text layer, as PDFium reads it.

PDFium is not thread-safe: use this module from one thread of a process, the main one.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from numpy.typing import NDArray

from colret.errors import DocumentError
from colret.types import Boxes, Words

_Rect = tuple[float, float, float, float]  # left, bottom, right, top in points

_RUN = re.compile(r"[^\s\u200b]+")  # U+200B: a place to break a line, in scripts without spaces

_SHORTEST_PAIR = 4  # characters of two words that are worth telling apart
_SPACE = 0.15  # of a character's height
_SAME_LINE = 0.2

_HYPHEN = "\ufffe"  # PDFium's mark for a hyphen that ends a line; the next line follows at once
_JOINING_HYPHEN = re.compile(rf"(?<=[^\W\d_]){_HYPHEN}(?=[^\W\d_])")

# What no reader sees and no tokenizer knows: controls, soft hyphens and marks of direction,
# private use (glyphs without a Unicode value, such as bullets of symbol fonts), noncharacters.
_PLANE_ENDS = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffd\ufdd0-\ufdef"
    "\ue000-\uf8ff\U000e0000-\U000e007f\U000f0000-\U0010ffff" + _PLANE_ENDS + "]"
)


def text_layer_words(page: pdfium.PdfPage, *, name: str) -> Words:
    """Return the words of ``page``, in the order of PDFium, boxes as the page is displayed.

    A word is a run without white space. Words that lie wholly outside the displayed page are
    left out. A word divided at the end of a line is one word, in the box of its first part.

    Args:
        page: PDFium's page, loaded.
        name: What to call the page in messages.

    Raises:
        DocumentError: PDFium cannot read the text (``page_unreadable``).
    """
    try:
        textpage = page.get_textpage()
        try:
            return _read_words(page, textpage)
        finally:
            textpage.close()
    except pdfium.PdfiumError as error:
        raise DocumentError(
            name, "its text cannot be read", "repair the PDF, or go without it", reason="page_unreadable"
        ) from error


def split_words(units: str, gaps: Sequence[int] = ()) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the words in ``units`` and where each lies, as (start, length).

    Args:
        units: The characters of a page, one for each UTF-16 unit: halves of surrogate pairs
            are characters of their own, as in PDFium's counting.
        gaps: Where a word begins without white space before it, ascending.

    Returns:
        Words of valid Unicode without white space; and for each the span of its first line.
    """
    texts, spans = [], []
    for start, run in _runs(units, gaps):
        text = run if run.isascii() and run.isprintable() else _clean(run)
        if text:
            first_part, _, _ = run.partition(_HYPHEN)
            texts.append(text)
            spans.append((start, len(first_part) or len(run)))
    return texts, spans


def _runs(units: str, gaps: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield each run without white space, divided at ``gaps``, and where it starts."""
    for match in _RUN.finditer(units):
        inside = gaps[bisect_right(gaps, match.start()) : bisect_left(gaps, match.end())]
        bounds = [match.start(), *inside, match.end()]
        yield from ((start, units[start:end]) for start, end in pairwise(bounds))


def display_boxes(
    rects: NDArray[np.float64], box: tuple[float, float, float, float], rotation: int
) -> tuple[Boxes, NDArray[np.bool_]]:
    """Move rectangles from PDF space onto the displayed page.

    Args:
        rects: (W, 4) float64: left, bottom, right, top in points, y upwards.
        box: Of the page, before rotation: left, bottom, right, top in points.
        rotation: Of the page, clockwise: 0, 90, 180 or 270 degrees.

    Returns:
        (W, 4) uint16 boxes, clipped to the page, and (W,) bool: which touch the page at all.
    """
    left, bottom, right, top = box
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        x = (rects[:, 0::2] - left) / (right - left)  # (W, 2), 0..1 on the page
        y = (rects[:, 1::2] - bottom) / (top - bottom)
    turned = {0: (x, 1 - y), 90: (y, x), 180: (1 - x, y), 270: (1 - y, 1 - x)}[rotation]
    across, down = (np.sort(axis, axis=1) for axis in turned)
    corners = np.stack([across[:, 0], down[:, 0], across[:, 1], down[:, 1]], axis=1)  # (W, 4)
    finite = np.asarray(np.isfinite(corners).all(axis=1))
    touching = np.hstack([corners[:, :2] <= 1, corners[:, 2:] >= 0]).all(axis=1)
    clipped = np.clip(np.where(finite[:, None], corners, 0), 0, 1)
    return np.rint(clipped * 65535).astype(np.uint16), finite & np.asarray(touching)


def _read_words(page: pdfium.PdfPage, textpage: pdfium.PdfTextPage) -> Words:
    units = _units(textpage)
    texts, spans = split_words(units, _gaps(textpage, units))
    if not texts:
        return Words.none()
    rects = _span_rects(textpage, spans)
    boxes, inside = display_boxes(rects, page.get_bbox(), page.get_rotation())
    kept = tuple(text for text, keep in zip(texts, inside, strict=True) if keep)
    return Words(kept, boxes[inside])


def _units(textpage: pdfium.PdfTextPage) -> str:
    """Return the page's text, one character for each of PDFium's, which are UTF-16 units."""
    n_chars = max(0, pdfium_c.FPDFText_CountChars(textpage))
    buffer = (ctypes.c_ushort * (n_chars + 1))()
    n_written = pdfium_c.FPDFText_GetText(textpage, 0, n_chars, buffer) if n_chars else 1
    if n_written - 1 != n_chars:  # characters that have no text: ask for each, to keep the count
        units = [pdfium_c.FPDFText_GetUnicode(textpage, index) for index in range(n_chars)]
        # Here a hyphen that ends a line is U+0002.
        return "".join(map(chr, units)).replace("\x02", _HYPHEN)
    codes = np.frombuffer(buffer, np.uint16, n_chars).astype("<u4")
    return codes.tobytes().decode("utf-32-le", "surrogatepass")


def _gaps(textpage: pdfium.PdfTextPage, units: str) -> list[int]:
    """Return the characters before which lies a gap as wide as a space, though PDFium gives none.

    In text justified tightly it takes many a space for kerning. Between the cells of letters
    of one word lie at most 0.1 of their height, between words at least 0.19, on pages of papers
    and reports set by several programs.
    """
    get_cell, handle = pdfium_c.FPDFText_GetLooseCharBox, textpage.raw
    cell = pdfium_c.FS_RECTF()
    gaps = []
    for match in _RUN.finditer(units):
        if match.end() - match.start() < _SHORTEST_PAIR:
            continue
        right = bottom = np.inf
        for index in range(match.start(), match.end()):
            if not get_cell(handle, index, cell):
                continue
            height = cell.top - cell.bottom
            if cell.left - right > _SPACE * height and abs(cell.bottom - bottom) < _SAME_LINE * height:
                gaps.append(index)
            right, bottom = cell.right, cell.bottom
    return gaps


def _clean(run: str) -> str:
    """Return ``run`` as valid, visible Unicode: "" when nothing of it is."""
    run = _JOINING_HYPHEN.sub(_dehyphenate, run).replace(_HYPHEN, "-")
    paired = run.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")  # lone halves go
    text = _INVISIBLE.sub("", paired)
    return text if any(map(str.isprintable, text)) else ""


def _dehyphenate(match: re.Match[str]) -> str:
    """Drop the hyphen of "exam-ple", keep those of "Anglo-American" and "1990-1995"."""
    return "" if match.string[match.end()].islower() else "-"


def _span_rects(textpage: pdfium.PdfTextPage, spans: list[tuple[int, int]]) -> NDArray[np.float64]:
    """Return the rectangle around each span of characters: (W, 4) left, bottom, right, top.

    PDFium unites the characters of a span itself (one rectangle for each text object that it
    crosses): the same numbers as a call for each character would give, in a quarter of the time.
    """
    out = [ctypes.c_double() for _ in range(4)]
    left, top, right, bottom = out
    pointers = [ctypes.byref(value) for value in out]
    count_rects, get_rect = pdfium_c.FPDFText_CountRects, pdfium_c.FPDFText_GetRect
    handle = textpage.raw
    rects = np.empty((len(spans), 4))
    for row, (start, length) in enumerate(spans):
        united = None
        for index in range(count_rects(handle, start, length)):
            get_rect(handle, index, *pointers)
            rect = left.value, bottom.value, right.value, top.value
            if rect[0] == rect[2]:  # nothing but characters too thin for PDFium: at the origin
                continue
            united = rect if united is None else _unite(united, rect)
        rects[row] = _char_rect(textpage, start, length) if united is None else united
    return rects


def _unite(a: _Rect, b: _Rect) -> _Rect:
    return min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])


def _char_rect(textpage: pdfium.PdfTextPage, start: int, length: int) -> NDArray[np.float64]:
    """Return the rectangle around characters too thin for PDFium to unite, from their cells."""
    rect = pdfium_c.FS_RECTF()
    cells = []
    for index in range(start, start + length):
        if pdfium_c.FPDFText_GetLooseCharBox(textpage, index, rect):
            cells.append((rect.left, rect.bottom, rect.right, rect.top))
    if not cells:
        return np.full(4, np.nan)  # nowhere: outside the page
    bounds = np.array(cells)
    return np.concatenate([bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)])
