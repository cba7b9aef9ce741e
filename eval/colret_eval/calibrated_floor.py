"""What the score floor of an index does to real questions, with an answer and without.

    python -m colret_eval.calibrated_floor DATASET_FOLDER=INDEX...

Each index holds the PDFs of its labelled set, made with ``colret ingest``; it is calibrated in
memory, on its own pages, and the labels then say what the floor refuses. Questions without an
answer are those of the set whose pages, or whole documents, are taken away, and those of the other
sets. Markdown to stdout.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from colret.background import lift, sample_places
from colret.calibration import fit_lanes
from colret.conformal import conformal_floor
from colret.documents import display_path
from colret.encoders import Encoder, load_encoder
from colret.errors import ColretError
from colret.floors import ANSWERED
from colret.lanes import default_lane
from colret.near_duplicates import page_groups
from colret.search import embed, rank
from colret.store import PageStore
from colret.types import Float32, Int64, PageRef, QueryEmbedding
from colret.verdicts import LEAST_LIFT, UNMEASURED_LIFT
from colret_eval.datasets import Dataset, load_dataset
from colret_eval.evaluation.cells import table
from colret_eval.evaluation.page_documents import name_in_keys
from colret_eval.matrices import Bool
from colret_eval.measures import Float64
from colret_eval.statistics import auroc, bootstrap_interval

SIGNALS: Final = ("score", "lift", "z-score")
DOCUMENT, PAGE, ELSEWHERE = "document removed", "page removed", "of other sets"
_REFUSED = 0.02  # of the answered questions, by the z-score's floor
_NORMAL = 1.4826  # standard deviations in a median absolute deviation of a normal distribution


class Questions(NamedTuple):
    """Signals of questions, in the order of ``SIGNALS``, and what each is about."""

    signals: Float64  # (n, 3)
    sources: list[str]


class Labelled(NamedTuple):
    """A set's questions in its index."""

    texts: list[str]
    relevant: list[Int64]  # places
    sources: list[str]


def labelled(dataset: Dataset, store: PageStore) -> Labelled:
    """Return the questions whose relevant pages the index holds."""
    ids = {file.path: record.doc_id for record in store.documents() for file in record.files}
    names = {
        name_in_keys(name): ids.get(display_path(Path(os.path.abspath(path))), "")
        for name, path in dataset.documents.items()
    }
    place_of = {page.ref: place for place, page in enumerate(store.candidates())}
    found = Labelled([], [], [])
    for query_id, text in dataset.queries.items():
        refs = (PageRef.parse(key) for key, grade in dataset.qrels[query_id].items() if grade > 0)
        places = [place_of.get(PageRef(names.get(ref.doc_id, ""), ref.number), -1) for ref in refs]
        if places and min(places) >= 0:
            found.texts.append(text)
            found.relevant.append(np.array(places, np.int64))
            found.sources.append(dataset.sources[query_id])
    return found


def page_scores(store: PageStore, queries: Sequence[QueryEmbedding]) -> tuple[Float32, Float32]:
    """Return what the default lane ranks by, and mean similarities, of each query and page: (Q, N) each."""
    n = store.n_pages()
    scores = np.full((2, len(queries), n), -np.inf, np.float32)
    rankings = rank(store, queries, k=n, prefilter="none", lane=default_lane(store.settings))
    for row, (query, ranking) in enumerate(zip(queries, rankings, strict=True)):
        places = store.page_table().places(hit.row_id for hit in ranking.hits)
        scores[0, row, places] = [hit.score for hit in ranking.hits]
        scores[1, row, places] = [hit.maxsim / len(query.vectors) for hit in ranking.hits]
    return scores[0], scores[1]


def signals(scores: Float32, similarities: Float32, removed: Bool) -> Float64:
    """Return the signals of a query's best page, (3,) float64, without the pages removed, (N,) each."""
    best = int(np.where(removed, -np.inf, scores).argmax())
    sample = sample_places(len(scores))
    background = similarities[sample[~removed[sample]]]
    median = np.median(background)
    deviation = max(_NORMAL * float(np.median(np.abs(background - median))), 1e-6)
    lifted = lift(similarities[best : best + 1], background)[0]
    return np.array([scores[best], lifted, (similarities[best] - median) / deviation], np.float64)


def without_quotes(text: str) -> str:
    """Return a question that no page is left out for: quoted phrases would."""
    return text.translate(dict.fromkeys(map(ord, '"\u201c\u201d\u201e\u00ab\u00bb')))


