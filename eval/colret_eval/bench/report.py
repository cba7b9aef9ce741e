"""The benchmark's figures as Markdown; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from colret_eval.bench.comparison import SHARES, Row, against, fastest, frontier, named

_FLAT = ("flat", "exact")


def markdown(result: dict[str, Any]) -> str:
    """Return the report of ``result``, as ``bench.json`` holds it."""
    parts = [_head(result), _claims(result)]
    if "kernels" in result:
        parts.append(_kernels(result["kernels"]))
    if "engines" in result:
        parts += [_corpus(corpus, result["engines"]) for corpus in result["corpora"]]
        parts += [_growth(result["engines"]), _versus(result)]
    if "storage" in result:
        parts.append(_storage(result))
    if "comparators" in result:
        parts.append(_comparators(result["comparators"]))
    if "ingest" in result:
        parts.append(_ingest(result["ingest"]))
    if "latency" in result:
        parts += [_batch(result["latency"]), _prefilters(result["latency"])]
    return "\n\n".join(parts) + "\n"


def _claims(result: dict[str, Any]) -> str:
    """The figures that the project promises, each as this run has it."""
    rows = [claim for part in (_kernel_claims, _engine_claims, _storage_claims) for claim in part(result)]
    return "## In short\n\n" + table(["what", "colret", "rival", "ratio"], rows)


def _kernel_claims(result: dict[str, Any]) -> Iterator[list[str]]:
    rates = {
        row["scorer"]: row["pages_per_core_s"] for row in result.get("kernels", {}).get("rows", []) if "rounds" in row
    }
    own = rates.get("colret int8")
    for rival in ("colpali-engine", "maxsim-cpu", "numkong", "numpy"):
        best = max((rate for name, rate in rates.items() if name.startswith(rival)), default=None)
        if own and best:
            what = f"MaxSim, pages/s and core, int8 against {rival}'s best"
            yield [what, f"{own:,.0f}", f"{best:,.0f}", _ratio(own / best)]


def _engine_claims(result: dict[str, Any]) -> Iterator[list[str]]:
    rows = {(row["kind"], row["n_pages"], row["rival"]): row for row in result.get("engines", [])}
    for (kind, n_pages, name), row in rows.items():
        own = rows.get((kind, n_pages, "colret"))
        mine, flat = (named(each, *_FLAT) if each else None for each in (own, row))
        if not _is_ours(row) and mine and flat:
            what = f"exact search, ms, {kind}, {n_pages:,} pages, against {name} flat"
            yield [what, f"{mine['p50_ms']:.1f}", f"{flat['p50_ms']:.1f}", _ratio(flat["p50_ms"] / mine["p50_ms"])]
    for (kind, n_pages, name), row in rows.items():
        ways = [point | {"top10": point["own_top10"]} for point in row["points"] if "own_top10" in point]
        good = fastest([way for way in ways if way["label"] not in _FLAT], 0.99)
        if name == "colret" and good:
            what = f"two-stage ({good['label']}), p50 ms and share of its exact top-10, {kind}, {n_pages:,} pages"
            yield [what, f"{good['p50_ms']:.1f}, {good['top10']:.3f}, {_bytes(good['peak_bytes'])} of memory", "-", "-"]


def _storage_claims(result: dict[str, Any]) -> Iterator[list[str]]:
    for row in result.get("storage", []):
        if row["pool"] == 1 and row["dim"] == result["real"]["dim"]:
            yield [f"float32 top-10 kept by {row['codec']}, real vectors", f"{row['top10']:.4f}", "-", "-"]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; numbers are aligned to the right by their column's first row."""
    cells = [[str(cell) for cell in row] for row in rows]
    numeric = [all(_is_number(row[i]) for row in cells if row[i] != "-") for i in range(len(head))]
    rule = ["---:" if each else "---" for each in numeric]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(head), rule, *cells])


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("x", "").replace("%", "").strip().lstrip("+-").isdigit()


def _head(result: dict[str, Any]) -> str:
    machine, real = result["machine"], result["real"]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    load = ", ".join(f"{each:.1f}" for each in machine["load"])
    return "\n".join(
        [
            "# Benchmark",
            "",
            f"{machine['processor']} ({', '.join(machine['instructions'])}), {machine['cores']} cores, "
            f"{machine['memory_bytes'] / 2**30:.0f} GiB, {machine['system']}, Python {machine['python']}; "
            f"load before the run {load}; {result.get('minutes', 0):.0f} minutes.",
            f"{versions}.",
            "",
            f"**Real vectors** ({real['source']}: {real['n_pages']:,} pages, {real['n_vectors']:,} vectors of "
            f"{real['dim']} dimensions, {real['n_queries']} questions, by the embedded encoder): storage, prefilters, "
            "latency of a batch. **Synthetic pages** of 1,030 x 128, runs of those vectors projected and blurred: "
            "kernels and engines. Queries of those are 24 vectors of real questions, put one after the other where "
            "one has fewer. Shares are of the exact float32 top-k; times are of one query at a time, warm, on all "
            "cores; p50 and p95 are wall-clock time, CPU the median of all threads' time.",
        ]
    )


