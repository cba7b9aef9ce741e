"""How far half precision moves a text encoder's rankings, on labelled sets.

    python -m colret_eval.precision DATASET_FOLDER... [--model NAME]

Each set is ingested twice, its pages encoded in float32 and in bfloat16 on the CPU, into
indexes that store vectors as usual; queries are in float32 both times. Rankings are exact.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from colret.encoders import Encoder, load_encoder
from colret.errors import ColretError
from colret.settings import settings_for
from colret_eval.datasets import Dataset, load_dataset
from colret_eval.evaluation.corpus import open_corpus
from colret_eval.evaluation.recorder import RecordingEncoder
from colret_eval.evaluation.systems import mean_ndcg, stored_scores
from colret_eval.matrices import first_columns
from colret_eval.stages import kept

DEPTH = 10
EXACT, HALF = "float32", "bfloat16"


class Outcome(NamedTuple):
    """What one precision makes of a set."""

    n_pages: int
    seconds: float  # of the whole ingest
    ndcg: float  # mean nDCG@10
    rankings: dict[str, list[str]]  # query id to page keys, best first


def measure(dataset: Dataset, index: Path, encoder: Encoder) -> Outcome:
    """Ingest a set into a new ``index`` and rank its pages for its queries.

    Raises:
        ColretError: If the index cannot be made, or holds no pages.
    """
    recorder = RecordingEncoder(encoder, list(dict.fromkeys(dataset.queries.values())))
    corpus, ingested = open_corpus(dataset, index, settings_for(encoder.info), recorder)
    scores = stored_scores(corpus, recorder.queries(list(dataset.queries.values())))
    top = first_columns(scores, DEPTH).tolist()
    rankings = {q: [corpus.keys[column] for column in row] for q, row in zip(dataset.queries, top, strict=True)}
    return Outcome(corpus.n_pages, ingested.seconds, mean_ndcg(corpus, scores), rankings)


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
