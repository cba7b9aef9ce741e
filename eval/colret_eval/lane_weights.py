"""What the text lane adds, how much it should weigh, and what demoting contents pages does.

    python -m colret_eval.lane_weights DATASET_FOLDER... [--distractors]

Late interaction, BM25 as the text lane ranks by it, and both fused in several ways, on labelled
sets and on identifiers drawn from their pages. The weight of a set is also chosen on the others
alone, so that its figure is one that it had no part in. Markdown to stdout.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from colret.encoders import Encoder, load_encoder
from colret.errors import ColretError
from colret.lanes import CONTENTS_PENALTY, TEXT_WEIGHT
from colret.search import embed, rank
from colret.settings import settings_for
from colret.store import PageStore
from colret_eval.datasets import union
from colret_eval.evaluation.cells import probability, table
from colret_eval.evaluation.corpus import Corpus, open_corpus
from colret_eval.evaluation.recorder import RecordingEncoder
from colret_eval.evaluation.run import UnusableSetError, load_checked
from colret_eval.fusion import fuse_ranks, fuse_standardised
from colret_eval.identifiers import identifier_queries
from colret_eval.matrices import Float32, from_run, to_run
from colret_eval.measures import Float64, Qrels, evaluate, ndcg, success
from colret_eval.statistics import bootstrap_interval, paired_interval, randomisation_test

WEIGHTS: Final = (0.1, 0.25, 0.5, 1.0)
N_IDENTIFIERS: Final = 60
MEASURES: Final = (ndcg(10), success(1), success(5))
MAIN: Final = "nDCG@10"
LATE, TEXT = "late interaction", "text lane"
UNION: Final = "all"
IDENTIFIERS: Final = "identifiers drawn from these pages"


class Parts(NamedTuple):
    """What lanes rank by, of Q queries and N pages."""

    similarities: Float32  # (Q, N) MaxSim over the number of tokens
    shares: Float32  # (Q, N) of BM25
    contents: Float32  # (N,) 1 for contents pages


class Asked(NamedTuple):
    """Queries of one set with what is known of them."""

    keys: Sequence[str]  # (N,)
    query_ids: Sequence[str]  # (Q,)
    qrels: Qrels
    sources: Sequence[str]  # (Q,) what varies as one in intervals
    parts: Parts


def measure_parts(store: PageStore, encoder: Encoder, texts: Sequence[str], columns: Mapping[str, int]) -> Parts:
    """Score every page for every query by a search of both lanes.

    Args:
        store: The index.
        encoder: That made it.
        texts: The queries.
        columns: Page id to column.
    """
    # A quoted phrase would leave pages out, of late interaction too.
    queries = embed(
        store, encoder, [text.translate(dict.fromkeys(map(ord, '"\u201c\u201d\u201e\u00ab\u00bb'))) for text in texts]
    )
    shape = (len(queries), len(columns))
    parts = Parts(np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(len(columns), np.float32))
    rankings = rank(store, queries, k=len(columns), prefilter="none", lane="both")
    for row, (query, ranking) in enumerate(zip(queries, rankings, strict=True)):
        for hit in ranking.hits:
            column = columns[hit.ref.page_id]
            parts.similarities[row, column] = hit.maxsim / len(query.vectors)
            parts.shares[row, column] = hit.bm25
            parts.contents[column] = hit.contents
    return parts


def systems(asked: Asked) -> dict[str, Float32]:
    """Return every way of ranking as (Q, N) scores, by label."""
    parts = asked.parts
    lost = np.float32(CONTENTS_PENALTY) * parts.contents
    with_lane = {f"+ {weight} x BM25": weighted(parts, weight) for weight in WEIGHTS}
    runs = [to_run(each, asked.query_ids, asked.keys, len(asked.keys)) for each in (parts.similarities, parts.shares)]
    with_words = {
        query_id: {key: score for key, score in run.items() if score > 0} for query_id, run in runs[1].items()
    }
    return {
        LATE: parts.similarities,
        "late interaction, contents demoted": parts.similarities - lost,
        "text lane, contents not demoted": parts.shares,
        TEXT: parts.shares - lost / np.float32(TEXT_WEIGHT),
        **with_lane,
        f"+ {TEXT_WEIGHT} x BM25, contents not demoted": weighted(parts, TEXT_WEIGHT) + lost,
        "standardised + 0.25 x standardised": fuse_standardised(parts.similarities, parts.shares, 0.25),
        "reciprocal ranks": from_run(fuse_ranks([runs[0], with_words]), asked.query_ids, asked.keys, missing=0.0),
    }


def weighted(parts: Parts, weight: float) -> Float32:
    """Return what the lane ``both`` would rank by with another weight, contents pages demoted."""
    lost = np.float32(CONTENTS_PENALTY) * parts.contents
    return np.asarray(parts.similarities + np.float32(weight) * parts.shares - lost, np.float32)


def measured(asked: Asked, scores: Float32) -> dict[str, Float64]:
    """Return each measure of each query, (Q,)."""
    return evaluate(asked.qrels, to_run(scores, asked.query_ids, asked.keys, 10), MEASURES)


def held_out_weights(means: Mapping[str, Mapping[float, float]]) -> dict[str, float]:
    """Return for each set the weight with the best mean over the other sets; of equal ones the smallest.

    Args:
        means: Set to weight to the mean of a measure.
    """
    return {
        name: max(WEIGHTS, key=lambda weight: (sum(means[other][weight] for other in means if other != name), -weight))
        for name in means
    }


def rows(values: Mapping[str, Mapping[str, Float64]], sources: Sequence[str]) -> Iterator[str]:
    """Yield the table of the systems' measures, (Q,) each by label and name."""
    head = ("system", *(measure.name for measure in MEASURES), f"{MAIN} less {LATE}'s", f"{MAIN} less the {TEXT}'s")
    yield from table(head, (_row(label, values, sources) for label in values))


