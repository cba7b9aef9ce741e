"""Lines of right-to-left scripts: from where letters stand to the order in which they are read. Pure.

A PDF says where glyphs stand. The order of a text that is searched and quoted is the logical
one, that of typing: the inverse of the reordering for display (Unicode Standard Annex 9). The
inverse is not unique; this one is right for lines that mix words, numbers and brackets without
explicit marks of direction.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
"""A letter or mark of Hebrew, Arabic, Syriac, Thaana, N'Ko, Samaritan or Mandaic, or a digit of them."""

# One letter for each bidirectional class that matters here: all others are blanks.
_CLASSES = {"L": "L", "R": "R", "AL": "R", "EN": "N", "AN": "N", "ES": "-", "CS": ",", "ET": "%"}

# What reads left to right in a line that does not: from a Latin letter to the last one, or to a
# digit, before the next letter of the line's own; and numbers. Rules W4 to W7 join signs to
# digits, but in Arabic only what separates the parts of a number.
_LATIN = "N*L(?:[^R]*[LN])?"
_EMBEDDED = re.compile(f"{_LATIN}|%*N+(?:[-,]N+)*%*")
_EMBEDDED_IN_ARABIC = re.compile(f"{_LATIN}|N+(?:,N+)*")
_RIGHT_TO_LEFT_RUN = re.compile("R(?:[^L]*R)?")

_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("«", "»"), ("<", ">"))


def is_right_to_left(text: str, share: float = 0.5) -> bool:
    """Return whether at least ``share`` of the letters of ``text`` read right to left, and any does."""
    classes = _classes(text)
    n_right, n_left = classes.count("R"), classes.count("L")
    return n_right > 0 and n_right >= share * (n_right + n_left)


def logical_order(glyphs: Sequence[str], *, right_to_left: bool) -> list[int]:
    """Return the indices of ``glyphs`` in the order in which they are read.

    Args:
        glyphs: The characters of a line from left to right, spaces among them; a letter with
            its marks is one.
        right_to_left: Whether the line as a whole reads so, or has words in it that do.
    """
    classes = _classes([glyph[0] for glyph in glyphs])
    if right_to_left:
        return _from_the_right(glyphs, classes, 0, len(glyphs))
    order: list[int] = []
    done = 0
    for run in _RIGHT_TO_LEFT_RUN.finditer(classes):
        order += range(done, run.start())
        order += _from_the_right(glyphs, classes, run.start(), run.end())
        done = run.end()
    return [*order, *range(done, len(glyphs))]


def pair_brackets(line: str) -> str:
    """Return a line in logical order with brackets that open before they close.

    Fonts and PDFium call the glyph that opens a bracket from the right by either name. Where an even
    number of one kind is there and they do not pair as they are, they open and close in turn.
    """
    for opening, closing in _PAIRS:
        found = [index for index, char in enumerate(line) if char in (opening, closing)]
        if found and len(found) % 2 == 0 and not _balanced(line, opening, closing):
            chars = list(line)
            for turn, index in enumerate(found):
                chars[index] = closing if turn % 2 else opening
            line = "".join(chars)
    return line


def _classes(chars: Sequence[str]) -> str:
    return "".join(_CLASSES.get(unicodedata.bidirectional(char), " ") for char in chars)


def _from_the_right(glyphs: Sequence[str], classes: str, start: int, end: int) -> list[int]:
    """Return the indices from ``end`` down to ``start``, but upwards in what reads left to right."""
    arabic = any(unicodedata.bidirectional(glyph[0]) == "AL" for glyph in glyphs[start:end])
    order: list[int] = []
    left = start  # of what is not yet in the order, which is built from the left end backwards
    for run in (_EMBEDDED_IN_ARABIC if arabic else _EMBEDDED).finditer(classes, start, end):
        order += range(left, run.start())
        order += reversed(range(run.start(), run.end()))
        left = run.end()
    order += range(left, end)
    return order[::-1]


def _balanced(line: str, opening: str, closing: str) -> bool:
    depth = 0
    for char in line:
        depth += (char == opening) - (char == closing)
        if depth < 0:
            return False
    return depth == 0
