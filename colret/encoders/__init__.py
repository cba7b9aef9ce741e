"""Encoders turn pages and queries into multivectors; ``load_encoder`` picks one by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from colret.types import EncoderInfo, Page, PageEmbedding, QueryEmbedding


class Encoder(Protocol):
    """What ingest and search need of a model."""

    info: EncoderInfo

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Return one multivector per page, independent of which pages come together.

        A page with nothing to encode gets zero vectors.

        Raises:
            ModelError: If the model returns something that is not a direction (NaN, zero norm).
        """
        ...

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Return one multivector per query, independent of which queries come together.

        Raises:
            ValueError: If a text has no tokens.
        """
        ...
