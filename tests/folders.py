"""Small documents, an encoder that is loaded at once, and all that an index shows of a folder."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np

from colret.database import StaleReadError
from colret.encoders.text import load_embedded
from colret.search import rank
from colret.store import PageStore
from colret.types import WHOLE_PAGE, EncoderInfo, Page, PageEmbedding, QueryEmbedding
from tests.pdfs import PdfSpec, build_pdf, text

WORDS = ["heron", "orbit", "violin", "sourdough", "granite", "harvest", "lantern", "meadow", "copper", "saffron"]
QUESTIONS = ("grey heron in shallow water", "granite and copper", "harvest of saffron at night")

_ATTEMPTS = 20  # at reading what another process may be compacting
_GONE_SECONDS = 15  # far more than the processes of a killed ingest take to end

Result = TypeVar("Result")


class NumpyEncoder:
    """The embedded encoder's network in numpy, for pages too: it is there in a fifth of the time that torch takes."""

    def __init__(self) -> None:
        self._encoder = load_embedded(device="cpu", dtype="float32", queries_only=True)
        self.info: EncoderInfo = self._encoder.info

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Return a vector for each word piece, anywhere on the page."""
        return [self._encode_page(page.words.text) for page in pages]

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Encode queries as the embedded encoder does."""
        return self._encoder.encode_queries(texts)

    def _encode_page(self, words: str) -> PageEmbedding:
        empty = np.empty((0, self.info.dim), np.float32)
        vectors = self._encoder.encode_queries([words])[0].vectors if words else empty
        return PageEmbedding(vectors, np.tile(np.array(WHOLE_PAGE, np.uint16), (len(vectors), 1)))


@cache
def numpy_encoder() -> NumpyEncoder:
    """Return the encoder, loaded once per process."""
    return NumpyEncoder()


def sentence(rng: random.Random, n_words: int = 12) -> str:
    """Return words drawn at random, which make a page unlike others."""
    return " ".join(rng.choice(WORDS) for _ in range(n_words))


def pdf(*pages: str) -> bytes:
    """Return a PDF with a page for each text, on one line of small print; an empty text makes a blank page."""
    return build_pdf([PdfSpec(text(page, 40, 700, 8) if page else "") for page in pages])


# What an index holds


class Document(NamedTuple):
    """A document as an index shows it."""

    paths: frozenset[str]  # of its files that exist
    status: str
    reason: str
    n_pages: int
    n_blank: int
    skipped: tuple[tuple[int, str], ...]
    pages: tuple[tuple[int, bytes, str], ...]  # number, codes and words of each visible page

    @property
    def is_whole(self) -> bool:
        """Whether all its pages are visible, each once; one that failed has none."""
        numbers = [number for number, _, _ in self.pages]
        expected = self.n_pages - self.n_blank - len(self.skipped) if self.status == "done" else 0
        return len(set(numbers)) == len(numbers) == expected


def contents(store: PageStore) -> dict[str, Document]:
    """Return the documents of an index by id, all from one moment."""
    return steady(lambda: _contents(store))


def _contents(store: PageStore) -> dict[str, Document]:
    store.refresh()
    pages: dict[str, list[tuple[int, bytes, str]]] = {}
    visible = store.candidates()
    details = store.details([page.row_id for page in visible])
    for place, (page, detail) in enumerate(zip(visible, details, strict=True)):
        codes = store.vectors(np.array([place])).values.tobytes()
        pages.setdefault(page.ref.doc_id, []).append((page.ref.number, codes, detail.words.text))
    records = [record for record in store.documents() if record.status != "replaced"]
    assert pages.keys() <= {record.doc_id for record in records}
    return {
        record.doc_id: Document(
            frozenset(file.path for file in record.files if os.path.lexists(file.path)),
            record.status,
            record.reason,
            record.n_pages,
            record.n_blank,
            tuple((page.number, page.reason) for page in record.skipped),
            tuple(sorted(pages.get(record.doc_id, []))),
        )
        for record in records
    }


def answers(store: PageStore, doc_ids: set[str]) -> list[list[tuple[str, float]]]:
    """Return each question's ranking of all pages of some documents: page and score, best first."""
    if not store.n_pages():
        return [[] for _ in QUESTIONS]
    rankings = rank(store, numpy_encoder().encode_queries(QUESTIONS), k=store.n_pages(), prefilter="none")
    hits = ([hit for hit in ranking.hits if hit.ref.doc_id in doc_ids] for ranking in rankings)
    return [[(hit.ref.page_id, hit.maxsim) for hit in some] for some in hits]


def steady(read: Callable[[], Result]) -> Result:
    """Read an index that another process may be compacting, as a search does: again if files are gone."""
    for _ in range(_ATTEMPTS):
        try:
            return read()
        except StaleReadError:
            time.sleep(0.05)
    return read()
