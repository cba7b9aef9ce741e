"""Characters that a PDF's text layer may hold, and what is left of them in a word. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

HYPHEN = "\ufffe"
"""PDFium's mark for a hyphen that ends a line; the next line follows at once."""

_JOINING_HYPHEN = re.compile(rf"(?<=[^\W\d_]){HYPHEN}(?=[^\W\d_])")

# What no reader sees and no tokenizer knows: controls, soft hyphens and marks of direction,
# private use (glyphs without a Unicode value, such as bullets of symbol fonts), noncharacters.
_PLANE_ENDS = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffd\ufdd0-\ufdef"
    "\ue000-\uf8ff\U000e0000-\U000e007f\U000f0000-\U0010ffff" + _PLANE_ENDS + "]"
)

# Glyphs that Unicode has as characters: ligatures, and the shapes of Arabic and Hebrew letters.
# Not the two that stand for a phrase, nor what NFKC would change elsewhere: "x²" is not "x2".
_PRESENTATION = re.compile("[\ufb00-\ufdf9\ufdfc\ufe70-\ufefc]")

# A letter of a script without spaces between words (Han, hiragana), with its punctuation.
_OPENING = "[\u3008\u300a\u300c\u300e\u3010\u3014\u3016\uff08\uff3b\uff5b\u2018\u201c(\\[]"
_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HIRAGANA = "\u3041-\u3096\u309d-\u309f"
_LETTER = f"(?:[{_HAN}{_HIRAGANA}]|[\ud840-\ud87f][\udc00-\udfff])"
_IDEOGRAPH = re.compile(rf"{_OPENING}*{_LETTER}(?:(?!{_OPENING})[^\w\s\ud800-\udfff])*")

# Where a word of such a script begins and ends, or of katakana, and where digits may stand beside it.
_WIDE = rf"[{_HAN}{_HIRAGANA}\u30a1-\u30ff\u31f0-\u31ff\u3000-\u303f\uff00-\uffef\U00020000-\U0003ffff]"
_BEGINS = re.compile(rf"[^\w\s]*(?:(?P<wide>{_WIDE})|(?P<digit>\d))")
_ENDS = re.compile(rf"(?:(?P<wide>{_WIDE})|(?P<digit>\d))[^\w\s]*\Z")


def visible_word(run: str) -> str:
    """Return a run of UTF-16 units, one a character, as valid, visible Unicode in NFC.

    Ligatures and shapes of letters become the letters; "" when nothing visible is left.
    """
    if run.isascii() and run.isprintable():
        return run
    run = _JOINING_HYPHEN.sub(_dehyphenate, run).replace(HYPHEN, "-")
    paired = run.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")  # lone halves go
    text = _PRESENTATION.sub(_letters, _INVISIBLE.sub("", paired))
    return unicodedata.normalize("NFC", text) if any(map(str.isprintable, text)) else ""


def ideograph_bounds(units: str) -> list[int]:
    """Return where the words of scripts without spaces begin and end, ascending.

    Each letter of Han and hiragana is a word, as for Unicode's default of word boundaries
    (Standard Annex 29) and the tokenizers of BERT; punctuation stays with its letter.
    """
    return sorted({bound for match in _IDEOGRAPH.finditer(units) for bound in match.span()})


def split_at_ideographs(text: str) -> list[str]:
    """Return the words of ``text``, at white space and at ``ideograph_bounds``."""
    bounds = sorted({0, *ideograph_bounds(text), len(text)})
    return [word for start, end in pairwise(bounds) for word in text[start:end].split()]


def spaces_before(words: Sequence[str]) -> list[str]:
    """Return what is written before each word: a space, or nothing before the first one and where none is written.

    That is between letters of Han and kana, and between these and digits; Korean has spaces.
    """
    if not words:
        return []
    return ["", *("" if _adjoining(before, after) else " " for before, after in pairwise(words))]


def running_text(words: Sequence[str]) -> str:
    """Return words as people read them: with ``spaces_before``."""
    return "".join(space + word for space, word in zip(spaces_before(words), words, strict=True))


def _adjoining(before: str, after: str) -> bool:
    if before.isascii() and after.isascii():
        return False
    end, begin = _ENDS.search(before), _BEGINS.match(after)
    return bool(end and begin and (end["wide"] or begin["wide"]))


def _letters(match: re.Match[str]) -> str:
    """Return the letters of a presentation form; of a mark alone, without the space it stands on."""
    return "".join(unicodedata.normalize("NFKC", match[0]).split())


def _dehyphenate(match: re.Match[str]) -> str:
    """Drop the hyphen of "exam-ple", keep those of "Anglo-American" and "1990-1995"."""
    return "" if match.string[match.end()].islower() else "-"
