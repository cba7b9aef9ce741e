"""How evidence looks: as JSON, and as lines for a terminal."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from colret.errors import one_line, printable

if TYPE_CHECKING:
    from colret.evidence import Evidence
    from colret.snippets import Snippet

_INDENT = " " * 5
_MARKS = ("\x01", "\x02")  # where bold begins and ends, while text is wrapped
_BOLD = str.maketrans({_MARKS[0]: "\x1b[1m", _MARKS[1]: "\x1b[22m"})
_FILLER = "\x03"  # the second column of a wide character, while text is wrapped
_LONGEST_QUOTE = 120  # characters of a region's text


def evidence_fields(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as JSON has it; boxes are left, top, right, bottom in points from the upper left."""
    return {
        "width": round(evidence.page.width, 2),
        "height": round(evidence.page.height, 2),
        "snippet": evidence.snippet.text,
        "highlights": [list(span) for span in evidence.snippet.highlights],
        "regions": [
            {
                "box": _rounded(region.box),
                "score": round(region.score, 4),
                "tokens": list(region.tokens),
                "text": evidence.text_in(region.box),
            }
            for region in evidence.regions
        ],
        "tokens": [
            {"token": each.token, "similarity": round(each.similarity, 4), "box": _rounded(each.box)}
            for each in evidence.tokens
        ],
        "coarse": evidence.coarse or None,
    }


def evidence_lines(evidence: Evidence) -> list[str]:
    """Return evidence as lines: the snippet, the regions, the tokens with their numbers."""
    lines = snippet_lines(evidence.snippet)
    for rank, region in enumerate(evidence.regions, start=1):
        box = ", ".join(f"{value:.0f}" for value in region.box)
        quoted = shortened(evidence.text_in(region.box), _LONGEST_QUOTE)
        lines += wrapped(f"{region.score:.0%} of the query at {box} pt: {quoted}", f"{rank:>3}. ")
    numbered = (f"{i} {each.token} {each.similarity:.2f}" for i, each in enumerate(evidence.tokens, start=1))
    return [*lines, *wrapped("tokens: " + ", ".join(numbered))]


def shortened(text: str, n_characters: int) -> str:
    """Return ``text``, or its beginning, up to a space where it has any, as in scripts without."""
    if len(text) <= n_characters:
        return text
    space = text.rfind(" ", n_characters // 2, n_characters - 1)
    return f"{text[: space if space > 0 else n_characters - 2]} …"


def snippet_lines(snippet: Snippet) -> list[str]:
    """Return a snippet as lines with what matched in bold, which ``click.echo`` drops where nobody sees it."""
    marked = snippet.marked(*_MARKS)
    safe = "".join(character if character in _MARKS else printable(character) for character in marked)
    return [line.translate(_BOLD) for line in _wrap(safe, _INDENT)]


def wrapped(text: str, first: str = _INDENT) -> list[str]:
    """Return ``text`` in indented lines as wide as the terminal, the first of which begins with ``first``."""
    return _wrap(one_line(text), first)


def _wrap(text: str, first: str) -> list[str]:
    width = max(20, min(shutil.get_terminal_size((100, 24)).columns, 120))
    wide = text if text.isascii() else "".join(map(_as_wide, text))
    lines = textwrap.wrap(wide, width, initial_indent=first, subsequent_indent=_INDENT)
    return [line.replace(_FILLER, "") for line in lines]


def _as_wide(character: str) -> str:
    """Return a character as long as the columns that it takes."""
    return character + _FILLER if unicodedata.east_asian_width(character) in "WF" else character


def _rounded(box: Sequence[float]) -> list[float]:
    return [round(value, 2) for value in box]
