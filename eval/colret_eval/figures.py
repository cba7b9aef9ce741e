"""Figures of the embedded encoder on labelled sets, beside its baselines on the same pages.

    python -m colret_eval.figures DATASET_FOLDER... [--distractors] [--json FILE]

Each set is ingested into an index of its own, and all sets together into one more. Late
interaction, exact and two-stage, and its mean vector come from the product's own index and
search; the best chunk's vector and BM25 read the text that the index stores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from colret.documents import display_path
from colret.encoders import Encoder, load_encoder
from colret.encoders.embedded import embedded_folder
from colret.errors import ColretError
from colret.ingest import ingest
from colret.prefilter import DEFAULT_PREFILTER
from colret.search import DEFAULT_CANDIDATES, Ranking, rank, single_vector_rank
from colret.store import PageStore, settings_for
from colret.types import Candidate, PageRef, QueryEmbedding
from colret_eval.bm25 import bm25_run
from colret_eval.chunks import ChunkEncoder, Float32, best_chunk_run
from colret_eval.datasets import Dataset, load_dataset, page_key, union
from colret_eval.measures import Qrels, Run, ndcg, reciprocal_rank, success
from colret_eval.report_table import Labels, Summary, as_json, format_summary, summarise
from colret_eval.stages import Rankings, kept

EXACT, TWO_STAGE = "late interaction, exact", "late interaction, two-stage"
MEAN, CHUNK, BM25 = "single vector, mean", "single vector, best chunk", "BM25, stemmed"
MEASURES = (success(1), success(5), ndcg(10), reciprocal_rank(10))
DEPTH = 10
"""Pages of each ranking: no measure here looks further."""

DISTRACTORS = "pdfs_distractors"


class Chunks:
    """Chunks' vectors of texts, each text encoded once however many sets hold it."""

    def __init__(self, encoder: ChunkEncoder) -> None:
        self._encoder = encoder
        self._known: dict[str, Float32] = {}

    def of(self, texts: Mapping[str, str]) -> dict[str, Float32]:
        """Return the vectors of each text under its key."""
        new = sorted(set(texts.values()) - self._known.keys())
        self._known.update(zip(new, self._encoder.encode(new) if new else (), strict=True))
        return {key: self._known[text] for key, text in texts.items()}


def measure_dataset(dataset: Dataset, index: Path, encoder: Encoder, chunks: Chunks) -> tuple[Summary, int]:
    """Ingest a set into a new ``index`` and return its figures, and how many relevant pages have no vectors.

    Raises:
        ColretError: If the index cannot be made, or holds no pages.
    """
    store = PageStore.create(index, settings_for(encoder.info))
    for path, page, _, message in ingest(dataset.pdfs, store, encoder).skipped:
        print(f"skipped: {path}{f' page {page}' if page else ''}: {message}", file=sys.stderr)
    store.refresh()
    pages = store.candidates()
    details = store.details([page.row_id for page in pages])
    texts = {page.ref.page_id: detail.words.text for page, detail in zip(pages, details, strict=True)}
    qrels = qrels_by_page_id(dataset, document_ids(dataset, store))
    queries = dict(zip(dataset.queries, encoder.encode_queries(list(dataset.queries.values())), strict=True))
    rankings, runs = late_interaction(store, queries)
    runs[CHUNK] = best_chunk_run(chunks.of(texts), chunks.of(dataset.queries), k=DEPTH)
    runs[BM25] = bm25_run(texts, dataset.queries, k=DEPTH)
    summary = summarise(
        Labels(dataset.name, qrels, dataset.sources, len(pages)),
        runs,
        MEASURES,
        against=[MEAN, CHUNK, BM25],
        kept={_kept_label(len(pages)): kept(rankings[EXACT], rankings[TWO_STAGE], DEPTH)},
        rng=np.random.default_rng(0),
    )
    return summary, sum(key not in texts for grades in qrels.values() for key in grades)


