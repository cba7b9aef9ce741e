"""``python -m colret_eval.bench``: everything in one run; see ``colret_eval.bench``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import colret_eval.bench
from colret.errors import ColretError
from colret_eval.bench import comparators, engines, ingest, kernels, latency, machine, plots, report, storage
from colret_eval.bench.corpora import Kind, corpus, load_queries, prepare
from colret_eval.bench.real import RealVectors, real_vectors
from colret_eval.bench.reference import Reference, references
from colret_eval.bench.rivals import RIVALS
from colret_eval.bench.scorers import SCORERS

PARTS = ("kernels", "storage", "comparators", "latency", "engines")  # what is measured unless told otherwise
INGEST = "ingest"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the report; return the exit status."""
    options = _parser().parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        work = options.workdir or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        try:
            real = real_vectors(work, options.data, Path("examples"))
            _run(real, work, options)
        except ColretError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    described = (colret_eval.bench.__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m colret_eval.bench", description=described)
    add = parser.add_argument
    add("--data", nargs="+", type=Path, default=[], metavar="FOLDER", help="labelled sets; without, examples/")
    add("--sizes", type=_numbers, default=[1000, 10_000], metavar="N,...", help="pages of the separated corpora")
    add("--near-tie", type=_numbers, default=[1000], metavar="N,...", help="pages of the near-tie corpora; 0: none")
    add("--large", type=_positive, metavar="N", help="one more size of the separated corpus")
    add("--rivals", type=_among(RIVALS), default=list(RIVALS), metavar="NAME,...", help=", ".join(RIVALS))
    add("--scorers", type=_among(SCORERS), default=list(SCORERS), metavar="NAME,...", help=", ".join(SCORERS))
    parts = (*PARTS, INGEST)
    add("--parts", type=_among(parts), default=list(PARTS), metavar="PART,...", help=f"{', '.join(PARTS)}; {INGEST}")
    add("--queries", type=_positive, default=24, metavar="Q", help="of each corpus (default 24)")
    add("--kernel-pages", type=_positive, default=250, metavar="N", help="in memory, for kernels (default 250)")
    add("--rounds", type=_positive, default=15, help="of each kernel (default 15)")
    add("--limit-minutes", type=float, default=5.0, metavar="M", help="for an engine to build, and again to search")
    add("--variant-seconds", type=float, default=8.0, metavar="S", help="for the queries of one way to search")
    add("--ingest-models", type=_names, default=["embedded"], metavar="MODEL,...", help="to ingest with")
    add("--ingest-pages", type=_positive, default=150, metavar="N", help="born-digital ones to ingest (default 150)")
    add("--ingest-scans", type=_positive, default=12, metavar="N", help="scanned pages to ingest (default 12)")
    add("--ingest-rounds", type=_positive, default=3, help="of each way to ingest (default 3)")
    add("--out", type=Path, default=Path("bench"), metavar="FOLDER", help="of the report (default bench)")
    add("--workdir", type=Path, metavar="FOLDER", help="for scratch; real vectors found there are used again")
    return parser


def _run(real: RealVectors, work: Path, options: argparse.Namespace) -> None:
    result: dict[str, Any] = {
        "machine": machine.facts(),
        "versions": machine.versions(),
        "real": {"source": real.source, "n_pages": real.n_pages, "n_queries": len(real.texts)}
        | {"n_vectors": len(real.pages), "dim": real.pages.shape[1], "encode_s": real.seconds},
    }
    started = time.monotonic()
    prepare(work, real.pages, real.offsets, real.queries, options.queries)
    for figures in _figures(real, work, options):
        result |= figures
        result["minutes"] = (time.monotonic() - started) / 60
        _write(result, options.out)  # each time: a run that is stopped leaves what it has
    problem = plots.draw(result, options.out)
    _say(f"wrote bench.md, bench.json{f', no plots: {problem}' if problem else ' and plots'} to {options.out}")


def _figures(real: RealVectors, work: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the figures of each part as they are measured."""
    if "kernels" in options.parts:
        _say("kernels")
        exact = _references(work, "separated", [options.kernel_pages])[options.kernel_pages]
        rows = kernels.measure(work, exact, options.kernel_pages, options.rounds, options.scorers)
        yield {"kernels": {"n_pages": options.kernel_pages, "rows": rows}}
    if "storage" in options.parts:
        exact = storage.exact_reference(real)
        stored = [_storing(real, exact, storing, work) for storing in storage.STORINGS]
        yield {"float32": storage.quality(real, exact.ids.tolist()), "storage": stored}
    if "comparators" in options.parts:
        _say("comparators of the prefilters")
        yield {"comparators": comparators.measure(real, storage.exact_reference(real))}
    if "latency" in options.parts:
        _say("latency on the real index")
        yield {"latency": latency.measure(real, work)}
    if INGEST in options.parts:
        _say("ingest beside a straight loop")
        folders = options.data or [Path("examples")]
        sizes = {"n_pages": options.ingest_pages, "n_scans": options.ingest_scans, "rounds": options.ingest_rounds}
        yield {"ingest": ingest.measure(folders, options.ingest_models, work, **sizes)}
    if "engines" in options.parts:
        yield from _engines(work, options)


def _storing(real: RealVectors, exact: Reference, storing: storage.Storing, work: Path) -> dict[str, Any]:
    _say(f"storage: {storing.codec}, pool {storing.pool}, {storing.dim or 'all'} dimensions")
    return storage.measure(real, exact, storing, work)


def _engines(work: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    limits = engines.Limits(options.limit_minutes, options.variant_seconds)
    corpora: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for kind, sizes in _sizes(options).items():
        _say(f"{kind}: exact ranking of {max(sizes):,} pages")
        exact = _references(work, kind, sizes)
        for size in sizes:
            corpora.append({"kind": kind, "n_pages": size, "gap": exact[size].gap(), "spread": exact[size].spread()})
            for name in options.rivals:
                _say(f"{kind}, {size:,} pages: {name}")
                rows.append(engines.measure(name, kind, size, exact[size], work, limits))
                yield {"corpora": corpora, "engines": rows}


def _sizes(options: argparse.Namespace) -> dict[Kind, list[int]]:
    wanted: dict[Kind, list[int]] = {"separated": [*options.sizes, options.large or 0], "near-tie": options.near_tie}
    sizes = {kind: sorted({size for size in each if size}) for kind, each in wanted.items()}
    return {kind: each for kind, each in sizes.items() if each}


def _references(work: Path, kind: Kind, sizes: Sequence[int]) -> dict[int, Reference]:
    return references(corpus(work, kind), load_queries(work), sizes)


def _write(result: dict[str, Any], folder: Path) -> None:
    (folder / "bench.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "bench.md").write_text(report.markdown(result))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _numbers(text: str) -> list[int]:
    """Return the numbers of a list with commas or spaces between."""
    parts = text.replace("_", "").replace(",", " ").split()
    if not parts or not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers of pages")
    return [int(part) for part in parts]


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _names(text: str) -> list[str]:
    """Return the parts of a list with commas between."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _among(known: Collection[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = _names(text)
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"no such {', '.join(unknown)}: there are {', '.join(known)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())
