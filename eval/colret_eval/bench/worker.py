"""A process of the benchmark: ``python -m colret_eval.bench.worker JOB``, JOB being a file of JSON.

One process builds an engine, another searches it, so that memory is each step's own. Results
go to a file, as engines may print; it is rewritten after each variant, so that what was
measured before a time limit stays.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from colret.index_folder import bytes_below
from colret.types import Float32
from colret_eval.bench.clock import Elapsed, Stopwatch, TimedIterator, milliseconds, peak_memory
from colret_eval.bench.corpora import Kind, corpus, load_queries
from colret_eval.bench.reference import DEPTH
from colret_eval.bench.rivals import Rival, TellsExact, Variant, load_rival

LEAST_QUERIES = 3


@dataclass(frozen=True)
class Job:
    """What a process is to do."""

    rival: str
    folder: str  # of the engine
    work: str  # where the corpora are
    kind: Kind
    n_pages: int
    result: str  # file
    seconds: float = 10.0  # for the queries of one variant, of which LEAST_QUERIES are asked anyway
    variants: list[Variant] = field(default_factory=list)  # to search by; none: build


def build(job: Job) -> dict[str, Any]:
    """Build the engine of a job; return the seconds, bytes and memory it took."""
    rival = load_rival(job.rival, Path(job.folder))
    pages = TimedIterator(corpus(Path(job.work), job.kind).pages(job.n_pages))
    watch = Stopwatch()
    rival.build(pages, job.n_pages)
    written = watch.elapsed().wall - pages.wall
    bytes_written = bytes_below(Path(job.folder))
    watch = Stopwatch()
    rival.index()
    return {
        "write_s": written,
        "index_s": watch.elapsed().wall,
        "bytes_written": bytes_written,
        "bytes": bytes_below(Path(job.folder)),
        "build_peak_bytes": peak_memory(),
        "variants": rival.variants(job.n_pages),
    }


def search(job: Job, save: Callable[[list[dict[str, Any]]], None]) -> None:
    """Measure each variant of a job, handing what is known to ``save`` after each."""
    rival = load_rival(job.rival, Path(job.folder))
    rival.open()
    queries = load_queries(Path(job.work))
    own = rival.exact_answers(queries) if isinstance(rival, TellsExact) else None
    points: list[dict[str, Any]] = []
    for variant in job.variants:
        ask = functools.partial(_ask, rival, variant)
        found, times = answers(ask, queries, job.seconds)
        figures = {**milliseconds(times), **rival.stages(), "peak_bytes": peak_memory()}
        points.append({"label": variant.label, "found": found, "own": own, **figures})
        save(points)


def _ask(rival: Rival, variant: Variant, query: Float32) -> list[int]:
    return rival.search(query, DEPTH, **variant.parameters)


def answers(
    ask: Callable[[Float32], list[int]], queries: Float32, seconds: float
) -> tuple[list[list[int]], list[Elapsed]]:
    """Ask queries one at a time, after one to warm up, until ``seconds`` have passed."""
    whole = Stopwatch()
    ask(queries[0])
    found, times = [], []
    for query in queries:
        watch = Stopwatch()
        found.append(ask(query))
        times.append(watch.elapsed())
        if whole.elapsed().wall > seconds and len(found) >= LEAST_QUERIES:
            break
    return found, times


def main(arguments: list[str]) -> int:
    """Do the job in the file named in ``arguments``."""
    told = json.loads(Path(arguments[0]).read_text())
    job = Job(**{**told, "variants": [Variant(*each) for each in told["variants"]]})

    def save(result: object) -> None:
        Path(job.result).write_text(json.dumps(result))

    if job.variants:
        search(job, save)
    else:
        save(build(job))
    return 0


def write_job(job: Job, path: Path) -> None:
    """Write a job for ``main``."""
    path.write_text(json.dumps(asdict(job)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
