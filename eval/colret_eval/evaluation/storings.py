"""Ways to store vectors, each tried on every page in one pass over vectors kept on disk."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from colret.codecs import CODECS, bytes_per_vector, decode, encode
from colret.pooling import ward_pool
from colret.projection import fit, project
from colret.scoring import maxsim
from colret.settings import COARSE_CODECS, settings_for
from colret.types import WHOLE_PAGE, Codec, EncoderInfo, Float32, Multivectors
from colret_eval.evaluation.corpus import Corpus
from colret_eval.evaluation.quantisation import ProductQuantiser, fit_quantiser
from colret_eval.evaluation.recorder import RecordingEncoder
from colret_eval.measures import Float64

Projection = Literal["none", "rotation", "truncation"]

_BLOCK_PAGES = 64  # scored together
_SAMPLE_PAGES, _SAMPLE_VECTORS = 128, 256  # that projections and codewords are fitted on: pages, vectors of each


@dataclass(frozen=True, slots=True)
class Storing:
    """One way to store vectors."""

    codec: Codec | Literal["float32", "pq"]
    dim: int
    projection: Projection = "none"
    pool: int = 1
    n_bytes: int = 0  # of a vector by product quantisation

    @property
    def balanced(self) -> bool:
        """Whether dimensions are turned to have about the same variance, as the index does for coarse codecs."""
        return self.codec in COARSE_CODECS


class Tried(NamedTuple):
    """What a way of storing gives."""

    scores: Float32  # (Q, N), columns as in the corpus
    bytes_per_page: float  # of the codes alone
    milliseconds: Float64  # (Q,) MaxSim with every page, vectors in memory


def default_storings(
    info: EncoderInfo, codecs: Sequence[str], dims: Sequence[int], pools: Sequence[int]
) -> list[Storing]:
    """Return one factor at a time around int8 and int4: codecs, then dimensions, then pool factors.

    Args:
        info: Of the encoder.
        codecs: At all dimensions, float32 and "pq" among those possible; the coarse ones rotated and not.
        dims: Fewer dimensions.
        pools: Factors above 1.
    """
    dim = info.dim
    found = [Storing("float32", dim)]
    if "pq" in codecs:
        found += [Storing("pq", dim, n_bytes=dim // part) for part in (4, 8) if dim % part == 0]
    for codec in (each for each in CODECS if each in codecs):
        found.append(Storing(codec, dim))
        found += [Storing(codec, dim, "rotation")] if codec in COARSE_CODECS else []
    around: tuple[Codec, ...] = ("int8", "int4")
    for codec in (each for each in around if each in codecs):
        shipped: Projection = "rotation" if settings_for(info, codec).projected else "none"
        for fewer in dims:
            found += [Storing(codec, fewer, "rotation"), Storing(codec, fewer, "truncation")]
        found += [Storing(codec, dim, shipped, pool) for pool in pools]
    return found


def try_storings(
    corpus: Corpus, recorder: RecordingEncoder, storings: Sequence[Storing], queries: Sequence[Float32]
) -> list[Tried]:
    """Return what each way of storing gives for the queries, each (T, D) float32."""
    sample = _sample(corpus, recorder)
    trials = [_Trial(storing, sample, queries) for storing in storings]
    columns = [column for column, page in enumerate(corpus.page_ids) if page]
    for start in range(0, len(columns), _BLOCK_PAGES):
        block = columns[start : start + _BLOCK_PAGES]
        pages = [recorder.kept_vectors(corpus.page_ids[column]) for column in block]
        pooled = {pool: [_pooled(page, pool) for page in pages] for pool in {each.pool for each in storings}}
        for trial in trials:
            trial.score(pooled[trial.storing.pool])
    return [trial.result(columns, len(corpus.keys)) for trial in trials]


class _Trial:
    """One way of storing, as it goes over the pages."""

    def __init__(self, storing: Storing, sample: Float32, queries: Sequence[Float32]) -> None:
        self.storing = storing
        self._matrix = _matrix(storing, sample)
        self._quantiser: ProductQuantiser | None = None
        if storing.codec == "pq":
            self._quantiser = fit_quantiser(sample, storing.n_bytes)
        self._queries = [self._projected(query) for query in queries]
        self._scores: list[Float32] = []
        self._n_bytes = 0
        self._n_pages = 0
        self._seconds = np.zeros(len(queries))

    def score(self, pages: Sequence[Float32]) -> None:
        """Store a block of pages and score it."""
        stored = self._stored([self._projected(page) for page in pages])
        scores = np.empty((len(self._queries), len(pages)), np.float32)
        for row, query in enumerate(self._queries):
            started = time.perf_counter()
            scores[row] = maxsim(query, stored)
            self._seconds[row] += time.perf_counter() - started
        self._scores.append(scores)
        self._n_pages += len(pages)

    def result(self, columns: Sequence[int], n_columns: int) -> Tried:
        """Return everything, pages at their columns."""
        scores = np.full((len(self._queries), n_columns), -np.inf, np.float32)
        scores[:, columns] = np.concatenate(self._scores, axis=1)
        return Tried(scores, self._n_bytes / self._n_pages, self._seconds * 1000)

    def _projected(self, vectors: Float32) -> Float32:
        return vectors if self._matrix is None else project(vectors, self._matrix)

    def _stored(self, pages: Sequence[Float32]) -> Multivectors:
        codec = self.storing.codec
        n_vectors = sum(map(len, pages))
        if self._quantiser is not None:
            self._n_bytes += n_vectors * self._quantiser.n_bytes
            return Multivectors.pack([self._quantiser.approximate(page) for page in pages])
        if codec == "float32" or codec == "pq":
            self._n_bytes += n_vectors * 4 * self.storing.dim
            return Multivectors.pack(pages)
        self._n_bytes += n_vectors * bytes_per_vector(self.storing.dim, codec)
        stored = [encode(page, codec) for page in pages]
        flat = np.frombuffer(b"".join(each.codes for each in stored), np.uint8)
        sizes = np.array([len(each.codes) for each in stored], np.int64)
        scales = np.array([each.scale for each in stored], np.float32)
        return decode(flat, sizes, scales, self.storing.dim, codec)


def _matrix(storing: Storing, sample: Float32) -> Float32 | None:
    full_dim = sample.shape[1]
    if storing.projection == "none":
        return None
    if storing.projection == "truncation":
        matrix = np.eye(full_dim, storing.dim, dtype=np.float32)
        if not storing.balanced:
            return matrix
        turn = fit(np.eye(storing.dim, dtype=np.float32), storing.dim, balance=True)
        return np.asarray(matrix @ turn, np.float32)
    # All dimensions kept: a rotation, which needs no data.
    source = sample if storing.dim < full_dim else np.eye(full_dim, dtype=np.float32)
    return fit(source, storing.dim, balance=storing.balanced)


def _pooled(page: Float32, pool: int) -> Float32:
    if pool == 1:
        return page
    boxes = np.tile(np.array(WHOLE_PAGE, np.uint16), (len(page), 1))
    return ward_pool(page, boxes, pool)[0]


def _sample(corpus: Corpus, recorder: RecordingEncoder) -> Float32:
    """Return vectors of pages evenly spread over the corpus, (n, D)."""
    return np.concatenate(list(_sampled(corpus, recorder)))


def _sampled(corpus: Corpus, recorder: RecordingEncoder) -> Iterator[Float32]:
    pages = [page for page in corpus.page_ids if page]
    for page in pages[:: len(pages) // _SAMPLE_PAGES + 1]:
        vectors = recorder.kept_vectors(page)
        yield vectors[:: len(vectors) // _SAMPLE_VECTORS + 1]
