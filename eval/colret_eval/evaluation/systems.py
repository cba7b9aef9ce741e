"""The systems that are compared, each a matrix of scores: a row a query, a column a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from colret.compression import Compression
from colret.errors import ColretError
from colret.lanes import TEXT_WEIGHT, Lane
from colret.prefilter import DEFAULT_PREFILTER, SMALL
from colret.scoring import maxsim, mean_direction
from colret.search import DEFAULT_CANDIDATES, rank
from colret.types import Float32, Int64, QueryEmbedding
from colret_eval.chunks import Chunks, best_chunk_run
from colret_eval.evaluation.baselines import Baselines, page_images
from colret_eval.evaluation.corpus import Corpus
from colret_eval.evaluation.recorder import BLOCKS, RecordingEncoder
from colret_eval.matrices import from_run, to_run
from colret_eval.measures import evaluate, ndcg

REFERENCE: Final = "late_interaction"
FLOAT32, TWO_STAGE = "late_interaction_float32", "two_stage"
MEAN, POOLED, CHUNK, BM25, BI = "single_mean", "single_pooled", "minilm_chunk", "bm25", "bi_encoder"
TEXT, BOTH = "text_lane", "both_lanes"

NO_WORDS: Final = "the pages have no words"

_BLOCK_PAGES = 256  # whose stored vectors are in memory at once


@dataclass(frozen=True, slots=True)
class System:
    """What a row of the comparison is."""

    id: str
    label: str
    what: str


SYSTEMS: Final = (
    System(REFERENCE, "late interaction, exact", "MaxSim of the vectors as the index stores them, with every page."),
    System(
        TWO_STAGE,
        f"late interaction, two-stage ({DEFAULT_PREFILTER}, {DEFAULT_CANDIDATES} candidates)",
        f"A prefilter chooses {DEFAULT_CANDIDATES} pages, MaxSim ranks them: what a search does above {SMALL} pages; "
        "below, it is exact.",
    ),
    System(FLOAT32, "late interaction, float32", "MaxSim of the encoder's vectors before they are stored: the model."),
    System(MEAN, "single vector, mean", "One vector a page, the mean of its stored vectors, against the query's mean."),
    System(
        POOLED,
        "single vectors, pooling chosen on these queries",
        f"The nearest of a page's block means, {', '.join(map(str, BLOCKS[:-1]))} or {BLOCKS[-1]} of them: whichever "
        "number does best on these very queries, which flatters this baseline.",
    ),
    System(
        CHUNK,
        "single vectors, MiniLM chunks",
        "all-MiniLM-L6-v2 as a sentence embedder: a vector for each 128 word pieces of a page's text, the best counts.",
    ),
    System(BM25, "BM25, stemmed", "Words in common with the page's text, weighted by how rare they are; no model."),
    System(
        TEXT,
        "text lane",
        "What a search by --lane text does: BM25 with identifiers whole and in parts, contents pages demoted.",
    ),
    System(
        BOTH,
        "both lanes",
        f"What a search by --lane both does: late interaction + {TEXT_WEIGHT} x BM25, each as a share of what it could "
        "be for the query, contents pages demoted.",
    ),
    System(BI, "Bi* single-vector model", "A single-vector model of the same family, trained as such."),
)

BASELINES: Final = (MEAN, POOLED, CHUNK, BM25, BI)
"""Systems that are no late interaction."""


@dataclass(slots=True)
class Scored:
    """The matrices of the systems that can be had, (Q + no-answer queries, N) float32, and why others cannot."""

    matrices: dict[str, Float32]
    missing: dict[str, str]  # system to reason
    n_blocks: int | None = None  # that the pooled baseline took
    chunks_per_page: float | None = None
    bi_dim: int | None = None  # D of the single-vector model


def stored_scores(corpus: Corpus, queries: Sequence[QueryEmbedding], device: str = "cpu") -> Float32:
    """Return the exact MaxSim of the stored vectors, block by block: (len(queries), N) float32."""
    store = corpus.store
    projected = [Compression(matrix=store.projection()).query(query).vectors for query in queries]
    n = store.n_pages()
    scores = np.empty((len(queries), n), np.float32)
    for start in range(0, n, _BLOCK_PAGES):
        block = store.vectors(np.arange(start, min(start + _BLOCK_PAGES, n)))
        for row, query in zip(scores, projected, strict=True):
            row[start : start + len(block)] = maxsim(query, block, device=device)
    return corpus.columns(scores)


def mean_scores(corpus: Corpus, queries: Sequence[QueryEmbedding]) -> Float32:
    """Return the cosines of stored single vectors with the queries' mean vectors, (len(queries), N) float32."""
    store = corpus.store
    compression = Compression(matrix=store.projection())
    directions = np.stack([mean_direction(compression.query(query).vectors) for query in queries])
    return corpus.columns(directions @ store.singles(np.arange(store.n_pages())).T)


