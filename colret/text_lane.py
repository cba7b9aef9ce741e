"""The text lane over an index: which pages have a query's terms and phrases, and their BM25.

LanceDB's full-text index finds the pages; their scores are computed here, from the terms that
pages are stored with, since its own depend on what was added and deleted since it was built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from colret import bm25
from colret.database import StaleReadError
from colret.errors import StoreError
from colret.store import PageStore
from colret.terms import query_terms, sequence_terms, terms_by_word, word_sequence
from colret.types import Float32, Int64, Words

_BLOCK_PAGES: Final = 2000  # whose terms are in memory at once: some 10 MB
_WIDER: Final = 4  # times as many are asked for, where too many of the best were not allowed

_QUOTED = re.compile(
    '"([^"]*)"|\u201c([^\u201d]*)\u201d|\u201e([^\u201c\u201d]*)[\u201c\u201d]|\u00ab([^\u00bb]*)\u00bb'
)


def phrases(text: str) -> list[str]:
    """Return what a query has in double quotes, without what holds no word."""
    quoted = ("".join(filter(None, match)) for match in _QUOTED.findall(text))
    return [phrase for phrase in quoted if word_sequence(phrase).strip()]


def unquoted(text: str) -> str:
    """Return a query without the marks around its phrases, which would match as words do."""
    return " ".join(_QUOTED.sub(lambda match: f" {''.join(filter(None, match.groups()))} ", text).split())


class TextIndexError(StaleReadError):
    """The full-text index cannot be used: if it was not made anew meanwhile, it is damaged, and an ingest does that."""


def check_text_index(store: PageStore) -> None:
    """Look a term of the longest page up.

    Raises:
        TextIndexError: If the full-text index does not find it.
        StoreError: If the pages cannot be read.
    """
    if not store.n_pages():
        return
    longest = int(store.page_table().text_lengths.argmax())
    terms = store.terms(np.array([longest]))[0].split()
    places = _places_with_term(store, terms[0] if terms else "-")
    if terms and longest not in places:
        raise _damaged(store)


def drop_damaged_text_index(store: PageStore) -> bool:
    """Drop the full-text index where it is damaged, so that it is made anew; under ``store.writing()``.

    Returns:
        Whether it was.

    Raises:
        StoreError: If the pages cannot be read.
    """
    try:
        check_text_index(store)
    except TextIndexError:
        store.drop_index("terms")
        return True
    return False


class TextLane:
    """BM25 and phrases over the visible pages of an index, as of its last refresh."""

    def __init__(self, store: PageStore) -> None:
        self._store = store

    def candidates(self, text: str, allowed: Int64, n: int) -> Int64:
        """Return the places, ascending, of at most ``n`` of the allowed pages, the best by LanceDB's BM25."""
        terms, table = query_terms(text), self._store.page_table()
        if not terms:  # but perhaps a phrase of stop words, that the allowed pages have
            return allowed[:n] if phrases(text) else allowed[:0]
        documents = None
        if len(allowed) < len(table):
            documents = [table.doc_ids[i] for i in np.unique(table.documents[allowed])]
        n_asked = n
        while True:  # other pages of those documents may be better, and are not allowed
            with _blaming_index(self._store):
                found = self._store.matching_terms(terms, n_asked, doc_ids=documents)
            places = table.places(page.row_id for page in found)
            places = places[np.isin(places, allowed)][:n]
            if len(places) == n or len(found) < n_asked:
                return np.sort(places)
            n_asked *= _WIDER

    def with_phrases(self, text: str, allowed: Int64) -> Int64:
        """Return the places of those allowed pages that have every quoted phrase of a query word for word."""
        for phrase in phrases(text):
            sequence = word_sequence(phrase)
            with_terms = (_places_with_term(self._store, term) for term in sequence_terms(sequence))
            allowed = self._having(sequence, reduce(np.intersect1d, with_terms, allowed))
        return allowed

    def shares(self, texts: Sequence[str], kept: Sequence[Int64]) -> list[Float32]:
        """Return the BM25 of each query with the pages kept for it, as shares of its upper bound.

        Args:
            texts: Queries.
            kept: For each, ascending places.

        Returns:
            For each query, (len(kept),) float32 in 0 to 1.
        """
        table = self._store.page_table()
        mean_length = float(table.text_lengths.mean())
        asked = [query_terms(text) for text in texts]
        idf = [bm25.inverse_frequencies(self._frequencies(terms), len(table)) for terms in asked]
        scores = [np.zeros(len(places), np.float32) for places in kept]
        everything = np.unique(np.concatenate(kept))
        for start in range(0, len(everything), _BLOCK_PAGES):
            block = everything[start : start + _BLOCK_PAGES]
            pages = self._store.terms(block)
            for terms, places, weights, row in zip(asked, kept, idf, scores, strict=True):
                first, last = np.searchsorted(places, [block[0], block[-1] + 1])
                mine = places[first:last]
                found = bm25.counts([pages[i] for i in np.searchsorted(block, mine)], terms)
                lengths = table.text_lengths[mine].astype(np.int64)
                row[first:last] = bm25.shares(found, lengths, mean_length, weights)
        return scores

    def word_weights(self, text: str, words: Words) -> NDArray[np.float64]:
        """Return how much each word of a page adds to a query's BM25: its terms' idf, (W,) float64."""
        terms = query_terms(text)
        idf = bm25.inverse_frequencies(self._frequencies(terms), self._store.n_pages())
        known = dict(zip(terms, idf.tolist(), strict=True))
        return np.array([sum(known.get(term, 0.0) for term in each) for each in terms_by_word(words.texts)])

    def _frequencies(self, terms: Sequence[str]) -> Int64:
        """Return how many visible pages have each term, looked up once until the index changes."""
        return np.array([self._frequency(term) for term in terms], np.int64)

    def _frequency(self, term: str) -> int:
        n: int = self._store.derived(("pages with", term), lambda: len(_places_with_term(self._store, term)))
        return n

    def _having(self, sequence: str, places: Int64) -> Int64:
        """Return those places whose pages have a sequence of words."""
        blocks = (places[start : start + _BLOCK_PAGES] for start in range(0, len(places), _BLOCK_PAGES))
        having = [[sequence in word_sequence(text) for text in self._store.texts(block)] for block in blocks]
        return places[np.array([each for block in having for each in block], np.bool_)]


def _places_with_term(store: PageStore, term: str) -> Int64:
    with _blaming_index(store):
        return store.places_with_term(term)


@contextmanager
def _blaming_index(store: PageStore) -> Iterator[None]:
    """Raise what goes wrong meanwhile as a ``TextIndexError``, if the pages themselves can be read."""
    try:
        yield
    except StoreError as error:
        store.terms(np.arange(1))
        raise _damaged(store) from error


def _damaged(store: PageStore) -> TextIndexError:
    remedy = f"make it anew from its pages with: colret ingest FOLDER --index {store.location}"
    return TextIndexError(store.location, "its full-text index is damaged", remedy)
