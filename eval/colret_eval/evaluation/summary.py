"""The short table that ends a run: N and a random order always beside the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colret.errors import printable
from colret_eval.evaluation.cells import MAIN


def summary(report: dict[str, Any]) -> str:
    """Return a set's part of a report as a few lines of plain text."""
    rows = [["system", *MAIN]]
    for system in report["systems"]:
        if system["available"]:
            rows.append([system["label"], *(_shown(system, name) for name in MAIN)])
    rows.append(["random order", *(f"{report['random'][name]:.3f}" for name in MAIN)])
    head = (
        f"{report['name']}: {report['n_queries']:,} queries about {report['n_sources']:,} documents, "
        f"N = {report['n_pages']:,} pages"
    )
    note = f"+ better, - worse than {rows[1][0]}, = a tie; intervals and all else are in the report"
    missing = [f"no {s['label']}: {s['reason']}" for s in report["systems"] if not s["available"]]
    lines = [head, *_aligned(rows), *missing, note, *(f"- {sentence}" for sentence in report["headline"])]
    return "\n".join(map(printable, lines))


def _shown(system: dict[str, Any], measure: str) -> str:
    value = f"{system['measures'][measure]['mean']:.3f}"
    if not system["differences"]:
        return value
    # Differences are the reference minus the system: where that is better, the system is worse.
    return value + {"better": " -", "worse": " +", "tie": " ="}[system["differences"][measure]["verdict"]]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