def searched_scores(corpus: Corpus, queries: Sequence[QueryEmbedding], prefilter: str, n_candidates: int) -> Float32:
    """Return the scores of a two-stage search, (len(queries), N) float32, ``-inf`` for pages that it does not reach."""
    column_of = {page_id: column for column, page_id in enumerate(corpus.page_ids) if page_id}
    scores = np.full((len(queries), len(corpus.keys)), -np.inf, np.float32)
    found = rank(corpus.store, queries, k=n_candidates, prefilter=prefilter, n_candidates=n_candidates)
    for row, ranking in zip(scores, found, strict=True):
        for hit in ranking.hits:
            row[column_of[hit.ref.page_id]] = hit.maxsim
    return scores


def lane_scores(corpus: Corpus, queries: Sequence[QueryEmbedding], lane: Lane) -> Float32:
    """Return what an exact search by a lane ranks by, (len(queries), N) float32, ``-inf`` for pages it leaves out."""
    column_of = {page_id: column for column, page_id in enumerate(corpus.page_ids) if page_id}
    scores = np.full((len(queries), len(corpus.keys)), -np.inf, np.float32)
    for row, ranking in zip(
        scores, rank(corpus.store, queries, k=len(column_of), prefilter="none", lane=lane), strict=True
    ):
        for hit in ranking.hits:
            row[column_of[hit.ref.page_id]] = hit.score
    return scores


def recorded_scores(corpus: Corpus, rows: Sequence[int]) -> tuple[Float32, dict[int, Float32]]:
    """Return float32 MaxSim, and the block means' best cosines by number of blocks: (len(rows), N) float32 each."""
    exact = np.full((len(rows), len(corpus.keys)), -np.inf, np.float32)
    near = {n: exact.copy() for n in BLOCKS}
    for column, page_id in enumerate(corpus.page_ids):
        if page_id:
            record = corpus.records[page_id]
            exact[:, column] = record.maxsim[rows]
            for n, scores in zip(BLOCKS, record.blocks, strict=True):
                near[n][:, column] = scores[rows]
    return exact, near


def score_systems(
    corpus: Corpus, recorder: RecordingEncoder, wanted: Sequence[str], baselines: Baselines, say: Callable[[str], None]
) -> Scored:
    """Return the scores of the systems ``wanted``, and always those of the reference and of float32.

    Args:
        corpus: The set.
        recorder: What encoded it.
        wanted: Ids of ``SYSTEMS``.
        baselines: Models of their own.
        say: Told what is being done.
    """
    texts = corpus.texts
    queries = recorder.queries(texts)
    say("exact scores of the stored vectors")
    scored = Scored({REFERENCE: stored_scores(corpus, queries)}, {})
    matrices = scored.matrices
    if TWO_STAGE in wanted:
        matrices[TWO_STAGE] = searched_scores(corpus, queries, DEFAULT_PREFILTER, DEFAULT_CANDIDATES)
    exact, near = recorded_scores(corpus, recorder.places(texts))
    matrices[FLOAT32] = exact  # what the codec costs is told by it, wanted or not
    if MEAN in wanted:
        matrices[MEAN] = mean_scores(corpus, queries)
    if POOLED in wanted:
        scored.n_blocks = max(near, key=lambda n: mean_ndcg(corpus, near[n]))
        matrices[POOLED] = near[scored.n_blocks]
    if BM25 in wanted:
        say("BM25")
        _add_bm25(scored, corpus)
    if {TEXT, BOTH} & set(wanted):
        say("lanes that read words")
        _add_lanes(scored, corpus, queries, wanted)
    if CHUNK in wanted:
        say("MiniLM chunks")
        _add_chunks(scored, corpus, baselines.chunks)
    if BI in wanted:
        _add_bi_encoder(scored, corpus, baselines, say)
    return scored


