"""From a set of report.json to its charts: pure, and without a chart where nothing was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from colret_eval.svg import Bar, Point, Series, bars, chart, histogram, key
from colret_eval.ticks import Axis, number

Row = Mapping[str, Any]
"""An object of report.json."""

STAGES = {"ann": "ANN index"}
"""What steps are called, where that is not their name."""

_MANY = 50  # pages in one column that make the others too low to see
_CHANCE_STYLE = 7
_STAGE_STYLES = {"model": 1, "codec": 2, "storage": 2, "prefilter": 3, "ann": 4}


class Figure(NamedTuple):
    """A chart with its legend, and what it shows in plain words."""

    title: str
    note: str
    chart: Markup
    key: Markup


def cost_figures(data: Row, measure: str) -> list[Figure]:
    """Return quality against bytes and against latency, of the systems where both are known."""
    notes = {
        "bytes": "Each mark is a search system. Higher finds more; further left takes less disk.",
        "latency": "Each mark is a search system. Higher finds more; further left answers sooner.",
    }
    figures = []
    for what, label in (("bytes", "bytes a page (log scale)"), ("latency", "milliseconds a query, median (log scale)")):
        series = list(_by_system(data["systems"], measure, what))
        x, y = Axis(label, "log"), Axis(measure)
        drawn = chart(series, x, y, f"{measure} of each system against {label}")
        note = f"{notes[what]} Bars are 95 % intervals; marks that would cover another are moved beside it."
        unknown = [s["label"] for s in data["systems"] if measure in (s.get("measures") or {}) and not _cost(s, what)]
        if unknown:
            note += f" Not drawn, because their {what} was not measured: {'; '.join(unknown)}."
        if drawn:
            figures.append(Figure(f"Quality against {what}", note, drawn, key(series)))
    return figures


def size_figure(data: Row) -> Figure | None:
    """Return Success@k against the size of the collection: with random and with the hardest distractors."""
    curves = data.get("collection_size")
    if not curves:
        return None
    labels, styles = _labels(data), _styles(data)
    series = []
    for row in _two(curves["systems"], data):  # three curves each: more could not be told apart
        system, name = row["system"], labels.get(row["system"], row["system"])
        style = styles.get(system, 0)
        series += [_curve(f"{name}, random pages", curves["sizes"], row["random"], style, 0)]
        series += [_curve(f"{name}, same documents first", curves["sizes"], row.get("hardest") or [], style, 1)]
        further = row.get("extrapolated") or {}
        if further.get("sizes"):  # from the last size that was measured
            sizes = [curves["sizes"][-1], *further["sizes"]]
            series.append(_curve(f"{name}, extrapolated", sizes, [row["random"][-1], *further["success"]], style, 2))
    k = curves["k"]
    chance = [Point(size, min(k / size, 1.0)) for size in curves["sizes"]]
    series.append(Series("chance, one relevant page", chance, _CHANCE_STYLE, line=True, dash=3))
    series = [each for each in series if each.points]
    x = Axis("pages in the collection (log scale)", "log")
    drawn = chart(series, x, Axis(f"Success@{k}", low=0, high=1), f"Success@{k} against the size of the collection")
    asked = "the first result" if k == 1 else f"one of the first {k} results"
    note = (
        f"How often {asked} would be right, if the collection were smaller or larger. “Same documents first” is the "
        "pessimistic curve: the other pages of the right document are the hardest to tell apart, so they are put in "
        "before any others. Shaded: 95 % intervals."
    )
    return Figure("Success against collection size", note, drawn, key(series)) if drawn else None


def stage_figure(data: Row) -> Figure | None:
    """Return how many queries lost their answer at each step."""
    stages = data.get("stages")
    if not stages or not any(row.get("lost") is not None for row in stages["rows"]):
        return None
    n, k = stages["n_queries"], stages["k"]
    lost = [row for row in stages["rows"] if row.get("lost") is not None]
    rows = [Bar(f"right page among the first {k}", stages["found"], f"{stages['found']:,} of {n:,}", 0)]
    rows += [
        Bar(
            f"lost by the {STAGES.get(row['name'], row['name'])}",
            row["lost"],
            f"{row['lost']:,}",
            _STAGE_STYLES.get(row["name"], 5),
        )
        for row in lost
    ]
    drawn = bars(rows, "queries answered, and queries lost at each step", full=n)
    note = f"Of {n:,} queries, how many have a right page among the first {k}, and which step lost the others."
    return Figure("Answers found, and lost", note, drawn, Markup(""))


def hub_figure(data: Row) -> Figure | None:
    """Return how often pages turn up among the first k, beside what chance would give."""
    hubness = data.get("hubness")
    if not hubness or not hubness.get("histogram"):
        return None
    rows, k = hubness["histogram"], hubness["k"]
    expected = Series(
        "expected by chance",
        [Point(row["occurrences"], row["expected_pages"]) for row in rows if (row.get("expected_pages") or 0) >= 0.5],
        1,
        line=True,
        dash=1,
    )
    x = Axis(f"queries that have the page among their first {k}", whole=True)
    many = max(row["pages"] for row in rows) > _MANY
    y = Axis("pages (log scale)", "log") if many else Axis("pages", low=0)
    drawn = histogram([(r["occurrences"], r["pages"]) for r in rows], x, y, "pages by number of occurrences", expected)
    note = (
        "Columns: pages that turn up for so many queries. Columns far to the right are hubs: pages that are shown for "
        "many queries, most of which they do not answer."
    )
    return Figure("How often pages turn up", note, drawn, key([expected] if expected.points else [])) if drawn else None


def floor_figure(kind: Row) -> Figure | None:
    """Return false answers against right ones as each signal's floor is moved."""
    curves = kind.get("curve") or {}
    series = [
        # Where all answerable queries are answered, lower floors only let more of the others through.
        Series(name, [*(Point(false, true) for true, false in points), Point(1, 1)], place, line=True, dash=place)
        for place, (name, points) in enumerate(curves.items())
        if points
    ]
    if not series:
        return None
    even = Series("a signal that tells nothing", [Point(0, 0), Point(1, 1)], _CHANCE_STYLE, line=True, dash=3)
    x = Axis("unanswerable queries answered all the same, share", low=0, high=1)
    y = Axis("answerable ones answered, share", low=0, high=1)
    drawn = chart([*series, even], x, y, "answerable queries answered against unanswerable ones")
    note = (
        "Every point is a score floor: queries below it get no answer. The nearer a curve comes to the upper left "
        "corner, the better its signal tells queries with an answer from those without."
    )
    return Figure("Every score floor", note, drawn, key([*series, even])) if drawn else None


