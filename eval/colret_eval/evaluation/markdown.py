"""report.md: the report for a terminal, an editor or a code host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colret_eval.evaluation.cells import MAIN, cell, difference_cell, interval_cell, table
from colret_eval.evaluation.markdown_diagnostics import Report, cost, floors, hubs, labels_of, leakage
from colret_eval.explanations import resampling, shipped
from colret_eval.synth import WORTH


def markdown(report: Report) -> str:
    """Return a report as Markdown."""
    index, model = report["index"], report["model"]
    lines = [
        "# Evaluation of page retrieval",
        "",
        f"colret {report['tool_version']}, {report['created']}; model {cell(model['name'])} ({model['dim']} "
        f"dimensions), stored as {index['codec']} with {index['stored_dim']} dimensions, pool {index['pool']}; "
        f"two-stage search by {index['prefilter']} with {index['n_candidates']} candidates.",
        "",
        "In brackets: 95 % bootstrap intervals. Differences are the reference minus the other system on the same "
        "queries; a tie is one whose interval holds 0, or whose p-value, Holm-corrected over the systems, is .05 or "
        "more. Two random orders differ by 0 on average.",
    ]
    for each in report["sets"]:
        lines += ["", *_set(each)]
    return "\n".join(lines) + "\n"


def _set(report: Report) -> Iterator[str]:
    yield f"## {cell(report['name'])}: {report['n_queries']:,} queries, N = {report['n_pages']:,} pages"
    yield ""
    yield from (f"- {cell(sentence)}" for sentence in report["headline"])
    if report["synthetic"]:
        yield from ("", f"**Synthetic labels.** {WORTH}")
    first = next(iter(report["systems"][0]["measures"].values()))
    yield ""
    yield (
        f"{report['n_documents']:,} documents, queries about {report['n_sources']:,} of them; "
        f"{report['n_no_answer']:,} more queries without an answer. {resampling(first, report['n_sources'])}"
    )
    for title, section in (
        ("Systems", _systems),
        ("Further measures", _further),
        ("Both directions", _directions),
        ("Collection size", _sizes),
        ("Where pages are lost", _stages),
        ("Near-duplicates", leakage),
        ("Hubs", hubs),
        ("Score floor", floors),
        ("Cost", cost),
        ("Worst queries", _worst),
        ("The labels", _findings),
    ):
        lines = list(section(report))
        if lines:
            yield from ("", f"### {title}", "", *lines)


def _systems(report: Report) -> Iterator[str]:
    rows = [[cell(s["label"]), *(interval_cell(s["measures"][m]) for m in MAIN), _ranks(s)] for s in _available(report)]
    random = [f"{report['random'][m]:.3f}" for m in MAIN]
    ranks = report["random_ranks"]
    rows.append(["random order", *random, f"{ranks['median']:.0f} / {ranks['mean']:.1f}"])
    yield from table(["system", *MAIN, "rank: median / mean"], rows)
    yield ""
    compared = [s for s in _available(report) if s["differences"]]
    rows = [[cell(s["label"]), *(difference_cell(s["differences"][m]) for m in MAIN)] for s in compared]
    yield from table(["late interaction minus", *MAIN], rows)
    missing = [s for s in report["systems"] if not s["available"]]
    if missing:
        yield ""
        yield from (f"- not available: {cell(s['label'])}: {cell(s['reason'])}" for s in missing)


def _further(report: Report) -> Iterator[str]:
    names = [name for name in report["random"] if name not in MAIN]
    rows = [[cell(s["label"]), *(interval_cell(s["measures"][m]) for m in names)] for s in _available(report)]
    rows.append(["random order", *(f"{report['random'][m]:.3f}" for m in names)])
    yield from table(["system", *names], rows)


def _directions(report: Report) -> Iterator[str]:
    labels = labels_of(report)
    rows = [
        [
            labels[d["system"]],
            d["direction"].replace("_", " "),
            f"{d['n_items']:,} of {d['n_candidates']:,}",
            *(f"{interval_cell(d['success'][k])}; random {d['random'][k]:.3f}" for k in d["success"]),
        ]
        for d in report["directions"]
    ]
    yield "Text to page: which page answers a query. Page to text: which query a page answers. Any of several counts."
    yield ""
    yield from table(["system", "direction", "items among", "R@1", "R@5", "R@10"], rows)


def _sizes(report: Report) -> Iterator[str]:
    found, labels = report["collection_size"], labels_of(report)
    yield (
        "Expected Success@1 in smaller collections, in closed form: distractors drawn at random, or the hardest first "
        "(pages of the same documents)."
    )
    yield ""
    rows = []
    for each in found["systems"]:
        for name in ("random", "hardest"):
            rows.append([labels[each["system"]], name, *(f"{point['mean']:.3f}" for point in each[name])])
    yield from table(["system", "distractors", *(f"{size:,}" for size in found["sizes"])], rows)
    yield ""
    yield from (f"- {labels[each['system']]}: {_half(each['half'])}{_beyond(each)}" for each in found["systems"])


def _half(half: dict[str, Any]) -> str:
    at = f"of what it is among {half['start']} pages ({half['at_start']:.3f})"
    if half["size"] is None:
        return (
            f"Success@1 does not fall to half {at} as far as these data reach, {half['furthest']:,} pages "
            f"({half['at_furthest']:.3f})"
        )
    how = "extrapolated" if half["extrapolated"] else "among the pages that were ranked"
    return f"Success@1 falls to half {at} at {half['size']:,} pages, {how}"


def _beyond(curves: dict[str, Any]) -> str:
    """Return how far the curve of random distractors is extrapolated beyond N, if it is."""
    further = curves["extrapolated"]
    if not further["sizes"]:
        return ""
    return f"; extrapolated to {further['sizes'][-1]:,} pages it is {interval_cell(further['success'][-1])}"


def _stages(report: Report) -> Iterator[str]:
    stages = report["stages"]
    rows = [
        [
            row["name"],
            cell(row["what"]),
            interval_cell(row["kept"]) if row["kept"] else "",
            "" if row["lost"] is None else str(row["lost"]),
            cell(row["note"]),
        ]
        for row in stages["rows"]
    ]
    yield from table(["stage", "what", "kept", "queries lost", "note"], rows)
    yield ""
    yield f"{stages['found']:,} of {stages['n_queries']:,} queries have a right page among the first {stages['k']}."
    yield shipped(report["n_pages"])


def _worst(report: Report) -> Iterator[str]:
    rows = {row["id"]: row for row in report["queries"]}
    head = ["query", "labelled", "rank", "first page returned", "lost at"]
    body = []
    for query_id in report["worst"]:
        row = rows[query_id]
        labelled = ", ".join(f"{cell(page['file'])} {page['page']}" for page in row["relevant"][:3])
        first = f"{cell(row['top'][0]['file'])} {row['top'][0]['page']}" if row["top"] else ""
        rank = row["ranks"][report["reference"]]
        body.append([cell(row["text"]), labelled, rank or "none", first, row["lost_at"] or ""])
    if body:
        yield from table(head, body)


def _findings(report: Report) -> Iterator[str]:
    for finding in report["findings"]:
        yield f"- {finding['level']}: {cell(finding['where'])}: {cell(finding['problem'])}; {cell(finding['remedy'])}"
    for skipped in report["skipped"]:
        page = f" page {skipped['page']}" if skipped["page"] else ""
        yield f"- not indexed: {cell(skipped['file'])}{page}: {cell(skipped['message'])}"


def _available(report: Report) -> list[dict[str, Any]]:
    return [system for system in report["systems"] if system["available"]]


def _ranks(system: dict[str, Any]) -> str:
    ranks = system["ranks"]
    missing = f" ({ranks['n_missing']} not returned)" if ranks["n_missing"] else ""
    return f"{ranks['median']:.0f} / {ranks['mean']:.1f}{missing}"
