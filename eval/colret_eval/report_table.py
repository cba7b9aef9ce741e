"""From the runs of several systems to the figures of one set, as text and as JSON; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from colret_eval.measures import Float64, Measure, Qrels, Run, evaluate, random_baseline
from colret_eval.statistics import Interval, bootstrap_interval, holm, paired_interval, randomisation_test


@dataclass(frozen=True, slots=True)
class Labels:
    """What the runs of one set are judged by."""

    name: str
    qrels: Qrels
    sources: Mapping[str, str]  # query id to the document that clusters it
    n_pages: int  # N: the pages that every system ranked


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the reference system is above another, on the same queries."""

    interval: Interval
    p: float  # two-sided, Holm-adjusted over the systems compared


@dataclass(frozen=True, slots=True)
class Summary:
    """All figures of one set; the inner keys are measures' names."""

    name: str
    n_queries: int
    n_documents: int  # that queries are about
    n_pages: int  # N, of the whole corpus
    reference: str
    systems: dict[str, dict[str, Interval]]
    random: dict[str, float]
    differences: dict[str, dict[str, Difference]]  # by the system the reference is compared with
    kept: dict[str, Interval]  # by what is kept, such as "exact top-10 by two-stage"


def summarise(
    labels: Labels,
    runs: Mapping[str, Run],
    measures: Sequence[Measure],
    *,
    against: Sequence[str],
    kept: Mapping[str, Float64],
    rng: np.random.Generator,
) -> Summary:
    """Return the figures of one set.

    Args:
        labels: The set's judgements.
        runs: Run of each system; the first system is the reference.
        measures: What to measure.
        against: Systems that the reference is compared with.
        kept: Shares from ``stages.kept``, each (Q,) in the order of the qrels, by what is kept.
        rng: Randomness of the intervals and tests.
    """
    clusters = [labels.sources[query_id] for query_id in labels.qrels]
    values = {system: evaluate(labels.qrels, run, measures) for system, run in runs.items()}
    reference = next(iter(runs))
    # The same resamples for every figure, so that equal values have equal intervals.
    seed = int(rng.integers(2**63))

    def interval(per_query: Float64) -> Interval:
        return bootstrap_interval(per_query, clusters, np.random.default_rng(seed))

    return Summary(
        name=labels.name,
        n_queries=len(clusters),
        n_documents=len(set(clusters)),
        n_pages=labels.n_pages,
        reference=reference,
        systems={s: {m: interval(per_query) for m, per_query in row.items()} for s, row in values.items()},
        random=_means(random_baseline(labels.qrels, measures, labels.n_pages)),
        differences=_differences(values[reference], {o: values[o] for o in against}, clusters, seed),
        kept={what: interval(shares) for what, shares in kept.items()},
    )


def as_json(summary: Summary) -> dict[str, object]:
    """Return the summary as plain dicts, lists and numbers."""
    # NamedTuples survive asdict and would become bare lists in JSON.
    return {
        **asdict(summary),
        "systems": {s: {m: i._asdict() for m, i in row.items()} for s, row in summary.systems.items()},
        "differences": {
            other: {m: {**d.interval._asdict(), "p": d.p} for m, d in row.items()}
            for other, row in summary.differences.items()
        },
        "kept": {what: interval._asdict() for what, interval in summary.kept.items()},
    }


def format_summary(summary: Summary) -> str:
    """Return the summary as a text table, always with Q, N and the random baseline."""
    measures = list(summary.random)
    unit = next(iter(summary.systems[summary.reference].values())).unit
    rows = [["system", *measures]]
    rows += [[s, *(_cell(row[m]) for m in measures)] for s, row in summary.systems.items()]
    rows += [["random order", *(f"{summary.random[m]:.3f}" for m in measures)]]
    rows += [[f"{summary.reference} minus", *([""] * len(measures))]] if summary.differences else []
    for other, by_measure in summary.differences.items():
        rows.append([f"  {other}", *(_cell(by_measure[m].interval, sign="+") for m in measures)])
        rows.append(["    p", *(f"{by_measure[m].p:.4f}" for m in measures)])
    head = (
        f"{summary.name}: Q = {summary.n_queries} queries about {summary.n_documents} documents, "
        f"N = {summary.n_pages} pages; 95 % intervals resample {unit}"
    )
    note = ["p: randomisation test over single queries, Holm-adjusted for the systems compared"]
    tail = [f"{what}: {_cell(interval)}" for what, interval in summary.kept.items()]
    return "\n".join([head, *_aligned(rows), *(note if summary.differences else []), *tail])


def _differences(
    reference: dict[str, Float64],
    others: dict[str, dict[str, Float64]],
    clusters: Sequence[str],
    seed: int,
) -> dict[str, dict[str, Difference]]:
    """Compare within each measure; the family that Holm corrects for is the other systems."""
    result: dict[str, dict[str, Difference]] = {other: {} for other in others}
    for measure, ours in reference.items():
        raw = [randomisation_test(ours, theirs[measure], np.random.default_rng(seed)) for theirs in others.values()]
        for (other, theirs), p in zip(others.items(), holm(raw), strict=True):
            interval = paired_interval(ours, theirs[measure], clusters, np.random.default_rng(seed))
            result[other][measure] = Difference(interval, float(p))
    return result


def _means(values: Mapping[str, Float64]) -> dict[str, float]:
    return {measure: float(per_query.mean()) for measure, per_query in values.items()}


def _cell(interval: Interval, *, sign: str = "") -> str:
    numbers = (f"{number:{sign}.3f}" for number in (interval.mean, interval.low, interval.high))
    return "{} [{}, {}]".format(*numbers)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
