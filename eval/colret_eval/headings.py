"""Headings and captions of a PDF, and the page each stands on: from its outline and its text layer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from colret.documents import display_path
from colret.errors import DocumentError
from colret.render import PdfFile, PdfPage

_HEADING = 1.15  # of the height of the document's text: what is larger is a heading
_CONTENTS = 5  # entries on one page from which on it is a list of contents, figures or tables
_NUMBER = re.compile(
    r"^(\d+(\.\d+)*|[A-Z](\.\d+)+|[IVXLC]+|(Appendix|Chapter|Section|Part) \w+)[.:)]?\s+", re.IGNORECASE
)
_CAPTION = re.compile(
    r"^(?:figure|fig\.|table|exhibit)\s+[A-Z]?\.?\d+(?:[.-]\d+)*\s*[.:\u2013\u2014|-]\s*(.+)$", re.IGNORECASE
)
LEADERS = re.compile(r"(\. ?){4,}|\u2026|\s\d+$")  # the dots of a list of contents, or its page number
_EDGES = " .:;-\u2013\u2014"
_SENTENCE_END = re.compile(r"(?<=\w{3}[.!?])\s+(?=[A-Z])")


class Item(NamedTuple):
    """A query and the page that it was taken from."""

    text: str
    file: str  # path below the folder
    page: int
    kind: str  # "outline", "heading" or "caption"


class _Line(NamedTuple):
    text: str
    height: float  # of its first character's cell, in points


def plain_text(text: str) -> str:
    """Return the words of ``text``, lower-cased, with single spaces between."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def find_items(path: Path, name: str) -> list[Item]:
    """Return the headings and captions of the PDF at ``path``, called ``name``, by page.

    Headings come from the outline where there is one, as far as the page has their words; else
    they are the lines larger than the document's text. Lists of contents, figures or tables are
    left out, and so is what cannot be read of the document.

    Raises:
        DocumentError: The PDF cannot be opened.
    """
    pages, outline = _read(path)
    items = []
    heights = [line.height for lines in pages.values() for line in lines for _ in line.text]
    body = median(heights) if heights else 0.0
    for number, lines in pages.items():
        captions = list(_captions(lines))
        entries = sum(LEADERS.search(line.text) is not None and len(line.text.split()) > 1 for line in lines)
        if max(len(captions), entries // 2) >= _CONTENTS:
            continue
        text = plain_text(" ".join(line.text for line in lines))
        titles = [title for title, at in outline if at == number and f" {plain_text(title)} " in f" {text} "]
        items += [Item(_cut(title), name, number, "outline") for title in titles]
        items += [Item(_cut(title), name, number, "heading") for title in ([] if outline else _headings(lines, body))]
        items += [Item(_cut(caption), name, number, "caption") for caption in captions]
    return items


def _read(path: Path) -> tuple[dict[int, list[_Line]], list[tuple[str, int]]]:
    """Return the lines of each page that can be read, and the outline."""
    pages: dict[int, list[_Line]] = {}
    outline: list[tuple[str, int]] = []
    with PdfFile(path, display_path(path)) as pdf:
        for number in range(1, pdf.n_pages + 1):
            try:
                with pdf.page(number) as page:
                    outline = outline or list(_outline(page))
                    pages[number] = list(_lines(page))
            except (DocumentError, pdfium.PdfiumError):
                continue  # what ingest skips
    return pages, outline


def _outline(page: PdfPage) -> Iterator[tuple[str, int]]:
    """Yield the titles of the document's outline and the pages they lead to."""
    for bookmark in page.handle.pdf.get_toc():
        destination = bookmark.get_dest()
        index = destination.get_index() if destination else None
        if index is not None:
            yield bookmark.get_title(), index + 1


def _lines(page: PdfPage) -> Iterator[_Line]:
    """Yield the lines of the text layer, as PDFium divides it."""
    textpage = page.handle.get_textpage()
    try:
        start = 0
        characters: list[int] = []
        for index in range(max(0, pdfium_c.FPDFText_CountChars(textpage))):
            code = pdfium_c.FPDFText_GetUnicode(textpage, index)
            if chr(code) in "\r\n":
                yield from _line(textpage, start, characters)
                start, characters = index + 1, []
            else:
                characters.append(code)
        yield from _line(textpage, start, characters)
    finally:
        textpage.close()


def _line(textpage: object, start: int, codes: Sequence[int]) -> Iterator[_Line]:
    units = b"".join(code.to_bytes(2, "little") for code in codes if 31 < code < 0xFFFE)
    text = " ".join(units.decode("utf-16-le", "ignore").split())
    if not text:
        return
    cell = pdfium_c.FS_RECTF()
    first = start + next(i for i, code in enumerate(codes) if code > 32)
    if pdfium_c.FPDFText_GetLooseCharBox(textpage, first, cell):
        # Of a line that is turned, the cell's height says nothing; such lines are no headings.
        yield _Line(text, round(abs(cell.top - cell.bottom), 1))


def _headings(lines: Sequence[_Line], body: float) -> Iterator[str]:
    """Yield the lines that are larger than the document's text; those of one height in a row are one heading."""
    parts: list[_Line] = []
    for line in [*lines, _Line("", 0.0)]:
        if parts and line.height != parts[-1].height:
            yield " ".join(part.text for part in parts)
            parts = []
        if line.height >= _HEADING * body > 0:
            parts.append(line)


def _captions(lines: Sequence[_Line]) -> Iterator[str]:
    """Yield the captions; one that its line does not end goes on in the next."""
    for line, following in pairwise([*lines, _Line("", 0.0)]):
        match = _CAPTION.match(line.text)
        if match:
            goes_on = match[1][-1] not in ".!?:" and following.height == line.height
            yield f"{match[1]} {following.text}" if goes_on and not _CAPTION.match(following.text) else match[1]


def _cut(title: str) -> str:
    """Return a title without its number, or the first sentence of a caption."""
    return _SENTENCE_END.split(_NUMBER.sub("", " ".join(title.split())))[0].strip(_EDGES)
