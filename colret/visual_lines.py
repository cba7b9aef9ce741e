"""Lines of right-to-left scripts in PDFium's text, put in logical order by where their glyphs stand.

PDFium orders them well only where a line is one text object: where a program places glyph by
glyph, letters of a word, digits and brackets come out backwards, and spaces in wrong places.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from bisect import bisect
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from numpy.typing import NDArray

from colret.bidi import RIGHT_TO_LEFT, is_right_to_left, logical_order, pair_brackets

INSERTED = -1
"""The place of a space that no character of PDFium's is."""

_SPACE = 0.22  # of a line's height: more than lies between letters that do not join
_SAME_LINE = 0.5  # of a line's height: vowel signs shift the base line, and PDFium begins a new line there
_SHARE_ON_SUCH_PAGES = 0.2  # of a line's letters, where the page reads right to left: it may quote a lot
_LINE = re.compile(r"[^\r\n]+")


class LogicalText(NamedTuple):
    """A page's text in logical order."""

    text: str  # one character for each UTF-16 unit, as PDFium counts, or space put in
    places: NDArray[np.int64]  # (n,) PDFium's index of each, or INSERTED


class _Cell(NamedTuple):
    """Where a character is, in points along and across its line."""

    place: int  # PDFium's index
    start: float
    lower: float
    end: float
    upper: float
    pen: float  # its origin, along
    base: float  # and across


class _Glyph(NamedTuple):
    """A letter with its marks, or a ligature: the characters at one origin, as they are read."""

    text: str
    places: list[int]
    start: float  # along the line, from its origin
    end: float
    height: float
    base: float  # where its base line is, across the line

    @property
    def centre(self) -> float:
        return (self.start + self.end) / 2


def logical_text(textpage: pdfium.PdfTextPage, units: str) -> LogicalText:
    """Return ``units``, the text of ``textpage``, with lines of right-to-left scripts in logical order.

    Other lines are left as they are, and a page without such scripts costs nothing.
    """
    if not RIGHT_TO_LEFT.search(units):
        return LogicalText(units, np.arange(len(units)))
    page_is_right_to_left = is_right_to_left(units)
    text, places = "", []
    for line in _lines(textpage, units):
        if isinstance(line, list):
            read, read_places = _read(line, page_is_right_to_left)
        else:
            read, read_places = line[0], list(range(*line.span()))
        text += read + "\n"
        places += [*read_places, INSERTED]
    return LogicalText(text, np.array(places, np.int64))


def _lines(textpage: pdfium.PdfTextPage, units: str) -> Iterator[list[_Glyph] | re.Match[str]]:
    """Yield PDFium's lines; those of right-to-left scripts as glyphs, all that stand in one line together."""
    held: list[_Glyph] = []
    for match in _LINE.finditer(units):
        glyphs = _glyphs(textpage, units, match.span()) if RIGHT_TO_LEFT.search(match[0]) else []
        if held and not (glyphs and _in_one_line(held, glyphs)):
            yield from _rows(held)
            held = []
        held += glyphs
        if not glyphs:
            yield match
    yield from _rows(held)


def _rows(glyphs: list[_Glyph]) -> list[list[_Glyph]]:
    """Return glyphs by base line, from the top: PDFium takes lines of turned text for one."""
    rows: list[list[_Glyph]] = []
    height = max((glyph.height for glyph in glyphs), default=0.0)
    for glyph in sorted(glyphs, key=lambda glyph: -glyph.base):
        if rows and rows[-1][-1].base - glyph.base < _SAME_LINE * height:
            rows[-1].append(glyph)
        else:
            rows.append([glyph])
    return rows


def _in_one_line(a: list[_Glyph], b: list[_Glyph]) -> bool:
    height = max(glyph.height for glyph in a)
    shift = np.median([glyph.base for glyph in a]) - np.median([glyph.base for glyph in b])
    return bool(abs(shift) < _SAME_LINE * height)


