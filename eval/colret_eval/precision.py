"""How far half precision moves a text encoder's rankings, on labelled sets.

    python -m colret_eval.precision DATASET_FOLDER... [--model NAME]

Each set is ingested twice, its pages encoded in float32 and in bfloat16 on the CPU, into
indexes that store int8 as usual; queries are in float32 both times. Rankings are exact.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from colret.encoders import Encoder, load_encoder
from colret.errors import ColretError
from colret.ingest import ingest
from colret.search import rank
from colret.store import PageStore, settings_for
from colret_eval.datasets import Dataset, load_dataset
from colret_eval.figures import document_ids, qrels_by_page_id
from colret_eval.measures import evaluate, ndcg
from colret_eval.stages import kept

DEPTH = 10
EXACT, HALF = "float32", "bfloat16"


class Outcome(NamedTuple):
    """What one precision makes of a set."""

    n_pages: int
    seconds: float  # of the whole ingest
    ndcg: float  # mean nDCG@10
    rankings: dict[str, list[str]]  # query id to page ids, best first


def measure(dataset: Dataset, index: Path, encoder: Encoder) -> Outcome:
    """Ingest a set into a new ``index`` and rank its pages for its queries.

    Raises:
        ColretError: If the index cannot be made, or holds no pages.
    """
    store = PageStore.create(index, settings_for(encoder.info))
    started = time.monotonic()
    report = ingest(dataset.pdfs, store, encoder)
    seconds = time.monotonic() - started
    rankings = rank(store, encoder.encode_queries(list(dataset.queries.values())), k=DEPTH, prefilter="none")
    by_query = dict(zip(dataset.queries, rankings, strict=True))
    run = {query: {hit.ref.page_id: hit.maxsim for hit in ranking.hits} for query, ranking in by_query.items()}
    qrels = qrels_by_page_id(dataset, document_ids(dataset, store))
    values = evaluate(qrels, run, [ndcg(DEPTH)])[ndcg(DEPTH).name]
    ids = {query: [hit.ref.page_id for hit in ranking.hits] for query, ranking in by_query.items()}
    return Outcome(report.n_pages, seconds, float(values.mean()), ids)


def compare(dataset: Dataset, model: str) -> str:
    """Return a line on how the two precisions agree on a set.

    Raises:
        ColretError: If the model or an index cannot be had.
    """
    outcomes = []
    for dtype in (EXACT, HALF):
        with tempfile.TemporaryDirectory() as folder:
            outcomes.append(measure(dataset, Path(folder) / "index", load_encoder(model, device="cpu", dtype=dtype)))
    exact, half = outcomes
    shares = kept(exact.rankings, half.rankings, DEPTH)
    first = sum(exact.rankings[q][0] == half.rankings[q][0] for q in exact.rankings)
    return (
        f"{dataset.name}: {exact.n_pages} pages, {len(exact.rankings)} queries; "
        f"nDCG@{DEPTH} {100 * exact.ndcg:.1f} in {EXACT}, {100 * half.ndcg:.1f} in {HALF}; "
        f"{100 * shares.mean():.1f} % of the top-{DEPTH} kept, the first page {first} times; "
        f"ingest {exact.seconds:.0f} s and {half.seconds:.0f} s"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each set named in ``arguments``; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m colret_eval.precision", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DATASET_FOLDER")
    parser.add_argument("--model", default="embedded", help="a text model: its folder, or its hub name")
    options = parser.parse_args(arguments)
    try:
        for folder in options.folders:
            print(compare(load_dataset(folder), options.model), flush=True)
    except ColretError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