def _kernels(kernels: dict[str, Any]) -> str:
    rows = [
        [row["scorer"], *_shares(row), f"{row['pages_per_core_s']:,.0f}", _ratio(row.get("to_best_rival"))]
        if "rounds" in row
        else [row["scorer"], row["status"], "-", "-", "-", "-"]
        for row in kernels["rows"]
    ]
    head = ["MaxSim, one core", "top-1", "top-5", "top-10", "pages/s", "of the best exact rival"]
    return f"## Kernels: {kernels['n_pages']} pages in memory, interleaved rounds, medians\n\n" + table(head, rows)


def _corpus(corpus: Row, engines: Sequence[Row]) -> str:
    mine = _on(corpus, engines)
    title = (
        f"## {corpus['kind']}, {corpus['n_pages']:,} synthetic pages\n\n"
        f"In the median, rank 1 is {corpus['spread']:.3f} above rank 10 in MaxSim, and rank 10 "
        f"{corpus['gap']:.4f} above rank 11."
    )
    return "\n\n".join([title, _builds(mine), _equal_shares(mine), _points(mine)])


def _builds(engines: Sequence[Row]) -> str:
    rows = [
        [
            row["rival"],
            row["version"] or "-",
            *(
                [f"{row['write_s']:.1f}", f"{row['index_s']:.1f}", _bytes(row["bytes"] / row["n_pages"])]
                if _built(row)
                else "---"
            ),
            _bytes(row["build_peak_bytes"]) if _built(row) else "-",
            _bytes(max(point["peak_bytes"] for point in row["points"])) if row["points"] else "-",
            row["status"],
        ]
        for row in engines
    ]
    head = ["engine", "version", "write, s", "index, s", "bytes a page", "memory, build", "memory, search", "status"]
    return table(head, rows)


def _equal_shares(engines: Sequence[Row]) -> str:
    rows = []
    for row in engines:
        if row["points"]:
            best = [fastest(row["points"], share) for share in SHARES]
            rows.append([row["rival"], *(f"{point['p50_ms']:.1f}" if point else "-" for point in best)])
    return "Fastest p50, ms, that keeps at least so much of the exact top-10:\n\n" + table(
        ["engine", *(f"{100 * share:.0f} %" for share in SHARES)], rows
    )


def _points(engines: Sequence[Row]) -> str:
    rows = [
        [row["rival"], point["label"], point["n_queries"], *_shares(point), _own(point), *_times(point)]
        for row in engines
        for point in _shown(row["points"])
    ]
    head = ["engine", "search", "queries", "top-1", "top-5", "top-10", "of its own", "p50 ms", "p95 ms", "CPU ms"]
    note = (
        "What no other setting of the engine beats in both (all are in bench.json), and flat search. *Of its own* is "
        "the share of the top-10 of exact search over the same index, which leaves out what its codec loses."
    )
    return f"{note}\n\n{table(head, rows)}"


def _own(point: Row) -> str:
    return f"{point['own_top10']:.3f}" if "own_top10" in point else "-"


def _shown(points: Sequence[Row]) -> list[Row]:
    best = frontier(points)
    return [point for point in points if point["label"] in _FLAT and point not in best] + best


def _growth(engines: Sequence[Row]) -> str:
    sizes = sorted({row["n_pages"] for row in engines})
    rows = []
    for kind, name in dict.fromkeys((row["kind"], row["rival"]) for row in engines):
        found = {row["n_pages"]: row for row in engines if (row["kind"], row["rival"]) == (kind, name)}
        for what in ("flat", "99 %"):
            points = [_grown(found.get(size), what) for size in sizes]
            if any(points):
                rows.append([name, kind, what, *(f"{point['p50_ms']:.1f}" if point else "-" for point in points)])
    head = ["engine", "corpus", "search", *(f"{size:,} pages" for size in sizes)]
    note = "p50, ms: flat search, and the fastest that keeps 99 % of the exact top-10."
    return f"## How cost grows\n\n{note}\n\n" + table(head, rows)


def _grown(row: Row | None, what: str) -> Row | None:
    if row is None:
        return None
    return named(row, *_FLAT) if what == "flat" else fastest(row["points"], 0.99)


def _versus(result: dict[str, Any]) -> str:
    rows = []
    for corpus in result["corpora"]:
        engines = _on(corpus, result["engines"])
        ours = [_under_its_name(row, point) for row in engines if _is_ours(row) for point in row["points"]]
        for row in engines:
            pairs = [] if _is_ours(row) else against(ours, row["points"])
            for own, point in pairs:
                name = f"{corpus['kind']}, {corpus['n_pages']:,}"
                theirs = [row["rival"], point["label"], f"{point['top10']:.3f}"]
                mine = [own["label"], _ratio(point["p50_ms"] / own["p50_ms"])] if own else ["never reaches it", "-"]
                rows.append([name, *theirs, *mine])
    head = ["corpus", "rival", "its search", "its top-10", "colret at no less", "times faster"]
    title = "## colret at equal share of the exact top-10"
    return f"{title}\n\n{table(head, rows) if rows else 'No rival was measured.'}"


