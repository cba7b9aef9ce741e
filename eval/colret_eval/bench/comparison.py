"""Compare engines at equal quality: pure functions over the rows that ``engines`` measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

SHARES = (0.9, 0.95, 0.99, 1.0)
"""Shares of the exact top-10 at which engines are compared."""


def fastest(points: Sequence[Row], share: float) -> Row | None:
    """Return the point of lowest p50 that keeps at least ``share`` of the exact top-10; None if none does."""
    good = [point for point in points if point["top10"] >= share - 1e-9]
    return min(good, key=lambda point: float(point["p50_ms"]), default=None)


def frontier(points: Sequence[Row]) -> list[Row]:
    """Return the points that no other beats in both p50 and share of the exact top-10, fastest first."""
    best: list[Row] = []
    for point in sorted(points, key=lambda point: (point["p50_ms"], -point["top10"])):
        if not best or point["top10"] > best[-1]["top10"]:
            best.append(point)
    return best


def named(row: Row, *labels: str) -> Row | None:
    """Return the first point of an engine whose label starts with one of ``labels``."""
    return next((point for point in row["points"] if point["label"].startswith(labels)), None)


def against(ours: Sequence[Row], theirs: Sequence[Row]) -> list[tuple[Row | None, Row]]:
    """Return each point of their frontier beside our fastest at no lower share, None where we never reach it."""
    return [(fastest(ours, point["top10"]), point) for point in frontier(theirs)]
