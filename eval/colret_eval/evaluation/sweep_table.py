"""sweep.md: every setting that was tried, as a table."""

from __future__ import annotations

from typing import Any

from colret_eval.evaluation.cells import difference_cell, interval_cell, table
from colret_eval.evaluation.headline import MEASURE
from colret_eval.explanations import resampling
from colret_eval.synth import WORTH


def sweep_markdown(report: dict[str, Any]) -> str:
    """Return sweep.md."""
    found = report["set"]
    rows = [
        [
            row["codec"],
            row["dim"],
            row["projection"],
            row["pool"],
            row["prefilter"],
            row["n_candidates"] or "-",
            interval_cell(row["measures"][MEASURE]),
            difference_cell(row["difference"]) if row["difference"] else "",
            f"{row['bytes_per_page']:,.0f}",
            f"{row['latency_ms']['p50']:.1f} / {row['latency_ms']['p95']:.1f}",
            ("bytes " if row["pareto"] else "") + ("ms" if row["pareto_latency"] else ""),
        ]
        for row in report["rows"]
    ]
    head = ["codec", "dimensions", "projection", "pool", "prefilter", "C", MEASURE, "minus float32"]
    head += ["bytes a page", "ms p50 / p95", "Pareto"]
    lines = [
        f"# Sweep of {found['name']}: {found['n_queries']:,} queries, N = {found['n_pages']:,} pages",
        "",
        f"A random order has {MEASURE} {report['random'][MEASURE]:.3f}. In brackets: 95 % intervals. "
        f"{resampling(report['rows'][0]['measures'][MEASURE])} A tie is a "
        "difference whose interval holds 0 or whose Holm-corrected p-value is .05 or more. Bytes are those of the "
        "vectors' codes and of what the prefilter reads. Milliseconds are MaxSim with every page in "
        "memory where C is -, and else a search of the index; neither encodes the query. "
        "Product quantisation (pq) is not shipped, and timed on the float32 vectors that its codes stand for. "
        "Pareto: no other row of its kind is as good for fewer bytes, or milliseconds.",
        "",
        *([f"**Synthetic labels.** {WORTH}", ""] if found["synthetic"] else []),
        *table(head, rows),
    ]
    return "\n".join(lines) + "\n"
