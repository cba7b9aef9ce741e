"""Sections of report.md on what may be behind the figures of a set: near-duplicates, hubs, score floors, cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colret_eval.evaluation.cells import MAIN, cell, difference_cell, interval_cell, table
from colret_eval.explanations import conformal, near_duplicates, shipped

Report = dict[str, Any]


def leakage(report: Report) -> Iterator[str]:
    """Yield which pages are nearly one, and every measure with them merged."""
    found = report["leakage"]
    yield f"{found['n_pages_in_groups']} pages in {found['n_groups']} groups. {near_duplicates(found['thresholds'])}"
    if found["n_groups"]:
        yield ""
        for group in found["groups"]:
            pages = ", ".join(f"{cell(page['file'])} {page['page']}" for page in group["pages"][:6])
            more = f" and {len(group['pages']) - 6} more" if len(group["pages"]) > 6 else ""
            yield f"- {pages}{more} ({', '.join(group['how'])}; {group['n_labelled']} labelled)"
        yield ""
        labels = labels_of(report)
        rows = [
            [labels[s["system"]], *(f"{m['with']['mean']:.3f}, merged {interval_cell(m['without'])}" for m in _main(s))]
            for s in found["systems"]
        ]
        chance = (f"{report['random'][m]:.3f}, merged {found['random'][m]:.3f}" for m in MAIN)
        rows.append([f"random order, N = {report['n_pages']:,}, merged {found['n_pages_merged']:,}", *chance])
        yield from table(["system", *MAIN], rows)
    split, n_repeated = found["split"], found["n_repeated_queries"]
    yield ""
    yield (
        f"Pairs of queries that ask the same: {n_repeated:,}. Whatever is fitted keeps queries about one document, "
        f"about near-duplicates or with the same words together: {split['n_groups']} groups, the largest of "
        f"{split['largest']}."
    )


def hubs(report: Report) -> Iterator[str]:
    """Yield which pages turn up where they answer nothing, and whether correcting for it helps."""
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
        rows.append(["random order", f"{report['random']['nDCG@10']:.3f}", ""])
        yield from table(["correction", "nDCG@10", "minus uncorrected"], rows)
    yield from ("", cell(found["note"]))


def floors(report: Report) -> Iterator[str]:
    """Yield how well scores tell queries without an answer, and the floor that can be promised."""
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
                f"Floor on the {chosen['signal']}: {chosen['floor']:.4g}. {conformal(chosen)} It answers "
                f"{chosen['false_answers']:.1%} of {chosen['n_without']} unanswerable queries all the same."
            )
        else:
            yield f"No floor is promised: {cell(kind['note'])}."
        yield ""
    yield cell(report["score_floor"]["note"])


def cost(report: Report) -> Iterator[str]:
    """Yield what the index takes on disk and a search in time."""
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
    yield (
        f"{latency['n_queries']} queries, one at a time; to open the index in a process that runs already, and answer "
        f"the first: {cold:.0f} ms. {shipped(report['n_pages'])}"
    )


def labels_of(report: Report) -> dict[str, str]:
    """Return the systems' labels by id, as cells."""
    return {system["id"]: cell(system["label"]) for system in report["systems"]}


def _main(system: dict[str, Any]) -> list[dict[str, Any]]:
    return [system["measures"][name] for name in MAIN]
