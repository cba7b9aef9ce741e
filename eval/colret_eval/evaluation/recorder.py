"""An encoder that takes notes: what float32 vectors of a page would score, before any codec."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from colret.encoders import Encoder
from colret.pooling import block_means
from colret.scoring import mean_direction
from colret.types import EncoderInfo, Float32, Page, PageEmbedding, QueryEmbedding
from colret_eval.datasets import DatasetError

BLOCKS: Final = (2, 4, 8, 16, 32)
"""Numbers of mean vectors a page that the pooled single-vector baseline may have."""

_TOKENS = 8192  # query tokens compared with a page at once


class PageRecord(NamedTuple):
    """What is remembered of a page with vectors; n texts, in the recorder's order."""

    text: str
    image_hash: int
    n_vectors: int
    maxsim: Float32  # (n,) of its float32 vectors
    blocks: Float32  # (len(BLOCKS), n) the nearest of so many block means to the query's mean vector


class RecordingEncoder:
    """An ``Encoder`` that scores each page it encodes for all queries, and may keep the vectors on disk.

    Args:
        encoder: What encodes.
        texts: The queries, each once.
        folder: Where to keep float32 vectors, so that no page is encoded twice; None keeps none.

    Raises:
        DatasetError: A query has no tokens.
    """

    def __init__(self, encoder: Encoder, texts: Sequence[str], folder: Path | None = None) -> None:
        self._encoder = encoder
        self._folder = folder
        self._places = {text: place for place, text in enumerate(texts)}
        self._queries = _encoded(encoder, texts)
        self._means = np.stack([mean_direction(query.vectors) for query in self._queries])  # (n, D)
        self.records: dict[str, PageRecord] = {}  # by page id, of the set at hand
        self._contents: dict[str, str] = {}  # page id to what names the page's content, of the set at hand
        self._known: dict[str, PageRecord] = {}  # by content, of all sets
        self.n_encoded = 0  # pages that the encoder itself was given
        self.seconds = 0.0  # spent on notes, which are no part of an ingest

    @property
    def info(self) -> EncoderInfo:
        """What an index must know of the encoder."""
        return self._encoder.info

    def begin_set(self) -> None:
        """Forget page ids: another set may use the same ones for other pages. What a page's content gave stays."""
        self.records, self._contents = {}, {}

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Encode pages, or find what was kept of their content; score those that are new."""
        started = time.perf_counter()
        contents = [_content(page) for page in pages]
        kept = [self._load(content) for content in contents]
        new = [page for page, found in zip(pages, kept, strict=True) if found is None]
        self.seconds += time.perf_counter() - started
        encoded = self._encoder.encode_pages(new) if new else []
        self.n_encoded += len(new)
        started = time.perf_counter()
        fresh = iter(encoded)
        embeddings = [found or next(fresh) for found in kept]
        for page, content, embedding in zip(pages, contents, embeddings, strict=True):
            self._note(page, content, embedding)
        self.seconds += time.perf_counter() - started
        return embeddings

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Encode queries with the encoder."""
        return self._encoder.encode_queries(texts)

    def queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Return what was encoded at the start."""
        return [self._queries[self._places[text]] for text in texts]

    def places(self, texts: Sequence[str]) -> list[int]:
        """Return where in a ``PageRecord`` each of the texts is."""
        return [self._places[text] for text in texts]

    def kept_vectors(self, page_id: str) -> Float32:
        """Return the (P, D) float32 vectors of a page that was kept on disk."""
        found = self._load(self._contents[page_id])
        if found is None:
            raise KeyError(page_id)
        return found.vectors

    def _note(self, page: Page, content: str, embedding: PageEmbedding) -> None:
        if not len(embedding.vectors):
            return
        if content not in self._known:
            maxsim = np.concatenate([_maxsim(embedding.vectors, group) for group in self._groups()])
            near = np.stack([(self._means @ block_means(embedding.vectors, n).T).max(axis=1) for n in BLOCKS])
            n_vectors = len(embedding.vectors)
            if self._folder is not None:
                np.savez(self._file(content), vectors=embedding.vectors, boxes=embedding.boxes)
            self._known[content] = PageRecord(page.words.text, page.image_hash, n_vectors, maxsim, near)
        self._contents[page.ref.page_id] = content
        self.records[page.ref.page_id] = self._known[content]

    def _groups(self) -> Iterator[list[Float32]]:
        """Yield the vectors of some queries at a time, so that their products with a page stay small."""
        group: list[Float32] = []
        for query in self._queries:
            group.append(query.vectors)
            if sum(map(len, group)) >= _TOKENS:
                yield group
                group = []
        if group:
            yield group

    def _load(self, content: str) -> PageEmbedding | None:
        if self._folder is None or content not in self._known:
            return None
        with np.load(self._file(content)) as arrays:
            return PageEmbedding(arrays["vectors"], arrays["boxes"])

    def _file(self, content: str) -> Path:
        return (self._folder or Path()) / f"{content}.npz"


def _content(page: Page) -> str:
    """Return a name for all that an encoder sees of a page: page ids are not enough, two sets may share one."""
    digest = hashlib.sha256(page.words.boxes.tobytes())
    image = b"" if page.image is None else page.image.tobytes()
    size = None if page.image is None else page.image.size
    digest.update(repr((page.words.texts, page.width, page.height, page.image_hash, size)).encode())
    digest.update(image)
    return digest.hexdigest()[:32]


def _encoded(encoder: Encoder, texts: Sequence[str]) -> list[QueryEmbedding]:
    try:
        return encoder.encode_queries(texts)
    except ValueError as error:
        for text in texts:  # which one was it?
            try:
                encoder.encode_queries([text])
            except ValueError:
                raise DatasetError(f"query {text!r}", "has no tokens for the model", "reword or remove it") from error
        raise


def _maxsim(page: Float32, queries: Sequence[Float32]) -> Float32:
    """Return the MaxSim of a page (P, D) with each query (T, D), in float32: (len(queries),)."""
    best = (page @ np.concatenate(queries).T).max(axis=0)  # (sum T,)
    starts = np.cumsum([0, *map(len, queries[:-1])])
    return np.add.reduceat(best, starts).astype(np.float32)