def _row(label: str, values: Mapping[str, Mapping[str, Float64]], sources: Sequence[str]) -> list[str]:
    mine = values[label]
    intervals = (bootstrap_interval(mine[measure.name], sources, _rng()) for measure in MEASURES)
    cells = [f"{each.mean:.3f} [{each.low:.3f}, {each.high:.3f}]" for each in intervals]
    others = (values[other][MAIN] if other != label else None for other in (LATE, TEXT))
    return [label, *cells, *("" if other is None else _difference(mine[MAIN], other, sources) for other in others)]


def _difference(first: Float64, second: Float64, sources: Sequence[str]) -> str:
    found = paired_interval(first, second, sources, _rng())
    p = randomisation_test(first, second, sources, _rng())
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}], {probability(p)}"


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def ask_questions(corpus: Corpus, encoder: Encoder) -> Asked:
    """Return a set's own queries."""
    texts = [corpus.dataset.queries[query_id] for query_id in corpus.query_ids]
    keys, parts = _ask(corpus, encoder, texts)
    return Asked(keys, corpus.query_ids, corpus.qrels, corpus.sources, parts)


def ask_identifiers(corpus: Corpus, encoder: Encoder) -> Asked:
    """Return identifiers drawn from a set's pages."""
    drawn, qrels = identifier_queries(corpus.page_texts(), N_IDENTIFIERS, _rng())
    keys, parts = _ask(corpus, encoder, list(drawn.values()))
    return Asked(keys, list(drawn), qrels, list(drawn), parts)


def _ask(corpus: Corpus, encoder: Encoder, texts: Sequence[str]) -> tuple[list[str], Parts]:
    pages = [(key, page_id) for key, page_id in zip(corpus.keys, corpus.page_ids, strict=True) if page_id]
    columns = {page_id: column for column, (_, page_id) in enumerate(pages)}
    return [key for key, _ in pages], measure_parts(corpus.store, encoder, texts, columns)


def report(corpora: Iterable[Corpus], encoder: Encoder) -> Iterator[str]:
    """Yield the tables of sets and of their identifiers, and which weights the other sets choose."""
    means: dict[str, dict[float, float]] = {}
    for corpus in corpora:
        name = corpus.dataset.name
        for kind, asked in ((name, ask_questions(corpus, encoder)), (IDENTIFIERS, ask_identifiers(corpus, encoder))):
            if not asked.query_ids:
                continue
            yield from ("", f"## {kind}: {len(asked.query_ids)} queries, N = {len(asked.keys)}", "")
            values = {label: measured(asked, scores) for label, scores in systems(asked).items()}
            yield from rows(values, asked.sources)
            if kind == name != UNION:
                means[name] = {weight: float(values[f"+ {weight} x BM25"][MAIN].mean()) for weight in WEIGHTS}
    if len(means) > 1:
        yield from ("", "## Weights chosen on the other sets", "")
        chosen = held_out_weights(means)
        yield from table(("set", "weight", MAIN), ((n, w, f"{means[n][w]:.3f}") for n, w in chosen.items()))


def open_corpora(folders: Sequence[Path], encoder: Encoder, work: Path, *, distractors: bool) -> Iterator[Corpus]:
    """Yield labelled sets, and all together where there are several, in indexes as ``colret ingest`` makes them."""
    recorder = RecordingEncoder(encoder, ["a query that pages are recorded with"], work)
    sets = [load_checked(folder, distractors=distractors).dataset for folder in folders]
    for dataset in [*sets, *([union(sets, UNION)] if len(sets) > 1 else [])]:
        corpus, _ = open_corpus(dataset, work / dataset.name, settings_for(encoder.info), recorder)
        yield corpus


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return the exit status."""
    parser = argparse.ArgumentParser("python -m colret_eval.lane_weights", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DATASET_FOLDER")
    parser.add_argument("--distractors", action="store_true", help="search the PDFs of pdfs_distractors/ too")
    options = parser.parse_args(arguments)
    try:
        encoder = load_encoder("embedded")
        with tempfile.TemporaryDirectory() as work:
            corpora = open_corpora(options.folders, encoder, Path(work), distractors=options.distractors)
            for line in report(corpora, encoder):
                print(line, flush=True)
    except (ColretError, UnusableSetError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