def query_tokens(recorder: RecordingEncoder, texts: Sequence[str]) -> Int64:
    """Return the number of vectors of each query, (len(texts),)."""
    return np.array([len(query.vectors) for query in recorder.queries(texts)], np.int64)


def mean_ndcg(corpus: Corpus, scores: Float32) -> float:
    """Return mean nDCG@10 of a matrix over the queries with an answer."""
    run = to_run(scores[: len(corpus.query_ids)], corpus.query_ids, corpus.keys, 10)
    return float(evaluate(corpus.qrels, run, [ndcg(10)])["nDCG@10"].mean())


def _add_bm25(scored: Scored, corpus: Corpus) -> None:
    try:
        from colret_eval.bm25 import bm25_run
    except ImportError as error:
        scored.missing[BM25] = f"{error.name} is not installed: pip install 'colret[eval]'"
        return
    texts = corpus.page_texts()
    if not any(texts.values()):
        scored.missing[BM25] = NO_WORDS
        return
    ids = corpus.all_ids
    run = bm25_run(texts, dict(zip(ids, corpus.texts, strict=True)), k=len(texts))
    scored.matrices[BM25] = from_run(run, ids, corpus.keys)


def _add_lanes(scored: Scored, corpus: Corpus, queries: Sequence[QueryEmbedding], wanted: Sequence[str]) -> None:
    lanes: dict[str, Lane] = {TEXT: "text", BOTH: "both"}
    asked = [replace(query, text=text) for query, text in zip(queries, corpus.texts, strict=True)]
    for system in (system for system in lanes if system in wanted):
        if any(corpus.page_texts().values()):
            scored.matrices[system] = lane_scores(corpus, asked, lanes[system])
        else:
            scored.missing[system] = NO_WORDS


def _add_chunks(scored: Scored, corpus: Corpus, chunks: Chunks) -> None:
    texts = corpus.page_texts()
    if not any(texts.values()):
        scored.missing[CHUNK] = NO_WORDS
        return
    pages = chunks.of(texts)
    queries = chunks.of(dict(zip(corpus.all_ids, corpus.texts, strict=True)))
    run = best_chunk_run(pages, queries, k=len(pages))
    scored.matrices[CHUNK] = from_run(run, corpus.all_ids, corpus.keys)
    scored.chunks_per_page = sum(map(len, pages.values())) / len(pages)


def _add_bi_encoder(scored: Scored, corpus: Corpus, baselines: Baselines, say: Callable[[str], None]) -> None:
    try:
        encoder = baselines.bi_encoder()
        if encoder is None:
            scored.missing[BI] = "no single-vector checkpoint is known of the model's family: name one by --bi-model"
            return
        say(f"single vectors of {encoder.name}")
        queries = encoder.encode_queries(corpus.texts)
        scores = np.full((len(queries), len(corpus.keys)), -np.inf, np.float32)
        for column, page in page_images(corpus, encoder.pixels):
            scores[:, column] = queries @ encoder.encode_image(page)
    except ColretError as error:  # the model, or a page of it, cannot be had: the other systems can
        scored.missing[BI] = str(error)
        return
    scored.matrices[BI] = scores
    scored.bi_dim = queries.shape[1]