def late_interaction(
    store: PageStore, queries: Mapping[str, QueryEmbedding]
) -> tuple[dict[str, Rankings], dict[str, Run]]:
    """Return the rankings of exact and two-stage search, and the runs of both and of the mean vector."""
    embeddings = list(queries.values())
    found = {
        EXACT: rank(store, embeddings, k=DEPTH, prefilter="none"),
        TWO_STAGE: rank(store, embeddings, k=DEPTH, prefilter=DEFAULT_PREFILTER),
    }
    rankings: dict[str, Rankings] = {
        system: {q: [hit.ref.page_id for hit in each.hits] for q, each in zip(queries, ranked, strict=True)}
        for system, ranked in found.items()
    }
    runs = {system: dict(zip(queries, map(_scores, ranked), strict=True)) for system, ranked in found.items()}
    by_mean = single_vector_rank(store, embeddings, k=DEPTH)
    runs[MEAN] = dict(zip(queries, map(_by_place, by_mean), strict=True))
    return rankings, runs


def document_ids(dataset: Dataset, store: PageStore) -> dict[str, str]:
    """Return the index's id of each document, by its name as page keys write it; files alike share one."""
    ids = {file.path: record.doc_id for record in store.documents() for file in record.files}
    by_name = {}
    for name, path in dataset.documents.items():
        doc_id = ids.get(display_path(Path(os.path.abspath(path))))
        if doc_id is not None:
            by_name[PageRef.parse(page_key(name, 1)).doc_id] = doc_id
    return by_name


def qrels_by_page_id(dataset: Dataset, ids: Mapping[str, str]) -> Qrels:
    """Return the qrels under the index's page ids; what it lacks keeps its key, never found."""
    qrels: Qrels = {}
    for query_id, grades in dataset.qrels.items():
        translated = qrels.setdefault(query_id, {})
        for key, grade in grades.items():
            name, number = PageRef.parse(key)
            page_id = PageRef(ids.get(name, name), number).page_id
            translated[page_id] = max(grade, translated.get(page_id, 0))
    return qrels


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of the sets named in ``arguments``; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m colret_eval.figures", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DATASET_FOLDER")
    parser.add_argument("--distractors", action="store_true", help=f"add the PDFs of {DISTRACTORS}/ to the corpus")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there too")
    options = parser.parse_args(arguments)
    try:
        datasets = [_load(folder, options.distractors) for folder in options.folders]
        summaries = _measure_all(datasets)
    except ColretError as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps([as_json(summary) for summary in summaries], indent=1) + "\n")
    return 0


def _load(folder: Path, distractors: bool) -> Dataset:
    present = distractors and (folder / DISTRACTORS).is_dir()
    return load_dataset(folder, extra_folders=[DISTRACTORS] if present else [])


def _measure_all(datasets: Sequence[Dataset]) -> list[Summary]:
    encoder = load_encoder("embedded")
    chunks = Chunks(ChunkEncoder(embedded_folder()))
    summaries = []
    for dataset in [*datasets, union(datasets)] if len(datasets) > 1 else datasets:
        with tempfile.TemporaryDirectory() as folder:
            summary, n_lost = measure_dataset(dataset, Path(folder) / "index", encoder, chunks)
        print(format_summary(summary))
        print(f"relevant pages that no system can find, for want of text: {n_lost}\n", flush=True)
        summaries.append(summary)
    return summaries


def _kept_label(n_pages: int) -> str:
    what = f"exact top-{DEPTH} kept by two-stage, {DEFAULT_PREFILTER}, {DEFAULT_CANDIDATES} candidates"
    return what if n_pages > DEFAULT_CANDIDATES else f"{what} (no fewer than N, so exact too)"


def _scores(ranking: Ranking) -> dict[str, float]:
    return {hit.ref.page_id: hit.maxsim for hit in ranking.hits}


def _by_place(pages: Sequence[Candidate]) -> dict[str, float]:
    return {page.ref.page_id: -float(place) for place, page in enumerate(pages)}


if __name__ == "__main__":
    sys.exit(main())