def _read(glyphs: list[_Glyph], page_is_right_to_left: bool) -> tuple[str, list[int]]:
    """Return the characters of a line in logical order, a space in each gap, and PDFium's index of each."""
    blanks = sorted(glyph.centre for glyph in glyphs if glyph.text.isspace())
    visible = sorted((glyph for glyph in glyphs if not glyph.text.isspace()), key=lambda glyph: glyph.centre)
    widest = _SPACE * max((glyph.height for glyph in visible), default=0.0)
    spaced = visible[:1]
    for left, right in pairwise(visible):
        if right.start - left.end > widest or bisect(blanks, left.centre) < bisect(blanks, right.centre):
            spaced.append(_Glyph(" ", [INSERTED], left.end, right.start, 0.0, 0.0))
        spaced.append(right)
    share = _SHARE_ON_SUCH_PAGES if page_is_right_to_left else 0.5
    right_to_left = is_right_to_left("".join(glyph.text for glyph in visible), share)
    ordered = [spaced[index] for index in logical_order([glyph.text for glyph in spaced], right_to_left=right_to_left)]
    text = "".join(glyph.text for glyph in ordered)
    return pair_brackets(text), [place for glyph in ordered for place in glyph.places]


def _glyphs(textpage: pdfium.PdfTextPage, units: str, span: tuple[int, int]) -> list[_Glyph]:
    """Return the glyphs of a line, marks that are glyphs of their own with the nearest letter."""
    first = next(index for index in range(*span) if RIGHT_TO_LEFT.match(units, index))
    # A space that PDFium made up is of no text object, and anywhere.
    places = [place for place in range(*span) if pdfium_c.FPDFText_GetTextObject(textpage, place)]
    by_origin: dict[tuple[float, float], list[_Cell]] = {}
    for cell in _cells(textpage, places, _turn(textpage, first)):
        by_origin.setdefault((round(cell.pen, 2), round(cell.base, 2)), []).append(cell)
    glyphs = sorted((_glyph(units, cells) for cells in by_origin.values()), key=lambda glyph: glyph.centre)
    marks = [glyph for glyph in glyphs if _is_mark(glyph.text[0])]
    letters = [glyph for glyph in glyphs if not _is_mark(glyph.text[0])]
    centres = [letter.centre for letter in letters]
    for mark in marks if letters else ():
        right = bisect(centres, mark.centre)
        around = range(max(0, right - 1), min(len(letters), right + 1))
        nearest = min(around, key=lambda index: abs(centres[index] - mark.centre))
        base = letters[nearest]
        letters[nearest] = base._replace(text=base.text + mark.text, places=base.places + mark.places)
    return letters or marks


def _glyph(units: str, cells: list[_Cell]) -> _Glyph:
    """Return the glyph that stands for characters: letters as they are read, then marks."""
    # PDFium cuts a glyph's cell into one for each character, from where the first is read.
    direction = -1 if any(RIGHT_TO_LEFT.match(units[cell.place]) for cell in cells) else 1
    cells = sorted(cells, key=lambda cell: (_is_mark(units[cell.place]), direction * (cell.start + cell.end)))
    places = [cell.place for cell in cells]
    start = min(min(cell.start, cell.pen) for cell in cells)  # the pen, as the cell may begin with the ink
    end, height = max(cell.end for cell in cells), max(cell.upper for cell in cells) - min(cell.lower for cell in cells)
    return _Glyph("".join(units[place] for place in places), places, start, end, height, cells[0].base)


def _cells(textpage: pdfium.PdfTextPage, places: list[int], turn: NDArray[np.float64]) -> list[_Cell]:
    """Return where characters are, turned so that their line is level."""
    rect, x, y = pdfium_c.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
    points = np.empty((len(places), 5, 2))  # corners of each cell, and its origin
    for row, place in enumerate(places):
        pdfium_c.FPDFText_GetLooseCharBox(textpage, place, rect)
        pdfium_c.FPDFText_GetCharOrigin(textpage, place, x, y)
        left, bottom, right, top = rect.left, rect.bottom, rect.right, rect.top
        points[row] = (left, bottom), (right, bottom), (right, top), (left, top), (x.value, y.value)
    level = points @ turn
    bounds = np.hstack([level[:, :4].min(axis=1), level[:, :4].max(axis=1), level[:, 4]])
    return [_Cell(place, *row) for place, row in zip(places, bounds.tolist(), strict=True)]


def _turn(textpage: pdfium.PdfTextPage, place: int) -> NDArray[np.float64]:
    """Return the (2, 2) matrix that turns rows of points into those along and across a character's line."""
    matrix = pdfium_c.FS_MATRIX()
    known = pdfium_c.FPDFText_GetMatrix(textpage, place, matrix)
    length = math.hypot(matrix.a, matrix.b)
    if not known or not 0 < length < math.inf:
        return np.eye(2)
    cosine, sine = matrix.a / length, matrix.b / length
    return np.array([[cosine, -sine], [sine, cosine]])


def _is_mark(char: str) -> bool:
    return unicodedata.category(char).startswith("M")
