"""Words of a PDF page and their boxes, from the page's text layer, in logical order.

PDFium is not thread-safe: use this module from one thread of a process, the main one.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from numpy.typing import NDArray

from colret.bidi import RIGHT_TO_LEFT
from colret.characters import HYPHEN, ideograph_bounds, visible_word
from colret.errors import DocumentError
from colret.types import Words
from colret.visual_lines import LogicalText, logical_text
from colret.word_boxes import word_boxes

_RUN = re.compile(r"[^\s\u200b]+")  # U+200B: a place to break a line, in scripts without spaces

_SHORTEST_PAIR = 4  # characters of two words that are worth telling apart
_SPACE = 0.15  # of a character's height
_SAME_LINE = 0.2
_WIDE = "\u2e80"  # from here on letters fill squares, with gaps that mean nothing


class TextLayer(NamedTuple):
    """What a page says of its text."""

    words: Words
    characters: str  # without white space, as PDFium gives them
    unmapped: NDArray[np.bool_]  # (len(characters),) whose font does not say what character it is


def read_text_layer(page: pdfium.PdfPage, *, name: str) -> TextLayer:
    """Return the words of ``page``, boxes as the page is displayed, and what they were made of.

    A word is a run without white space, or a letter of a script without spaces. Words that lie
    wholly outside the displayed page are left out. A word divided at the end of a line is one
    word, in the box of its first part. Lines follow each other as PDFium gives them.

    Args:
        page: PDFium's page, loaded.
        name: What to call the page in messages.

    Raises:
        DocumentError: PDFium cannot read the text (``page_unreadable``).
    """
    try:
        textpage = page.get_textpage()
        try:
            units = _units(textpage)
            return TextLayer(_read_words(page, textpage, units), *_characters(textpage, units))
        finally:
            textpage.close()
    except pdfium.PdfiumError as error:
        raise DocumentError(
            name, "its text cannot be read", "repair the PDF, or go without it", reason="page_unreadable"
        ) from error


def text_layer_words(page: pdfium.PdfPage, *, name: str) -> Words:
    """Return the words of ``page`` alone: see ``read_text_layer``."""
    return read_text_layer(page, name=name).words


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
        text = visible_word(run)
        if text:
            first_part, _, _ = run.partition(HYPHEN)
            texts.append(text)
            spans.append((start, len(first_part) or len(run)))
    return texts, spans


def _runs(units: str, gaps: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield each run without white space, divided at ``gaps``, and where it starts."""
    for match in _RUN.finditer(units):
        inside = gaps[bisect_right(gaps, match.start()) : bisect_left(gaps, match.end())]
        bounds = [match.start(), *inside, match.end()]
        yield from ((start, units[start:end]) for start, end in pairwise(bounds))


def _read_words(page: pdfium.PdfPage, textpage: pdfium.PdfTextPage, units: str) -> Words:
    text = logical_text(textpage, units)
    texts, spans = split_words(text.text, sorted({*_gaps(textpage, text), *ideograph_bounds(text.text)}))
    if not texts:
        return Words.none()
    boxes, inside = word_boxes(page, textpage, [text.places[start : start + length] for start, length in spans])
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
        return "".join(map(chr, units)).replace("\x02", HYPHEN)
    codes = np.frombuffer(buffer, np.uint16, n_chars).astype("<u4")
    return codes.tobytes().decode("utf-32-le", "surrogatepass")


def _characters(textpage: pdfium.PdfTextPage, units: str) -> tuple[str, NDArray[np.bool_]]:
    """Return the characters but for white space, and which of them PDFium had to guess."""
    indices = [index for index, char in enumerate(units) if not char.isspace()]
    guessed = pdfium_c.FPDFText_HasUnicodeMapError
    return "".join(units[index] for index in indices), np.array(
        [guessed(textpage, index) == 1 for index in indices], bool
    )


def _gaps(textpage: pdfium.PdfTextPage, text: LogicalText) -> list[int]:
    """Return where in ``text`` a gap as wide as a space lies, though PDFium gives none.

    In text justified tightly it takes many a space for kerning. Between the cells of letters
    of one word lie at most 0.1 of their height, between words at least 0.19, on pages of papers
    and reports set by several programs.
    """
    get_cell, handle = pdfium_c.FPDFText_GetLooseCharBox, textpage.raw
    cell = pdfium_c.FS_RECTF()
    gaps = []
    for match in _RUN.finditer(text.text):
        if match.end() - match.start() < _SHORTEST_PAIR or RIGHT_TO_LEFT.search(match[0]):
            continue
        right = bottom = np.inf
        for index in range(match.start(), match.end()):
            if text.text[index] >= _WIDE or not get_cell(handle, text.places[index], cell):
                continue
            height = cell.top - cell.bottom
            if cell.left - right > _SPACE * height and abs(cell.bottom - bottom) < _SAME_LINE * height:
                gaps.append(index)
            right, bottom = cell.right, cell.bottom
    return gaps
