"""Charts as inline SVG: no script, no fonts of their own, colours from the page's style sheet.

Series differ in colour, in marker and in dash, so that no colour has to be told from another.
A style sheet has to give ``.s0`` to ``.s7`` a ``color``, and text and grid lines theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from colret_eval.ticks import Axis, Scale, number

WIDTH, HEIGHT = 480, 310
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 12, 50
_N_STYLES = 8
_DASHES = ("", "7 4", "2 3", "9 3 2 3")
_BAR_ROW = 46  # height of a horizontal bar with its label above it
_MARK = 11.0  # width of a mark


class Point(NamedTuple):
    """A mark, with its interval where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""  # shown when pointed at, and read aloud


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together."""

    name: str
    points: Sequence[Point]
    style: int  # which colour and marker
    line: bool = False  # joined, with the intervals as a band; else marks with error bars
    dash: int = 0
    bare: bool = False  # no intervals, where there are too many marks for them


class Bar(NamedTuple):
    """A horizontal bar."""

    label: str
    value: float
    text: str  # printed beside it
    style: int


def chart(series: Sequence[Series], x: Axis, y: Axis, description: str) -> Markup:
    """Return a chart of points and lines; points that are not finite, or not positive on a log axis, are left out.

    Args:
        series: In drawing order.
        x: Horizontal axis.
        y: Vertical axis.
        description: What the chart shows, for those who cannot see it.
    """
    shown = [_drawable(each, x, y) for each in series]
    points = [point for each in shown for point in each.points]
    if not points:
        return Markup("")
    ends = [end for each in shown for point in each.points for end in _ends(point, each.bare)]
    right = Scale(x, [p.x for p in points], _LEFT, WIDTH - _RIGHT)
    up = Scale(y, ends, HEIGHT - _BOTTOM, _TOP)
    moved = _apart(shown, right, up)
    parts = [_grid(right, up, x, y), *(_draw(each, right, up, by) for each, by in zip(shown, moved, strict=True))]
    return _svg(HEIGHT, description, parts)


def bars(rows: Sequence[Bar], description: str, *, full: float | None = None) -> Markup:
    """Return horizontal bars, each with its label above it; ``full`` is the value of the whole width."""
    if not rows:
        return Markup("")
    full = full or max(row.value for row in rows) or 1
    line = Markup(
        '<text x="0" y="{0}">{1}</text><text class="end" x="{2}" y="{0}">{3}</text>'
        '<rect class="track" x="0" y="{4}" width="{2}" height="14"/>'
        '<rect class="s{5}" x="0" y="{4}" width="{6:.1f}" height="14"/>'
    )
    parts = [
        line.format(top + 15, row.label, WIDTH, row.text, top + 22, row.style % _N_STYLES, row.value / full * WIDTH)
        for top, row in zip(range(0, len(rows) * _BAR_ROW, _BAR_ROW), rows, strict=True)
    ]
    return _svg(len(rows) * _BAR_ROW, description, parts)


def histogram(counts: Sequence[tuple[float, float]], x: Axis, y: Axis, description: str, over: Series) -> Markup:
    """Return columns of ``(x, height)``, as wide as the nearest two are apart, with a line drawn ``over`` them."""
    columns = [(at, height) for at, height in counts if height > 0]
    if not columns:
        return Markup("")
    places = sorted({at for at, _ in counts})
    step = min((b - a for a, b in pairwise(places)), default=1.0)
    ends = places[0] - step / 2, places[-1] + step / 2
    right = Scale(Axis(x.label, x.scale, *ends, x.whole), ends, _LEFT, WIDTH - _RIGHT)
    lowest = 0.0 if y.scale == "linear" else 0.5  # on a log axis a column of one has to be seen
    heights = [height for _, height in columns] + [point.y for point in over.points]
    up = Scale(Axis(y.label, y.scale, lowest, y.high, y.whole), heights, HEIGHT - _BOTTOM, _TOP)
    shape = Markup('<rect class="s0" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}: {}</title></rect>')
    parts = [_grid(right, up, x, y)]
    for at, height in columns:
        left, end = right(at - step * 0.45), right(at + step * 0.45)
        place = left, up(height), max(end - left, 1.0), up(lowest) - up(height)
        parts.append(shape.format(*place, number(at), number(height)))
    return _svg(HEIGHT, description, [*parts, _draw(over, right, up)])


def key(series: Sequence[Series]) -> Markup:
    """Return the legend of a chart as a list, each entry with its mark."""
    return Markup('<ul class="key">{}</ul>').format(Markup("").join(map(_entry, series)))


def _drawable(series: Series, x: Axis, y: Axis) -> Series:
    def fits(point: Point) -> bool:
        pairs = ((point.x, x), (point.y, y))
        return all(math.isfinite(value) and (axis.scale == "linear" or value > 0) for value, axis in pairs)

    return replace(series, points=[p for p in series.points if fits(p)])


def _grid(right: Scale, up: Scale, x: Axis, y: Axis) -> Markup:
    """Return grid lines, the ticks' numbers, and what the axes say."""
    bottom, end = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    line = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
    text = Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>')
    parts = []
    for tick in up.ticks:
        parts.append(line.format("grid", _LEFT, up(tick), end, up(tick)))
        parts.append(text.format("end", _LEFT - 7, up(tick) + 4.5, number(tick)))
    for tick in right.ticks:
        parts.append(line.format("grid", right(tick), _TOP, right(tick), bottom))
        parts.append(text.format("middle", right(tick), bottom + 18, number(tick)))
    parts += [line.format("axis", _LEFT, bottom, end, bottom), line.format("axis", _LEFT, _TOP, _LEFT, bottom)]
    parts.append(text.format("middle", (_LEFT + end) / 2, HEIGHT - 9, x.label))
    upright = Markup('<text class="middle" transform="translate(14 {}) rotate(-90)">{}</text>')
    return Markup("").join([*parts, upright.format((_TOP + bottom) / 2, y.label)])


