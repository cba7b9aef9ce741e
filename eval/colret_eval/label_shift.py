"""Whether page labels are off by a constant: counted from 0, or printed numbers instead of positions.

The evidence is the words of the pages. Where labels are right, a query shares more words with the
page it names than with a page some steps further. Where they are shifted, it is the other way round
for most queries.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from colret_eval.measures import Float64
from colret_eval.statistics import randomisation_test

LEVEL = 0.01
"""Largest chance, over all shifts tried, of finding one in labels that are no better either way."""

SET_SHIFTS = (1, -1, 2, -2)
DOCUMENT_SHIFTS = (*range(1, 41), *range(-1, -4, -1))
"""Steps tried for one document: front matter of up to 40 pages, whose numbers are not printed or roman."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class PagedText:
    """A document's pages as the test sees them."""

    words: Sequence[Collection[str]]  # distinct words of each page, the first being page 1
    printed: Sequence[str]  # the number each page shows, by the PDF's page labels; "" where unknown


class Labelled(NamedTuple):
    """A query, and the pages of one document that its labels name."""

    query: str
    document: str
    pages: tuple[int, ...]


class Shift(NamedTuple):
    """Other pages than those named match the queries far better."""

    document: str | None  # None: all documents of the set alike
    step: int | None  # to be added to every page; None: by the PDF's page labels
    n_better: int  # groups of queries, each with one set of pages, that the shift matches better
    n_groups: int
    chance: float  # p-value, adjusted for the number of shifts tried


Moved = Callable[[str, int], int]


def words_of(text: str) -> set[str]:
    """Return the distinct lower-cased words of ``text``."""
    return set(_WORD.findall(text.lower()))


def find_shifts(labels: Sequence[Labelled], documents: Mapping[str, PagedText]) -> list[Shift]:
    """Return the shifts that the pages' words speak for: one for the set, or one for some documents.

    Args:
        labels: What the set says; labels on documents without text add nothing.
        documents: The labelled documents that have text, by name.
    """
    labels = [label for label in labels if label.document in documents]
    evidence = _Evidence(documents)
    of_documents = []
    for name in dict.fromkeys(label.document for label in labels):
        some = [label for label in labels if label.document == name]
        found = _best(evidence, some, {step: _by_step(step) for step in DOCUMENT_SHIFTS}, name)
        of_documents += [found] if found else []
    of_set = _best(evidence, labels, _set_shifts(documents), None)
    if of_set and all(found.step == of_set.step or of_set.step is None for found in of_documents):
        return [of_set]
    return of_documents


def _set_shifts(documents: Mapping[str, PagedText]) -> dict[int | None, Moved]:
    shifts: dict[int | None, Moved] = {step: _by_step(step) for step in SET_SHIFTS}
    shown = {name: {text: i for i, text in enumerate(d.printed, start=1) if text} for name, d in documents.items()}
    if any(text != str(number) for numbers in shown.values() for text, number in numbers.items()):
        shifts[None] = lambda name, page: shown[name].get(str(page), page)
    return shifts


def _by_step(step: int) -> Moved:
    return lambda _, page: page + step


class _Evidence:
    """How well pages match queries, by their words."""

    def __init__(self, documents: Mapping[str, PagedText]) -> None:
        self._documents = documents
        pages = [words for document in documents.values() for words in document.words]
        frequency = Counter(word for words in pages for word in words)
        self._weights = {word: math.log1p(len(pages) / (1 + n)) for word, n in frequency.items()}
        self._shares: dict[tuple[str, str, int], float] = {}  # many shifts ask for the same page

    def match(self, label: Labelled, pages: Sequence[int]) -> float:
        """Return the share of the query's words that a page has, weighted by rarity; the mean over ``pages``."""
        return sum(self._share(label.query, label.document, page) for page in pages) / len(pages)

    def _share(self, query: str, document: str, page: int) -> float:
        pages = self._documents[document].words
        if not 1 <= page <= len(pages):
            return 0.0
        place = query, document, page
        if place not in self._shares:
            weights = {word: self._weights[word] for word in words_of(query) if word in self._weights}
            found = sum(weight for word, weight in weights.items() if word in pages[page - 1])
            self._shares[place] = found / sum(weights.values()) if found else 0.0
        return self._shares[place]


def _best(
    evidence: _Evidence, labels: Sequence[Labelled], shifts: Mapping[int | None, Moved], document: str | None
) -> Shift | None:
    """Return the shift that gains most for its spread, if that is more than chance and for most groups.

    If a shift were no better, each group's gain would be as likely with the other sign. Only gains
    count, so the chance is one-sided, half of the test's; and times the number of shifts tried.
    """
    gains = {step: _gains(evidence, labels, moved) for step, moved in shifts.items()}
    step = max(gains, key=lambda step: _gain_for_spread(gains[step]))
    found = gains[step]
    n_better, n_groups = int((found > 0).sum()), int((found != 0).sum())
    if _gain_for_spread(found) <= 0 or 3 * n_better <= 2 * n_groups:
        return None
    groups = [str(place) for place in range(len(found))]
    chance = len(shifts) * randomisation_test(found, np.zeros_like(found), groups, np.random.default_rng(0)) / 2
    return Shift(document, step, n_better, n_groups, chance) if chance < LEVEL else None


def _gains(evidence: _Evidence, labels: Sequence[Labelled], moved: Moved) -> Float64:
    """Return how much better the shifted pages match than those named, for each group of queries.

    Queries about the same pages are one group, since they are not independent.
    """
    gains: dict[tuple[str, tuple[int, ...]], list[float]] = {}
    for label in labels:
        pages = [moved(label.document, page) for page in label.pages]
        gain = evidence.match(label, pages) - evidence.match(label, label.pages)
        gains.setdefault((label.document, label.pages), []).append(gain)
    return np.array([np.mean(values) for values in gains.values()], np.float64)


def _gain_for_spread(gains: Float64) -> float:
    return float(gains.sum() / max(np.sqrt((gains**2).sum()), 1e-12))
