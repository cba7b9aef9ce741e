"""The terms that BM25 sees of a text: of pages when they are stored, and of queries. Pure.

A word becomes its folded lower case: Unicode's compatible forms (NFKC), no accents on Latin and
Greek, no English plural. An identifier (``sshd_config``, ``--no-clobber``, ``AB-1234/5``,
``RFC2119``, ``CamelCase``) becomes itself, its parts, and its parts written as one. Scripts without
spaces between words become pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Final, Literal, NamedTuple

_LUCENE = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
STOP_WORDS: Final = frozenset(_LUCENE.split())
"""Lucene's English stop words. No page is told from another by them."""

LONGEST: Final = 60
"""Characters of a term; of longer runs, which nobody types, the beginning counts."""

_SHORTEST_PART = 2  # letters of an identifier's part: single ones, as of "e.g.", are everywhere
_CACHED = 1 << 16

_Kind = Literal["letters", "digits", "spaceless", ""]

# Kana, Han, Thai, Lao, Myanmar, Khmer: written without spaces between words. And Hangul, whose
# words carry their particles with them, but which has spaces.
_UNSPACED = (
    "\u0e01-\u0e3e\u0e40-\u0e4e\u0e80-\u0ecf\u0edc-\u0edf\u1000-\u103f\u104c-\u108f\u1780-\u17d3\u2e80-\u2fdf"
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_PAIRED = re.compile(f"[{_UNSPACED}\uac00-\ud7a3]")
_GAP = re.compile(rf"(?<=[{_UNSPACED}])\s+(?=[{_UNSPACED}])")
_FORMAT = re.compile("[\xad\u200b-\u200f\u2060\ufeff]")  # seen by nobody
_APOSTROPHE = re.compile("['\u2019\u02bc]")
_POSSESSIVE = re.compile(r"['\u2019\u02bc][sS](?=\W*\Z)")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")


class PageTerms(NamedTuple):
    """What BM25 sees of a page."""

    terms: list[str]  # each as often as it occurs
    length: int  # words, or characters of scripts without spaces: more terms of a word make no page longer


def page_terms(text: str) -> PageTerms:
    """Return the terms of a page; of scripts without spaces single characters too, that one may be asked for."""
    terms: list[str] = []
    length = 0
    for word in normal(text).split():
        found = _word_terms(word)
        terms += found.terms
        terms += found.single
        length += max(1, len(found.single))
    return PageTerms(terms, length)


def terms_by_word(words: Sequence[str]) -> list[set[str]]:
    """Return the terms of each word of a page; of scripts without spaces also those that reach into the next word."""
    found = [set(page_terms(word).terms) for word in words]
    for i, (before, after) in enumerate(pairwise(map(normal, words))):
        if _GAP.search(f"{before[-1:]} {after[:1]}"):
            for terms in found[i : i + 2]:
                terms.add(before[-1] + after[0])
    return found


def query_terms(text: str) -> list[str]:
    """Return the terms that a query asks for, each once, in order."""
    return list(dict.fromkeys(term for word in normal(text).split() for term in _word_terms(word).terms))


def word_sequence(text: str) -> str:
    """Return the words of a text for comparing phrases: folded, ungrouped by punctuation, a space around each.

    A phrase is on a page where its sequence is part of the page's. Characters of scripts without
    spaces stand alone.
    """
    return f" {' '.join(filter(None, map(_sequence, normal(text).split())))} "


def sequence_terms(sequence: str) -> list[str]:
    """Return terms that every page has on which a ``word_sequence`` stands."""
    terms: list[str] = []
    for word in sequence.split():
        if _PAIRED.match(word):
            terms.append(word)
        else:
            pieces = ("".join(characters) for _, characters in groupby(word, _kind))
            terms += (stem(piece)[:LONGEST] for piece in pieces if _is_term(piece))
    return list(dict.fromkeys(terms))


def normal(text: str) -> str:
    """Return a text in compatible forms (NFKC), without what is invisible, or spaces where a script has none."""
    if text.isascii():
        return text
    return _GAP.sub("", _FORMAT.sub("", unicodedata.normalize("NFKC", text)))


def stem(word: str) -> str:
    """Return an English word without its plural's ending.

    Harman, "How effective is suffixing?" (Journal of the American Society for Information
    Science 1991): the S stemmer, which was as good as stronger ones, and wrong less often.
    """
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y" if len(word) > 4 else word
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1] if len(word) > 3 else word
    if word.endswith("s") and not word.endswith(("us", "ss")):
        return word[:-1] if len(word) > 3 else word
    return word


