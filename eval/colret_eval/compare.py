"""Two reports of the same queries: what changed between them, and what of it may be luck."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from colret.errors import one_line
from colret_eval.explanations import resampling
from colret_eval.measures import Float64
from colret_eval.report_file import Report, ReportError
from colret_eval.statistics import Interval, holm, paired_interval, randomisation_test

N_SHOWN = 5
"""Queries shown of those that gained or lost most."""

_CUTOFFS = (1, 5, 10)
_RECIPROCAL = "MRR@10"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A measure of the second report's system minus the first's, on the same queries."""

    measure: str
    chance: tuple[float | None, float | None]  # of a random order of each report's pages, over all its queries
    first: float
    second: float
    difference: Interval
    p: float  # two-sided, Holm-adjusted over the measures compared

    @property
    def verdict(self) -> str:
        """``tie`` where the interval holds 0 or luck may do as much, else what the second is."""
        if self.difference.low <= 0 <= self.difference.high or self.p >= 0.05:
            return "tie"
        return "better" if self.difference.mean > 0 else "worse"


@dataclass(frozen=True, slots=True)
class QueryChange:
    """A query on which the systems differ."""

    id: str
    text: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class SetComparison:
    """What changed on one set."""

    name: str
    systems: tuple[str, str]  # ids, in the first and in the second report
    n_queries: int  # compared
    n_left_out: int  # queries that only one has, or that have other texts or labels
    n_pages: tuple[int, int]
    ranked_by: str  # the measure that the gains and losses are of
    changes: list[Change]
    gains: list[QueryChange]  # the largest first
    losses: list[QueryChange]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two reports."""

    settings: dict[str, tuple[Any, Any]]  # only those that differ
    sets: list[SetComparison]


def compare(first: Report, second: Report, *, system: str | None = None, seed: int = 0) -> Comparison:
    """Return what changed from the first report to the second, on the sets and queries that both have.

    Sets are the same by name, or by being the only one of each; queries by id, text and labels.

    Args:
        first: Report of ``colret eval run``.
        second: Another.
        system: Id of the system to compare; by default each set's reference.
        seed: Of the intervals and tests.

    Raises:
        ReportError: If they have no set or no query in common, or a set lacks the system.
    """
    pairs = _same_sets(first["sets"], second["sets"])
    if not pairs:
        names = " and ".join(", ".join(data["name"] for data in report["sets"]) for report in (first, second))
        raise ReportError(names, "the reports have no set in common", "evaluate both on one set")
    return Comparison(
        settings=_differing(_settings(first), _settings(second)),
        sets=[_compare_set(one, other, system, seed) for one, other in pairs],
    )


def as_json(comparison: Comparison) -> dict[str, object]:
    """Return the comparison as plain dicts, lists and numbers."""
    plain = asdict(comparison)
    for data, shown in zip(comparison.sets, plain["sets"], strict=True):
        for change, row in zip(data.changes, shown["changes"], strict=True):
            row["difference"] = {**change.difference._asdict(), "p": row.pop("p"), "verdict": change.verdict}
    return {"schema": "colret-eval-compare", "schema_version": 1, **plain}


def format_comparison(comparison: Comparison) -> str:
    """Return the comparison as text."""
    parts = ["\n".join(_setting_lines(comparison.settings))]
    parts += ["\n".join(_set_lines(data)) for data in comparison.sets]
    return "\n\n".join(parts)


def _same_sets(first: Sequence[Row], second: Sequence[Row]) -> list[tuple[Row, Row]]:
    if len(first) == len(second) == 1:
        return [(first[0], second[0])]
    others = {data["name"]: data for data in second}
    return [(data, others[data["name"]]) for data in first if data["name"] in others]


def _settings(report: Report) -> dict[str, Any]:
    parts = {"model": ("name", "revision", "dim"), "machine": ("processor", "cores", "device")}
    chosen = {f"{part} {name}": report.get(part, {}).get(name) for part, names in parts.items() for name in names}
    index = {f"index {name}": value for name, value in (report.get("index") or {}).items()}
    return {**chosen, **index, "colret": report.get("tool_version")}


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}


def _compare_set(first: Row, second: Row, system: str | None, seed: int) -> SetComparison:
    systems = system or first["reference"], system or second["reference"]
    others = {query["id"]: query for query in second["queries"]}
    known = {*others, *(query["id"] for query in first["queries"])}
    pairs = [(query, others[query["id"]]) for query in first["queries"] if _same(query, others.get(query["id"]))]
    if not pairs:
        raise ReportError(first["name"], "the reports have no query in common", "evaluate both on the same queries")
    values = [
        _values(data["name"], [pair[side] for pair in pairs], name)
        for side, (data, name) in enumerate(zip((first, second), systems, strict=True))
    ]
    measures = [measure for measure in values[0] if measure in values[1]]
    main = measures[0]
    chance = {measure: (first["random"].get(measure), second["random"].get(measure)) for measure in measures}
    sources = [one["source"] for one, _ in pairs]
    changes = _changes({m: (values[0][m], values[1][m]) for m in measures}, chance, sources, seed)
    moved = [
        QueryChange(one["id"], one["text"], float(a), float(b))
        for (one, _), a, b in zip(pairs, values[0][main], values[1][main], strict=True)
    ]
    moved.sort(key=lambda query: query.first - query.second)
    return SetComparison(
        name=first["name"],
        systems=systems,
        n_queries=len(pairs),
        n_left_out=len(known) - len(pairs),
        n_pages=(first["n_pages"], second["n_pages"]),
        ranked_by=main,
        changes=changes,
        gains=[query for query in moved[:N_SHOWN] if query.second > query.first],
        losses=[query for query in moved[: -N_SHOWN - 1 : -1] if query.second < query.first],
    )


def _same(query: Row, other: Row | None) -> bool:
    """Return whether two reports ask the same and expect the same."""
    if other is None or query["text"] != other["text"]:
        return False
    first, second = ({page["key"]: page.get("grade", 1) for page in each["relevant"]} for each in (query, other))
    return first == second


def _values(name: str, queries: Sequence[Row], system: str) -> dict[str, Float64]:
    """Return by measure the value of each query, (Q,): those that the report holds, and what its ranks tell.

    Raises:
        ReportError: If the queries have no ranks of the system.
    """
    missing = [query["id"] for query in queries if system not in query["ranks"]]
    if missing:
        raise ReportError(f"{name}, {system}", "the report has no ranks of this system", _others(queries))
    kept = queries[0]["values"].get(system, {})
    values = {m: np.array([query["values"][system][m] for query in queries], np.float64) for m in kept}
    ranks = np.array([query["ranks"][system] or np.inf for query in queries], np.float64)
    for cutoff in _CUTOFFS:
        values.setdefault(f"Success@{cutoff}", (ranks <= cutoff).astype(np.float64))
    values.setdefault(_RECIPROCAL, np.where(ranks <= 10, 1 / ranks, 0.0))
    return values


def _others(queries: Sequence[Row]) -> str:
    """Return which systems could be compared."""
    known = [system for system in queries[0]["ranks"] if all(system in query["ranks"] for query in queries)]
    return f"name another with --system: {', '.join(known)}" if known else "evaluate again"


def _changes(
    values: Mapping[str, tuple[Float64, Float64]],
    chance: Mapping[str, tuple[float | None, float | None]],
    sources: Sequence[str],
    seed: int,
) -> list[Change]:
    raw = [randomisation_test(b, a, sources, np.random.default_rng(seed)) for a, b in values.values()]
    return [
        Change(
            measure=measure,
            chance=chance[measure],
            first=float(a.mean()),
            second=float(b.mean()),
            # The same resamples for every measure, so that equal differences have equal intervals.
            difference=paired_interval(b, a, sources, np.random.default_rng(seed)),
            p=float(p),
        )
        for (measure, (a, b)), p in zip(values.items(), holm(raw), strict=True)
    ]


def _setting_lines(settings: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    yield "Settings that differ:" if settings else "No setting differs."
    for name, (first, second) in settings.items():
        yield f"  {name.replace('_', ' ')}: {_said(first)} -> {_said(second)}"


def _said(value: Any) -> str:
    return "not given" if value in (None, "") else one_line(str(value))


def _set_lines(data: SetComparison) -> Iterator[str]:
    first, second = data.systems
    what = first if first == second else f"{first} -> {second}"
    left_out = f", {data.n_left_out} left out that differ or that one report lacks" if data.n_left_out else ""
    yield f"{one_line(data.name)}, {what}: {data.n_queries} queries compared{left_out}"
    pages = f"N = {data.n_pages[0]:,} pages"
    if data.n_pages[0] != data.n_pages[1]:
        pages += f" -> {data.n_pages[1]:,}: not the same task, since more pages are harder to search"
    yield f"{pages}; in brackets 95 % intervals; p is Holm-adjusted over the measures"
    yield resampling(data.changes[0].difference._asdict())
    rows = [["measure", "chance", "A", "B", "B minus A", "p", ""]]
    for change in data.changes:
        low, high = change.difference.low, change.difference.high
        difference = f"{change.difference.mean:+.3f} [{low:+.3f}, {high:+.3f}]"
        numbers = f"{change.first:.3f}", f"{change.second:.3f}", difference, f"{change.p:.4f}"
        chance = " -> ".join(dict.fromkeys("-" if each is None else f"{each:.3g}" for each in change.chance))
        rows.append(
            [change.measure, chance, *numbers, change.verdict if change.verdict == "tie" else f"B is {change.verdict}"]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(map(str.ljust, row, widths)).rstrip()
    for title, queries in (("gained", data.gains), ("lost", data.losses)):
        if queries:
            yield f"queries that {title} most ({data.ranked_by}, A -> B):"
        for query in queries:
            yield f"  {query.first:.3f} -> {query.second:.3f}  {one_line(query.text)} ({one_line(query.id)})"
