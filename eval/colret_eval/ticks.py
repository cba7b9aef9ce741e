"""Where a chart's axes have ticks, and what stands beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis says, and how far it goes; bounds left out follow the points."""

    label: str  # with its unit
    scale: Literal["linear", "log"] = "linear"
    low: float | None = None
    high: float | None = None
    whole: bool = False  # counts: no ticks between whole numbers


def number(value: float) -> str:
    """Return a number as an axis shows it: 0.25, 1,500, 20k, 3M."""
    size = abs(value)
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= unit:
            unit = 1e3 if name == "k" else unit
            return f"{value / unit:.3g}{name}"
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"


class Scale:
    """From values to places along an axis, and the ticks of it."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float) -> None:
        self._log = axis.scale == "log"
        self._start, self._end = start, end
        low = min(values) if axis.low is None else axis.low
        high = max(values) if axis.high is None else axis.high
        if self._log:
            self.ticks, low, high = _log_ticks(low, high, axis)
        else:
            self.ticks, low, high = _linear_ticks(low, high, axis)
        self._low, self._high = self._flat(low), self._flat(high)

    def __call__(self, value: float) -> float:
        """Return the place of ``value``, at the nearer end where it is beyond the axis."""
        share = (self._flat(value) - self._low) / (self._high - self._low)
        return self._start + min(max(share, 0.0), 1.0) * (self._end - self._start)

    def _flat(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self._log else value


def _linear_ticks(low: float, high: float, axis: Axis) -> tuple[list[float], float, float]:
    """Return round ticks, and bounds widened to them where the axis does not fix its own."""
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # one value: some room on both sides
        low, high = (low - (abs(low) * 0.1 or 0.5), high + (abs(high) * 0.1 or 0.5))
        low, high = (low if axis.low is None else axis.low), (high if axis.high is None else max(high, axis.high))
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    step = max(step, 1.0) if axis.whole else step
    first = math.floor(low / step + 1e-9) if axis.low is None else math.ceil(low / step - 1e-9)
    last = math.ceil(high / step - 1e-9) if axis.high is None else math.floor(high / step + 1e-9)
    ticks = [place * step for place in range(first, last + 1)]
    return ticks, low if axis.low is not None else ticks[0], high if axis.high is not None else ticks[-1]


def _log_ticks(low: float, high: float, axis: Axis) -> tuple[list[float], float, float]:
    """Return ticks at 1, 2 and 5 times powers of ten, fewer where they would crowd; bounds with some room."""
    room = 1.25
    low = low / room if axis.low is None else low
    high = high * room if axis.high is None else high
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
        if len(ticks) <= 7:
            break
    while len(ticks) > 7:
        ticks = ticks[::2]
    if len(ticks) < 3:  # less than a power of ten: round numbers, evenly apart
        rounded = [tick for tick in _linear_ticks(low, high, Axis(axis.label))[0] if low <= tick <= high]
        ticks = rounded if len(rounded) > len(ticks) else ticks
    return ticks, low, high