def ask(store: PageStore, encoder: Encoder, own: Labelled, others: Sequence[str]) -> dict[str, Questions]:
    """Return the signals of a set's questions, with their answer ("") and without, by the kind of being without."""
    texts = [without_quotes(text) for text in [*own.texts, *others]]
    scores, similarities = page_scores(store, embed(store, encoder, texts))
    documents, groups = store.page_table().documents, page_groups(store)
    nothing = np.zeros(scores.shape[1], np.bool_)
    pages = [np.isin(groups, groups[places]) for places in own.relevant]
    whole = [np.isin(documents, documents[places]) | near for places, near in zip(own.relevant, pages, strict=True)]
    n = len(own.texts)
    taken = {"": [nothing] * n, DOCUMENT: whole, PAGE: pages}
    found = {
        kind: Questions(np.stack([signals(scores[i], similarities[i], each[i]) for i in range(n)]), own.sources)
        for kind, each in taken.items()
    }
    if others:
        rows = [signals(scores[i], similarities[i], nothing) for i in range(n, n + len(others))]
        found[ELSEWHERE] = Questions(np.stack(rows), [f"other {i}" for i in range(len(others))])
    return found


def held_out(questions: Questions) -> tuple[float, Float64]:
    """Return the score floor of all answered questions, and for each that of the other documents' questions, (n,)."""
    scores = questions.signals[:, 0]
    sources = np.array(questions.sources)
    floors = np.full(len(scores), -np.inf)  # of too few questions none
    for source in np.unique(sources):
        promised = conformal_floor(scores[sources != source], ANSWERED)
        floors[sources == source] = promised.floor if promised else -np.inf
    everything = conformal_floor(scores, ANSWERED)
    return everything.floor if everything else -np.inf, floors


def rows(store: PageStore, found: dict[str, Questions], calibrated: float) -> Iterator[list[str]]:
    """Yield a row for each way of refusing: what is kept of the answered, and caught of the others."""
    answered = found[""]
    least = LEAST_LIFT.get(store.settings.family, UNMEASURED_LIFT)
    everything, others = held_out(answered)
    z_floor = float(np.quantile(answered.signals[:, 2], _REFUSED))
    n = len(answered.sources)
    for label, signal, floor, own in (
        ("floor calibrated on the pages", 0, calibrated, np.full(n, calibrated)),
        ("floor of the other documents' questions", 0, everything, others),
        (f"lift below {least}", 1, least, np.full(n, least)),
        (f"z-score that refuses {_REFUSED:.0%} of these", 2, z_floor, np.full(n, z_floor)),
    ):
        cells = [_share(answered.signals[:, signal] >= own, answered.sources)]
        for kind, questions in found.items():
            if kind:
                floors = own if kind != ELSEWHERE else floor
                cells.append(_share(questions.signals[:, signal] < floors, questions.sources))
        yield [label, f"{floor:.3f}", *cells]


def _share(true: Bool, sources: Sequence[str]) -> str:
    found = bootstrap_interval(true.astype(np.float64), sources, np.random.default_rng(0))
    return f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


def report(pairs: Sequence[tuple[Path, Path]], encoder: Encoder) -> Iterator[str]:
    """Yield the tables of labelled sets, each in its index."""
    stores = [PageStore.open(index) for _, index in pairs]
    sets = [load_dataset(folder, extra_folders=_distractors(folder)) for folder, _ in pairs]
    asked = [labelled(dataset, store) for dataset, store in zip(sets, stores, strict=True)]
    for i, (dataset, store) in enumerate(zip(sets, stores, strict=True)):
        others = [text for j, each in enumerate(asked) if j != i for text in each.texts]
        lane = default_lane(store.settings)
        floor = fit_lanes(store, encoder, lanes=(lane,)).lanes[lane]
        found = ask(store, encoder, asked[i], others)
        kinds = [kind for kind in found if kind]
        yield f"\n## {dataset.name}: {len(asked[i].texts)} questions, N = {store.n_pages()}, lane {lane}\n"
        head = ("refused by", "floor", "answered kept", *(f"{kind}, caught" for kind in kinds))
        yield from table(head, rows(store, found, floor.floor))
        areas = (
            [name, *(f"{auroc(found[''].signals[:, at], found[kind].signals[:, at]):.3f}" for kind in kinds)]
            for at, name in enumerate(SIGNALS)
        )
        yield ""
        yield from table(("AUROC of", *kinds), areas)


def _distractors(folder: Path) -> tuple[str, ...]:
    return ("pdfs_distractors",) if (folder / "pdfs_distractors").is_dir() else ()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return the exit status."""
    parser = argparse.ArgumentParser("python -m colret_eval.calibrated_floor", description=__doc__.split("\n")[0])
    parser.add_argument("pairs", nargs="+", metavar="DATASET_FOLDER=INDEX")
    options = parser.parse_args(arguments)
    pairs = [pair.rpartition("=") for pair in options.pairs]
    if not all(folder and index for folder, _, index in pairs):
        parser.error("give each labelled set with its index: DATASET_FOLDER=INDEX")
    try:
        encoder = load_encoder("embedded", queries_only=True)
        for line in report([(Path(folder), Path(index)) for folder, _, index in pairs], encoder):
            print(line, flush=True)
    except ColretError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