def sweep_figures(sweep: Row, measure: str) -> list[Figure]:
    """Return quality against bytes and latency of a sweep's settings, the Pareto fronts joined."""
    figures = []
    for what, mark, label in (
        ("bytes", "pareto", "bytes a page (log scale)"),
        ("latency", "pareto_latency", "milliseconds a query, median (log scale)"),
    ):
        rows = [row for row in sweep["rows"] if measure in row["measures"] and _cost(row, what)]
        codecs = list(dict.fromkeys(row["codec"] for row in rows))
        series = [
            Series(
                codec,
                [_at(row, measure, what, setting(row)) for row in rows if row["codec"] == codec],
                style,
                bare=True,
            )
            for style, codec in enumerate(codecs)
        ]
        front = sorted(_at(row, measure, what, setting(row)) for row in rows if row.get(mark))
        series = [Series("Pareto front", front, _CHANCE_STYLE, line=True, dash=1), *series] if front else series
        drawn = chart(series, Axis(label, "log"), Axis(measure), f"{measure} of each setting against {label}")
        note = "Each mark is a setting. No setting beats those on the front in both. Shaded: 95 % intervals of these."
        if drawn:
            figures.append(Figure(f"Quality against {what}", note, drawn, key(series)))
    return figures


def setting(row: Row) -> str:
    """Return a sweep's row in words."""
    projection = "" if row.get("projection") in (None, "none") else f" by {row['projection']}"
    parts = [row["codec"], f"{row['dim']} dimensions{projection}", f"pool {row['pool']}"]
    if row.get("prefilter") not in (None, "none"):
        parts.append(f"{row['prefilter']}, {row['n_candidates']:,} candidates")
    return ", ".join(parts)


def _by_system(systems: Sequence[Row], measure: str, what: str) -> Iterator[Series]:
    for style, system in enumerate(systems):
        if measure in (system.get("measures") or {}) and _cost(system, what):
            yield Series(system["label"], [_at(system, measure, what, system["label"])], style)


def _at(row: Row, measure: str, what: str, name: str) -> Point:
    interval, cost = row["measures"][measure], _cost(row, what) or 0.0
    title = f"{name}: {interval['mean']:.3f} at {number(cost)} {'bytes a page' if what == 'bytes' else 'ms'}"
    return Point(cost, interval["mean"], interval["low"], interval["high"], title)


def _cost(row: Row, what: str) -> float | None:
    if what == "bytes":
        return row.get("bytes_per_page")
    return (row.get("latency_ms") or {}).get("p50")


def _curve(name: str, sizes: Sequence[int], intervals: Sequence[Row], style: int, dash: int) -> Series:
    points = [
        Point(size, each["mean"], each["low"], each["high"], f"{name}, {size:,} pages: {each['mean']:.3f}")
        for size, each in zip(sizes, intervals, strict=True)
    ]
    return Series(name, points, style, line=True, dash=dash)


def _two(curves: Sequence[Row], data: Row) -> list[Row]:
    """Return the curves of the reference and of the best of the others, if these are known."""
    wanted = [name for name in (data["reference"], data.get("regressions_against")) if name]
    first = [row for name in wanted for row in curves if row["system"] == name]
    return [*first, *(row for row in curves if row not in first)][:2]


def _labels(data: Row) -> dict[str, str]:
    return {system["id"]: system["label"] for system in data["systems"]}


def _styles(data: Row) -> dict[str, int]:
    return {system["id"]: style for style, system in enumerate(data["systems"])}
