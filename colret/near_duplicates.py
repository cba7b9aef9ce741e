"""Pages of an index that are nearly one: by their words, or, where they have none, by their images.

Words decide wherever a page has any: pages made from one template look alike and say different
things. Pages without words, which only vision encoders store, are near-identical if their
perceptual hashes differ in few bits and their mean vectors point the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from colret.grouping import Groups, alike, components, duplicate_groups, identical
from colret.shingles import candidate_pairs, resemblance, shingles, sketch
from colret.store import PageStore
from colret.types import Candidate, Int64

DEFAULT_RESEMBLANCE: Final = 0.8
"""Share of their runs of words that two near-identical pages have in common."""

LEAST_RESEMBLANCE: Final = 0.5
"""Below it, pairs might be overlooked: with this one, one in a few is (see ``shingles.BANDS``)."""

HASH_BITS: Final = 2
IMAGE_COSINE: Final = 0.98
"""Of pages without words: bits in which their hashes may differ, and the least cosine of their mean vectors."""

_BLOCK_PAGES = 2000  # whose words are in memory at once
_PAIRS = 2048  # of pages, whose words are


class DuplicateGroup(NamedTuple):
    """Pages that a chain of near-identical pairs links."""

    pages: list[Candidate]  # in page order
    similarity: float  # of the first page and the one least like it: resemblance, or a cosine if there are no words
    by: str  # "words" or "image"


def near_duplicates(store: PageStore, threshold: float = DEFAULT_RESEMBLANCE) -> list[DuplicateGroup]:
    """Return the groups of near-identical pages, the largest first; of equal size in page order.

    Args:
        store: The index.
        threshold: Least resemblance of the words of a pair, ``LEAST_RESEMBLANCE`` to 1; 1 wants
            the same words in the same order, but for white space.

    Raises:
        ValueError: If the threshold is out of range.
    """
    if not LEAST_RESEMBLANCE <= threshold <= 1:
        raise ValueError(f"a threshold is from {LEAST_RESEMBLANCE} to 1, not {threshold}")
    groups = page_groups(store, threshold)
    table = store.page_table()
    return [
        DuplicateGroup(table.candidates(places), *_likeness(store, places))
        for places in map(np.array, duplicate_groups(groups))
    ]


def page_groups(store: PageStore, threshold: float = DEFAULT_RESEMBLANCE) -> Int64:
    """Return the place of the first page of each page's group, (N,) int64; see ``near_duplicates``."""
    n = store.n_pages()
    keys: list[bytes | int] = []
    for place, text in _texts(store, np.arange(n)):
        keys.append(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() if text else place)
    worded = np.array([isinstance(key, bytes) for key in keys], np.bool_)
    same = identical(keys)
    first = np.flatnonzero(worded & (same == np.arange(n)))  # of pages with the same words, it stands for all
    links = [np.stack([np.arange(n), same], axis=1), first[_alike_in_words(store, first, threshold)]]
    wordless = np.flatnonzero(~worded)
    if len(wordless) > 1:
        images = alike(store.singles(wordless), IMAGE_COSINE, store.image_hashes(wordless), HASH_BITS)
        links.append(np.stack([wordless, wordless[images]], axis=1))
    return components(n, np.concatenate(links))


def _alike_in_words(store: PageStore, places: Int64, threshold: float) -> Int64:
    """Return pairs that link the pages at ``places`` that share enough words, (E, 2) int64 into ``places``.

    Pages that are linked already are not compared: of thousands made from one form, each is
    compared with one other, not with all.
    """
    sketches = [sketch(shingles(text)) for _, text in _texts(store, places)]
    if not sketches:
        return np.empty((0, 2), np.int64)
    groups = Groups(len(places))
    links: list[tuple[int, int]] = []
    for candidates in candidate_pairs(np.stack(sketches), groups.of):
        for start in range(0, len(candidates), _PAIRS):
            pairs = groups.apart(candidates[start : start + _PAIRS])
            wanted = np.unique(pairs)
            texts = zip(wanted.tolist(), _only(store, places[wanted]), strict=True)
            found = {place: shingles(text) for place, text in texts}
            for a, b in pairs.tolist():
                if groups.of[a] != groups.of[b] and resemblance(found[a], found[b]) >= threshold:
                    groups.unite(a, b)
                    links.append((a, b))
    return np.array(links, np.int64).reshape(-1, 2)


def _likeness(store: PageStore, places: Int64) -> tuple[float, str]:
    """Return how like its first page the least like page of a group is, and by what."""
    first, *others = [shingles(text) for text in _only(store, places)]
    if len(first):
        return min(resemblance(first, other) for other in others), "words"
    singles = store.singles(places)
    return float((singles[1:] @ singles[0]).min()), "image"


def _only(store: PageStore, places: Int64) -> Iterator[str]:
    return (text for _, text in _texts(store, places))


def _texts(store: PageStore, places: Int64) -> Iterator[tuple[int, str]]:
    """Yield the words of pages with their places, read block by block."""
    for start in range(0, len(places), _BLOCK_PAGES):
        block = places[start : start + _BLOCK_PAGES]
        yield from zip(block.tolist(), store.texts(block), strict=True)