def _ends(point: Point, bare: bool) -> list[float]:
    """Return how far a point reaches, up and down."""
    ends = (point.y,) if bare else (point.y, point.low, point.high)
    return [end for end in ends if end is not None and math.isfinite(end)]


def _apart(series: Sequence[Series], right: Scale, up: Scale) -> list[float]:
    """Return by how many units each series is drawn further left, so that no single mark hides another."""
    placed: list[tuple[float, float]] = []
    moved = []
    for each in series:
        by = 0.0
        if len(each.points) == 1 and not each.line:
            x, y = right(each.points[0].x), up(each.points[0].y)
            while any(abs(x - by - other) < _MARK and abs(y - height) < _MARK for other, height in placed):
                by += _MARK
            placed.append((x - by, y))
        moved.append(by)
    return moved


def _draw(series: Series, right: Scale, up: Scale, by: float = 0.0) -> Markup:
    parts = [_curve(series, right, up)] if series.line else []
    for point in series.points:
        if not (series.line or series.bare) and point.low is not None and point.high is not None:
            parts.append(_error_bar(right(point.x) - by, up(point.low), up(point.high)))
        if not series.line or len(series.points) <= 25:
            title = Markup("<title>{}</title>").format(point.title or f"{series.name}: {number(point.y)}")
            parts.append(_marker(right(point.x) - by, up(point.y), series.style, title))
    return Markup('<g class="s{}">{}</g>').format(series.style % _N_STYLES, Markup("").join(parts))


def _curve(series: Series, right: Scale, up: Scale) -> Markup:
    """Return the line through the points, on the band of their intervals."""
    banded = [p for p in series.points if p.low is not None and p.high is not None]
    outline = [(p.x, p.high or 0.0) for p in banded] + [(p.x, p.low or 0.0) for p in reversed(banded)]
    band = Markup('<polygon class="band" points="{}"/>').format(_path(outline, right, up)) if len(banded) > 1 else ""
    dash = _DASHES[series.dash % len(_DASHES)]
    line = _path([(p.x, p.y) for p in series.points], right, up)
    return Markup('{}<polyline points="{}" stroke-dasharray="{}"/>').format(band, line, dash or "none")


def _path(points: Iterable[tuple[float, float]], right: Scale, up: Scale) -> str:
    return " ".join(f"{right(x):.1f},{up(y):.1f}" for x, y in points)


def _error_bar(x: float, low: float, high: float) -> Markup:
    return Markup('<path class="bar" d="M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {1:.1f}h8M{3:.1f} {2:.1f}h8"/>').format(
        x, low, high, x - 4
    )


def _polygon(*offsets: tuple[float, float]) -> Callable[[float, float], str]:
    return lambda x, y: "M" + "L".join(f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in offsets) + "Z"


_MARKERS: tuple[Callable[[float, float], str], ...] = (
    lambda x, y: f"M{x - 5:.1f} {y:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z",
    _polygon((-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)),
    _polygon((0, -6), (5.5, 4), (-5.5, 4)),
    _polygon((0, -6), (6, 0), (0, 6), (-6, 0)),
    _polygon((0, 6), (5.5, -4), (-5.5, -4)),
    _polygon(
        (-6, -2), (-2, -2), (-2, -6), (2, -6), (2, -2), (6, -2), (6, 2), (2, 2), (2, 6), (-2, 6), (-2, 2), (-6, 2)
    ),
    _polygon((-6, 0), (4, -5.5), (4, 5.5)),
    _polygon((6, 0), (-4, -5.5), (-4, 5.5)),
)


def _marker(x: float, y: float, style: int, title: Markup | str = "") -> Markup:
    return Markup('<path class="mark" d="{}">{}</path>').format(_MARKERS[style % _N_STYLES](x, y), title)


def _entry(series: Series) -> Markup:
    """Return a legend's entry: the mark, on the line if the series has one."""
    dash = _DASHES[series.dash % len(_DASHES)] or "none"
    line = Markup('<polyline points="0,8 28,8" stroke-dasharray="{}"/>').format(dash) if series.line else ""
    marked = not series.line or len(series.points) <= 25
    mark = _marker(14, 8, series.style) if marked else ""
    picture = Markup('<svg viewBox="0 0 28 16" width="28" height="16" aria-hidden="true"><g class="s{}">{}{}</g></svg>')
    return Markup("<li>{}{}</li>").format(picture.format(series.style % _N_STYLES, line, mark), series.name)


def _svg(height: float, description: str, parts: Iterable[Markup]) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, description, Markup("").join(parts)
    )