def _on(corpus: Row, engines: Sequence[Row]) -> list[Row]:
    return [row for row in engines if (row["kind"], row["n_pages"]) == (corpus["kind"], corpus["n_pages"])]


def _is_ours(row: Row) -> bool:
    return str(row["rival"]).startswith("colret")


def _under_its_name(row: Row, point: Row) -> Row:
    return point | {"label": f"{row['rival']}: {point['label']}"}


def _storage(result: dict[str, Any]) -> str:
    labelled = "nDCG@10" in result["storage"][0]
    rows: list[list[object]] = [
        ["float32, not stored", 1, result["real"]["dim"], "-", "-", "-", "1.000", "1.000", "1.000"]
        + ([f"{100 * result['float32']['nDCG@10']:.1f}", "-"] if labelled else [])
    ]
    for row in result["storage"]:
        sizes = [row["bytes_a_page_predicted"], row["bytes_a_page"]]
        rows.append(
            [row["codec"], row["pool"], row["dim"], f"{row['vectors_a_page']:.0f}", *map(_bytes, sizes), *_shares(row)]
            + ([f"{100 * row['nDCG@10']:.1f}", _difference(row)] if labelled else [])
        )
    head = ["codec", "pool", "dimensions", "vectors a page", "bytes a page, predicted", "read from disk"]
    head += ["top-1", "top-5", "top-10", *(["nDCG@10", "less float32's, 95 %"] if labelled else [])]
    note = (
        f"{result['real']['n_pages']:,} real pages. Bytes are a page's codes, the box of each vector (8 bytes) and its "
        "mean vector; words are not stored here. Shares are of the float32 top-k, exact search."
    )
    return f"## Bytes and what they keep\n\n{note}\n\n" + table(head, rows)


def _difference(row: Row) -> str:
    mean, low, high = (100 * each for each in row["difference"])
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def _comparators(rows: Sequence[Row]) -> str:
    sizes = list(rows[0]["kept"])
    note = (
        "Shares of float32's exact top-1 / top-5 / top-10 within the first C pages, if they were ranked so. "
        "Neither MUVERA nor Ward's clusters are prefilters of colret; the others are, with the index's own codes."
    )
    cells = [
        [row["comparator"], _bytes(row["bytes_a_page"])]
        + [" / ".join(f"{row['kept'][size][f'top{k}']:.3f}" for k in (1, 5, 10)) for size in sizes]
        for row in rows
    ]
    head = ["ranked by", "bytes a page", *(f"C = {size}" for size in sizes)]
    return f"## Other prefilters, on real vectors\n\n{note}\n\n" + table(head, cells)


def _batch(latency: dict[str, Any]) -> str:
    stages = ("encode", "prefilter", "fetch", "rescore", "total")
    rows = [[name, *(f"{row[f'{stage}_ms']:.2f}" for stage in stages)] for name, row in latency["batch"].items()]
    title = f"## A warm batch of {latency['n_queries']} queries over {latency['n_pages']:,} real pages"
    return f"{title}\n\nMilliseconds a query, {latency['codec']}.\n\n" + table(["prefilter", *stages], rows)


def _prefilters(latency: dict[str, Any]) -> str:
    title = f"## Prefilters over {latency['n_pages']:,} real pages, all questions, one at a time"
    note = f"Shares are of exact search over the same index, {latency['codec']}."
    return f"{title}\n\n{note}\n\n{prefilter_table(latency['prefilters'])}"


def _ingest(rows: Sequence[Row]) -> str:
    head = ["documents", "model", "way", "pages", "by OCR", "pages/s", "of the loop", "peak memory", "same vectors"]
    cells = [
        [
            *(row[name] for name in ("documents", "model", "way", "n_pages", "n_ocr")),
            *(f"{row['pages_per_s']:.2f}", _ratio(row["to_loop"]), _bytes(row["peak_bytes"])),
            f"{row['same_vectors']:.3f}",
        ]
        for row in rows
    ]
    return (
        f"## Ingest, medians of {len(rows[0]['seconds'])} rounds in turn\n\n"
        "The loop takes one page at a time in one process. Loading a model is not counted; peak memory is that of all "
        "processes together.\n\n" + table(head, cells)
    )


def prefilter_table(rows: Sequence[Row]) -> str:
    """Return the rows of ``prefilters.measure_prefilters`` as a Markdown table."""
    head = ["prefilter", "C", "top-1", "top-5", "top-10", "p50 ms", "p95 ms", "CPU ms"]
    return table(head, [[row["prefilter"], row["n_candidates"], *_shares(row), *_times(row)] for row in rows])


def _built(row: Row) -> bool:
    return "bytes" in row


def _shares(row: Row) -> list[str]:
    return [f"{row[f'top{k}']:.3f}" for k in (1, 5, 10)]


def _times(row: Row) -> list[str]:
    return [f"{row[name]:.1f}" for name in ("p50_ms", "p95_ms", "cpu_ms")]


def _ratio(value: float | None) -> str:
    return f"{value:.2f}x" if value is not None else "-"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"
