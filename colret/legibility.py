"""Whether a page's text layer can be trusted, or its image must be read.

Thresholds were chosen on 1,209 pages of reports, papers, forms and hard cases, of which none may be
read by OCR that has a good text layer.
"""

from __future__ import annotations

import unicodedata
from collections import Counter

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from colret.characters import HYPHEN
from colret.types import Words
from colret.words import TextLayer

_UNREADABLE = 0.3  # of a page's characters: at most .04 on good pages, .4 and more where a font has no mapping

# Where most characters are guessed, as their codes are taken for ASCII, the guess may be right (Type 3
# fonts of plots) or shifted, as glyph numbers are: of letters that spell a language at least .22 are
# vowels, of English shifted by the usual 29 places .14.
_GUESSED = 0.5
_FEWEST_LETTERS = 100
_FEWEST_VOWELS = 0.2

_STAMP_WORDS = 15  # a Bates number, "Scanned by ...", a page header; whole pages of slides have more
_SCAN_COVER = 0.6  # of the page's area
_GRID = 64  # cells a side, to measure the union of images
_FORMS = 3  # that may lie in each other around an image


def legible_words(layer: TextLayer) -> Words:
    """Return the words of a text layer, or none where it is garbled."""
    return Words.none() if is_garbled(layer) else layer.words


def is_garbled(layer: TextLayer) -> bool:
    """Return whether most of the text is of glyphs whose characters are not known."""
    counts = Counter(zip(layer.characters, layer.unmapped.tolist(), strict=True))
    unreadable = sum(n for (char, guessed), n in counts.items() if _is_unreadable(char, guessed))
    if unreadable > _UNREADABLE * counts.total():
        return True
    letters = {char: n for (char, guessed), n in counts.items() if guessed and char.isascii() and char.isalpha()}
    n_letters = sum(letters.values())
    if layer.unmapped.sum() < _GUESSED * counts.total() or n_letters < _FEWEST_LETTERS:
        return False
    return sum(letters.get(vowel, 0) for vowel in "aeiouAEIOU") < _FEWEST_VOWELS * n_letters


def is_stamped_scan(page: pdfium.PdfPage, words: Words) -> bool:
    """Return whether images fill a page, and its few ``words`` are printed over them.

    Invisible words are a scan's own OCR instead, of a page with no more to read.
    """
    try:
        if not 0 < len(words.texts) <= _STAMP_WORDS or _image_cover(page) < _SCAN_COVER:
            return False
        texts = page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_TEXT])
        modes = {pdfium_c.FPDFTextObj_GetTextRenderMode(item.raw) for item in texts}
    except pdfium.PdfiumError:  # an object that PDFium cannot give: then its text is what there is
        return False
    return modes != {pdfium_c.FPDF_TEXTRENDERMODE_INVISIBLE}


def _is_unreadable(char: str, guessed: bool) -> bool:
    """Return whether ``char`` stands for a glyph whose character is not known.

    Private use, controls, U+FFFD, what is no character or none yet, and codes taken for characters
    that are not ASCII; not what is invisible by design.
    """
    if char == "\ufffd" or (guessed and not char.isascii()):
        return True
    return unicodedata.category(char) in ("Co", "Cn", "Cc") and char != HYPHEN


def _image_cover(page: pdfium.PdfPage) -> float:
    """Return the share of the page's area that images cover, those in forms included."""
    left, bottom, right, top = page.get_bbox()
    scale = np.array([right - left, top - bottom] * 2) / _GRID
    covered = np.zeros((_GRID, _GRID), bool)
    for item in page.get_objects(max_depth=1):
        if _is_picture(page, item):
            corners = np.rint((np.array(item.get_bounds()) - np.array([left, bottom] * 2)) / scale)
            columns, rows = (slice(*np.clip(corners[axis::2], 0, _GRID).astype(int)) for axis in (0, 1))
            covered[rows, columns] = True
    return float(covered.mean())


def _is_picture(page: pdfium.PdfPage, item: pdfium.PdfObject) -> bool:
    """Return whether an object of ``page`` is an image, or a form that holds one."""
    if item.type == pdfium_c.FPDF_PAGEOBJ_IMAGE:
        return True
    if item.type != pdfium_c.FPDF_PAGEOBJ_FORM:
        return False
    images = page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE], max_depth=_FORMS, form=item.raw, level=1)
    return next(images, None) is not None
