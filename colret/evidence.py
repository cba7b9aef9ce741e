"""Evidence: why a page was found. The tokens' best places, and a few rectangles around them.

Where the index pooled vectors, their boxes are unions that may span half the page. The page is
then read and encoded again, if an encoder is given and its file is still what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from colret.characters import running_text
from colret.compression import Compression
from colret.encoders import Encoder
from colret.errors import ColretError
from colret.matches import Matches, PageBox, TokenMatch, centres_inside, match, token_matches
from colret.originals import find_original, read_page_of
from colret.regions import Region, find_regions
from colret.scoring import float_vectors
from colret.search import fresh, places_of
from colret.snippets import Snippet, snippet, word_weights
from colret.store import PageStore
from colret.types import Candidate, Hit, PageDetails, PageEmbedding, QueryEmbedding

_WORD_FAMILY = "text"  # of encoders whose vectors come from words; those of the others come from an image


@dataclass(frozen=True)
class Evidence:
    """What of a page matched a query."""

    page: PageDetails
    matches: Matches
    from_words: bool  # whether vectors come from words, not from cells of an image
    coarse: str = ""  # why boxes are only the unions that pooling left; "" when they are exact

    @cached_property
    def tokens(self) -> list[TokenMatch]:
        """The query's tokens and the best place of each; none where no vector has a place."""
        return token_matches(self.matches, self.page.width, self.page.height)

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """A few rectangles, that which contributes most first."""
        words = self.page.words if self.from_words else None
        return find_regions(self.matches, self.page.width, self.page.height, words)

    @cached_property
    def snippet(self) -> Snippet:
        """The words around what matched."""
        return snippet(self.page.words, word_weights(self.matches, self.page.words))

    def text_in(self, box: PageBox) -> str:
        """Return the words whose centres lie in ``box``, in reading order."""
        scale = 65535 / np.array([self.page.width, self.page.height] * 2)
        edges = np.rint(np.clip(box * scale, 0, 65535)).astype(np.uint16)[None]
        inside = centres_inside(self.page.words.boxes, edges)[0].tolist()
        return running_text([text for text, is_in in zip(self.page.words.texts, inside, strict=True) if is_in])


def find_evidence(
    store: PageStore, query: QueryEmbedding, pages: Sequence[Hit | Candidate], *, encoder: Encoder | None = None
) -> list[Evidence]:
    """Return what of each page matched a query.

    Args:
        store: The index.
        query: As ``search.embed`` gives it.
        pages: Hits of a search, or any pages of the index.
        encoder: The encoder that made the index; it encodes pages again where their boxes were
            pooled away. Without it such boxes stay coarse, and ``Evidence.coarse`` says so.

    Raises:
        StoreError: If a page has been removed from the index.
    """
    return fresh(store, lambda: _find(store, query, pages, encoder))


def _find(
    store: PageStore, query: QueryEmbedding, pages: Sequence[Hit | Candidate], encoder: Encoder | None
) -> list[Evidence]:
    if not pages:
        return []
    places = places_of(store, pages)
    projected = Compression(matrix=store.projection()).query(query)
    stored = store.vectors(places)
    found = []
    for i, details in enumerate(store.details([page.row_id for page in pages])):
        embedding, coarse = PageEmbedding(float_vectors(stored, i), details.boxes), ""
        if store.settings.pool > 1:
            embedding, coarse = _unpooled(store, details, embedding, encoder)
        matches = match(projected, embedding.vectors, embedding.boxes, template=store.settings.query_template)
        found.append(Evidence(details, matches, store.settings.family == _WORD_FAMILY, coarse))
    return found


def _unpooled(
    store: PageStore, details: PageDetails, pooled: PageEmbedding, encoder: Encoder | None
) -> tuple[PageEmbedding, str]:
    """Return a page as it was before pooling, or ``pooled`` and why."""
    if encoder is None:
        return pooled, "the index pools vectors, and no encoder was given to encode the page again"
    info = encoder.info
    try:
        path = find_original(store, details.ref.doc_id)
        page = read_page_of(path, details.ref, pixels=info.render_pixels, ocr=info.reads == "words")
        [embedding] = encoder.encode_pages([page])
    except ColretError as error:
        return pooled, f"the index pools vectors, and the page cannot be encoded again ({error})"
    return Compression(matrix=store.projection()).page(embedding), ""