@lru_cache(_CACHED)
def _sequence(word: str) -> str:
    folded = _APOSTROPHE.sub("", _folded(_POSSESSIVE.sub("", word))).casefold()
    runs = ((kind, "".join(characters)) for kind, characters in groupby(folded, _sequence_kind))
    return " ".join(" ".join(run) if kind == "spaceless" else run for kind, run in runs if kind)


class _WordTerms(NamedTuple):
    terms: tuple[str, ...]
    single: tuple[str, ...]  # characters of scripts without spaces, that stand in pairs among the terms


@lru_cache(_CACHED)
def _word_terms(word: str) -> _WordTerms:
    terms: list[str] = []
    single: list[str] = []
    for paired, characters in groupby(word, lambda character: bool(_PAIRED.match(character))):
        run = "".join(characters)
        if not paired:
            terms += (term[:LONGEST] for term in _spaced_terms(_POSSESSIVE.sub("", run)))
        elif len(run) == 1:
            terms.append(run)
        else:
            terms += (run[i : i + 2] for i in range(len(run) - 1))
            single += run
    return _WordTerms(tuple(terms), tuple(single))


def _spaced_terms(word: str) -> list[str]:
    """Return the terms of a word of a script with spaces: the word, or the parts and the whole of an identifier."""
    word = _APOSTROPHE.sub("", _folded(word))
    runs = [(kind, "".join(characters)) for kind, characters in groupby(word, _kind)]
    pieces = [run for kind, run in runs if kind]
    if not pieces:
        return []
    whole = _whole(word.casefold())
    if [piece.casefold() for piece in pieces] == [whole] == [part.casefold() for part in _HUMP.split(pieces[0])]:
        return [] if whole in STOP_WORDS else [stem(whole)]
    parts = [part.casefold() for piece in pieces for part in (*_HUMP.split(piece), piece)]
    joined = "".join(pieces).casefold()
    return list(dict.fromkeys([*(stem(part) for part in parts if _is_term(part)), whole, stem(joined)]))


def _is_term(part: str) -> bool:
    """Tell whether a part of an identifier tells anything by itself."""
    return part.isdecimal() or (len(part) >= _SHORTEST_PART and part not in STOP_WORDS)


def _whole(word: str) -> str:
    """Return an identifier without punctuation around it, but for what tells C++ and C# from C."""
    kept = [i for i, character in enumerate(word) if _kind(character)]
    first, end = kept[0], kept[-1] + 1
    while end < len(word) and word[end] in "+#":
        end += 1
    return word[first:end]


def _folded(text: str) -> str:
    """Return a text without accents on Latin and Greek letters; elsewhere marks make other letters."""
    if text.isascii():
        return text
    kept: list[str] = []
    base = " "
    for character in unicodedata.normalize("NFD", text):
        if not unicodedata.combining(character):
            base = character
        elif unicodedata.name(base, "").startswith(("LATIN", "GREEK")):
            continue
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


@lru_cache(_CACHED)
def _kind(character: str) -> _Kind:
    """Return what part of a word a character can be: "" is none."""
    category = unicodedata.category(character)
    if category[0] == "N":
        return "digits"
    return "letters" if category[0] in "LM" else ""


@lru_cache(_CACHED)
def _sequence_kind(character: str) -> str:
    """Return "spaceless" or "word" for characters that words are made of, "" for what stands between."""
    if _PAIRED.match(character):
        return "spaceless"
    return "word" if _kind(character) else ""
