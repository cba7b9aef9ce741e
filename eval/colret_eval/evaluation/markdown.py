"""report.md: the report for a terminal, an editor or a code host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from colret_eval.evaluation.cells import cell, difference_cell, interval_cell, table

MAIN: Final = ("Success@1", "Success@5", "Recall@10", "nDCG@10", "MRR@10")
"""Measures of the first table; the others have one of their own."""

UNITS: Final = {
    "documents": "whole documents with their queries",
    "queries": "single queries, the documents being too few: they speak of more queries about these very documents",
}

Report = dict[str, Any]


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
        "more.",
    ]
    for each in report["sets"]:
        lines += ["", *_set(each)]
    return "\n".join(lines) + "\n"


def _set(report: Report) -> Iterator[str]:
    yield f"## {cell(report['name'])}: {report['n_queries']:,} queries, N = {report['n_pages']:,} pages"
    yield ""
    yield from (f"- {cell(sentence)}" for sentence in report["headline"])
    unit = next(iter(report["systems"][0]["measures"].values()))["unit"]
    yield ""
    yield (
        f"{report['n_documents']:,} documents, queries about {report['n_sources']:,} of them; "
        f"{report['n_no_answer']:,} more queries without an answer. Intervals resample {UNITS[unit]}."
    )
    for title, section in (
        ("Systems", _systems),
        ("Further measures", _further),
        ("Both directions", _directions),
        ("Collection size", _sizes),
        ("Where pages are lost", _stages),
        ("Near-duplicates", _leakage),
        ("Hubs", _hubs),
        ("Score floor", _floors),
        ("Cost", _cost),
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
    labels = _labels(report)
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
    found, labels = report["collection_size"], _labels(report)
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
    yield from (f"- {labels[each['system']]}: {_half(each['half'])}" for each in found["systems"])


def _half(half: dict[str, Any]) -> str:
    at = f"of what it is among {half['start']} pages ({half['at_start']:.3f})"
    if half["size"] is None:
        return (
            f"Success@1 does not fall to half {at} as far as these data reach, {half['furthest']:,} pages "
            f"({half['at_furthest']:.3f})"
        )
    how = "extrapolated" if half["extrapolated"] else "among the pages that were ranked"
    return f"Success@1 falls to half {at} at {half['size']:,} pages, {how}"


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


def _leakage(report: Report) -> Iterator[str]:
    found = report["leakage"]
    limits = found["thresholds"]
    yield (
        f"{found['n_pages_in_groups']} pages in {found['n_groups']} groups: the same words, mean vectors with a "
        f"cosine of at least {limits['cosine']}, or of {limits['image_cosine']} and images whose hashes differ in "
        f"at most {limits['hash_bits']} of 64 bits."
    )
    if found["n_groups"]:
        yield ""
        for group in found["groups"]:
            pages = ", ".join(f"{cell(page['file'])} {page['page']}" for page in group["pages"][:6])
            more = f" and {len(group['pages']) - 6} more" if len(group["pages"]) > 6 else ""
            yield f"- {pages}{more} ({', '.join(group['how'])}; {group['n_labelled']} labelled)"
        yield ""
        labels = _labels(report)
        rows = [
            [labels[s["system"]], *(f"{m['with']['mean']:.3f}, merged {interval_cell(m['without'])}" for m in _main(s))]
            for s in found["systems"]
        ]
        yield from table(["system", *MAIN], rows)
    split = found["split"]
    yield ""
    yield (
        f"{found['n_repeated_queries']} pairs of queries ask the same. Whatever is fitted keeps queries about one "
        f"document, about near-duplicates or with the same words together: {split['n_groups']} groups, the largest of "
        f"{split['largest']}."
    )


def _main(system: dict[str, Any]) -> list[dict[str, Any]]:
    return [system["measures"][name] for name in MAIN]


def _hubs(report: Report) -> Iterator[str]:
    found = report["hubness"]
    yield (
        f"Skewness of how often a page is among the first {found['k']}: {found['skewness']:.2f} (by chance "
        f"{found['chance_skewness']:.2f}); pages that never are: {found['orphans']:.1%} (by chance "
        f"{found['chance_orphans']:.1%})."
    )
    if found["length_correlation"] is not None:
        yield f"Rank correlation of a page's mean score with its number of vectors: {found['length_correlation']:.2f}."
    yield ""
    rows = [[cell(h["file"]), h["page"], h["occurrences"], h["wrong"], h["n_vectors"]] for h in found["hubs"][:5]]
    yield from table(["largest hubs", "page", f"times among the first {found['k']}", "wrong", "vectors"], rows)
    if found["corrections"]:
        yield ""
        rows = [
            [c["name"], interval_cell(c["corrected"]), difference_cell(c["difference"])] for c in found["corrections"]
        ]
        yield from table(["correction", "nDCG@10", "minus uncorrected"], rows)
    yield from ("", cell(found["note"]))


def _floors(report: Report) -> Iterator[str]:
    for kind in report["score_floor"]["kinds"]:
        yield f"**{kind['kind']}**: {kind['what']} ({kind['n_without']:,}, beside {kind['n_with']:,} with an answer)."
        yield ""
        rows = [
            [
                s["signal"],
                f"{s['auroc']['mean']:.3f} [{s['auroc']['low']:.3f}, {s['auroc']['high']:.3f}]",
                f"{s['false_answers']:.1%}",
            ]
            for s in kind["signals"]
        ]
        yield from table(["signal", "AUROC", "false answers at 95 % answered"], rows)
        yield ""
        chosen = kind["chosen"]
        if chosen:
            yield (
                f"Floor on the {chosen['signal']}: {chosen['floor']:.4g} answers at least {chosen['guarantee']:.1%} of "
                f"new answerable queries like these {chosen['n_queries']} (with 95 % confidence "
                f"{chosen['probable']:.1%}), and {chosen['false_answers']:.1%} of {chosen['n_without']} unanswerable "
                "ones."
            )
        else:
            yield f"No floor is promised: {cell(kind['note'])}."
        yield ""
    yield cell(report["score_floor"]["note"])


def _cost(report: Report) -> Iterator[str]:
    cost = report["cost"]
    found, latency, ingest = cost["bytes"], cost["latency"], cost["ingest"]
    names = {
        "on_disk_per_page": "the whole index on disk",
        "pages_table_per_page": "of it the pages table",
        "side_files_per_page": "of it sign bits for the prefilter",
        "predicted_vectors_per_page": "vectors and boxes, as predicted",
        "predicted_float32_per_page": "vectors in float32, 4 P D",
        "single_vector_per_page": "one single vector in float32",
    }
    yield from table(["a page", "bytes"], [[name, f"{found[key]:,.0f}"] for key, name in names.items()])
    yield ""
    ratio = found["ratio_to_single"]
    yield f"{found['vectors_per_page']:,.0f} vectors a page, {ratio:.1f} times the bytes of a single vector."
    rate = ingest["pages_per_second"]
    measured = f"{rate:.1f} pages/s ({cell(ingest['note'])})" if rate else cell(ingest["note"])
    yield f"Ingest: {measured}. Indexes over words and signs: {cost['index_seconds']:.2f} s."
    yield ""
    two, exact = ({s["stage"]: s for s in latency[name]} for name in ("stages", "exact"))
    rows = [[stage, *(f"{row[stage][p]:.1f}" for row in (two, exact) for p in ("p50_ms", "p95_ms"))] for stage in two]
    yield from table(["ms a query", "two-stage p50", "p95", "exact p50", "p95"], rows)
    yield ""
    cold = latency["cold_first_ms"]
    yield f"{latency['n_queries']} queries, one at a time; to open the index and answer the first: {cold:.0f} ms."


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


def _labels(report: Report) -> dict[str, str]:
    return {system["id"]: cell(system["label"]) for system in report["systems"]}


def _ranks(system: dict[str, Any]) -> str:
    ranks = system["ranks"]
    missing = f" ({ranks['n_missing']} not returned)" if ranks["n_missing"] else ""
    return f"{ranks['median']:.0f} / {ranks['mean']:.1f}{missing}"
