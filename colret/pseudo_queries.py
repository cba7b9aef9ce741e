"""Queries made of the pages themselves, for what must be fitted where nobody has asked anything yet.

A query is some words of a passage, drawn at random and kept in order; the page is its answer
(Azzopardi, de Rijke and Balog, "Building simulated queries for known-item topics", SIGIR 2007).
Its words are copied, where a real question paraphrases: of what is fitted to it, only what does not
reward copied words by themselves holds for real questions. Drawn from the rare words alone, queries
score higher than real ones do, see ``docs/score-floor.md``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colret.store import PageStore
from colret.types import Int64

FEWEST_WORDS, MOST_WORDS = 4, 8
"""Of a query."""

_PASSAGE_WORDS = (8, 45)
_SHORT = 2  # letters of a word that nobody asks by
_LETTERS = 0.75  # of a passage's characters: fewer are tables and formulas
_SENTENCE_END = re.compile(r"(?<=\w{2}[.!?])\s+")
_EDGES = re.compile(r"\A\W+|\W+\Z")
_BLOCK_PAGES = 500  # whose words are read together
_SEED = 0


class PseudoQuery(NamedTuple):
    """A query and the place of the page that it was made of."""

    text: str
    place: int


def pseudo_queries(store: PageStore, n: int) -> list[PseudoQuery]:
    """Return at most ``n`` queries, a page each, the same ones of the same index; documents take turns.

    Fewer are found where few pages have sentences in words between spaces.
    """
    rng = np.random.default_rng(_SEED)
    places = _taking_turns(store.page_table().documents, rng)
    found: list[PseudoQuery] = []
    for start in range(0, len(places), _BLOCK_PAGES):
        block = places[start : start + _BLOCK_PAGES]
        for place, text in zip(block.tolist(), store.texts(block), strict=True):
            passages = _passages(text)
            if passages:
                found.append(PseudoQuery(_drawn(passages[int(rng.integers(len(passages)))], rng), place))
            if len(found) == n:
                return found
    return found


def _taking_turns(documents: NDArray[np.int32], rng: np.random.Generator) -> Int64:
    """Return all places in random order, one of each document before the second of any."""
    shuffled = rng.permutation(len(documents))
    taken: Counter[int] = Counter()
    turns = np.empty(len(documents), np.int64)
    for at, document in enumerate(documents[shuffled].tolist()):
        turns[at] = taken[document]
        taken[document] += 1
    return np.asarray(shuffled[np.argsort(turns, kind="stable")], np.int64)


def _passages(text: str) -> list[list[str]]:
    """Return the words that one might ask by of each sentence of a page."""
    fewest, most = _PASSAGE_WORDS
    sentences = (sentence.split() for sentence in _SENTENCE_END.split(text))
    prose = (words for words in sentences if fewest <= len(words) <= most and _is_prose("".join(words)))
    plain = ([_EDGES.sub("", word).replace('"', "") for word in words] for words in prose)  # no quoted phrases
    kept = ([word for word in words if len(word) > _SHORT] for words in plain)
    return [words for words in kept if len(words) >= FEWEST_WORDS]


def _is_prose(characters: str) -> bool:
    return sum(map(str.isalpha, characters)) > _LETTERS * len(characters)


def _drawn(words: Sequence[str], rng: np.random.Generator) -> str:
    n_words = min(int(rng.integers(FEWEST_WORDS, MOST_WORDS + 1)), len(words))
    return " ".join(words[i] for i in np.sort(rng.permutation(len(words))[:n_words]).tolist())
