"""Real vectors: the pages and questions of labelled sets as the embedded encoder sees them.

They are kept as plain arrays in a folder, so that every process of the benchmark maps the same
file instead of holding a copy, and a second run with the same working folder encodes nothing.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from colret.encoders import Encoder
from colret.errors import DocumentError
from colret.folders import find_documents
from colret.reading import open_document
from colret.types import Boxes, Float32, Int64, Page, PageEmbedding, PageRef
from colret_eval.datasets import Dataset, DatasetError, load_dataset, page_key, read_pages, union
from colret_eval.measures import Qrels

ENCODE_PAGES = 16  # together


@dataclass(frozen=True, slots=True)
class RealVectors:
    """N pages and Q questions of a model; page ``i`` owns rows ``offsets[i]:offsets[i + 1]``."""

    pages: Float32  # (n, D), unit rows
    boxes: Boxes  # (n, 4)
    offsets: Int64  # (N + 1,)
    queries: Float32  # (m, D), unit rows
    query_offsets: Int64  # (Q + 1,)
    keys: list[str]  # of pages, as in the qrels
    query_ids: list[str]
    texts: list[str]  # of the questions
    qrels: Qrels  # empty where nothing is labelled
    source: str  # what was encoded, in words
    seconds: float  # that reading and encoding the pages took

    @property
    def n_pages(self) -> int:
        """N."""
        return len(self.offsets) - 1

    def page(self, i: int) -> Float32:
        """Return the (P, D) vectors of page ``i``."""
        return self.pages[self.offsets[i] : self.offsets[i + 1]]

    def query(self, i: int) -> Float32:
        """Return the (T, D) vectors of question ``i``."""
        return self.queries[self.query_offsets[i] : self.query_offsets[i + 1]]


_ARRAYS = ("pages", "boxes", "offsets", "queries", "query_offsets")
_TEXTS = ("keys", "query_ids", "texts", "qrels", "source", "seconds")


def real_vectors(folder: Path, data: Sequence[Path], examples: Path) -> RealVectors:
    """Return the vectors of the labelled sets ``data``, encoding them unless ``folder`` has them.

    Args:
        folder: Where the arrays are kept.
        data: Labelled sets (see ``datasets``); none stands for ``examples``.
        examples: A folder of documents with ``questions.txt``, one question a line.

    Raises:
        ColretError: If a set or a document cannot be used.
    """
    description = folder / "real.json"
    source = ", ".join(str(path.resolve().name) for path in data) or f"{examples.name} (no labels)"
    if not (description.is_file() and json.loads(description.read_text())["source"] == source):
        folder.mkdir(parents=True, exist_ok=True)
        _encode(folder, data, examples, source)
    return load(folder)


def load(folder: Path) -> RealVectors:
    """Return the vectors kept in ``folder``, mapped."""
    told = json.loads((folder / "real.json").read_text())
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
    return RealVectors(**arrays, **{name: told[name] for name in _TEXTS})


def _encode(folder: Path, data: Sequence[Path], examples: Path, source: str) -> None:
    from colret.encoders import load_encoder

    encoder = load_encoder("embedded")
    dataset = _dataset(data) if data else _examples(examples)
    started = time.perf_counter()
    keys, offsets, parts, boxes = [], [0], [], []
    for page, embedding in _embeddings(_pages(dataset, encoder.info.render_pixels), encoder):
        if len(embedding.vectors):
            keys.append(page.ref.page_id)
            offsets.append(offsets[-1] + len(embedding.vectors))
            parts.append(embedding.vectors)
            boxes.append(embedding.boxes)
    seconds = time.perf_counter() - started
    asked = [query.vectors for query in encoder.encode_queries(list(dataset.queries.values()))]
    for name, arrays in (("pages", parts), ("boxes", boxes), ("queries", asked)):
        np.save(folder / f"{name}.npy", np.concatenate(arrays))
    np.save(folder / "offsets.npy", np.array(offsets, np.int64))
    np.save(folder / "query_offsets.npy", np.cumsum([0, *map(len, asked)], dtype=np.int64))
    texts = {"query_ids": list(dataset.queries), "texts": list(dataset.queries.values()), "qrels": dataset.qrels}
    told = {"keys": keys, **texts, "source": source, "seconds": seconds}
    (folder / "real.json").write_text(json.dumps(told))  # last: it says that the arrays are whole


def _dataset(folders: Sequence[Path]) -> Dataset:
    datasets = [load_dataset(folder) for folder in folders]
    return union(datasets) if len(datasets) > 1 else datasets[0]


def _examples(folder: Path) -> Dataset:
    """Return a folder of documents and questions as a set whose questions nobody has answered."""
    questions = folder / "questions.txt"
    if not questions.is_file():
        raise DatasetError(questions, "is not there", "name labelled sets with --data")
    documents = {source.file.name: source.file for source in find_documents([folder])[0]}
    lines = filter(str.strip, questions.read_text(encoding="utf-8").splitlines())
    return Dataset(folder.name, folder, {f"q{i}": line for i, line in enumerate(lines)}, {}, documents, {})


def _pages(dataset: Dataset, pixels: int) -> Iterator[Page]:
    """Yield the pages that can be read, under their keys in the qrels."""
    for name, path in dataset.documents.items():
        with suppress(DocumentError), open_document(path) as document:  # what ingest would skip
            for number in range(1, document.n_pages + 1):
                ref = PageRef.parse(page_key(name, number))
                with suppress(DocumentError):
                    yield document.read_page(number, ref=ref, pixels=pixels, ocr=True)
    for name, pages in dataset.page_documents.items():
        yield from read_pages(name, pages, pixels=pixels, ocr=True)


def _embeddings(pages: Iterator[Page], encoder: Encoder) -> Iterator[tuple[Page, PageEmbedding]]:
    while some := list(itertools.islice(pages, ENCODE_PAGES)):
        yield from zip(some, encoder.encode_pages(some), strict=True)
