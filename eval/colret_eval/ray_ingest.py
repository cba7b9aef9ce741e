"""What Ray costs on one machine: the same folders ingested with it and without, in turn, in one run.

    python -m colret_eval.ray_ingest FOLDER... [--model NAME] [--encoders N] [--rounds N] [--ray ADDRESS]

Ray, the encoder on it and the encoder of this process are there before the clock starts, and one
round of each comes before those that count, as in a long ingest. How long the start took is told.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from colret.encoders import Encoder, load_encoder
from colret.errors import ColretError
from colret.fleet import Fleet
from colret.ingest import Engine, ingest
from colret.settings import settings_for
from colret.store import PageStore
from colret_eval.bench.ingest_worker import pages_of


class Run(NamedTuple):
    """One ingest."""

    rate: float  # pages a second
    cpu: float  # seconds of processor time a page, of all processes
    pages: dict[str, bytes]


def measure(folders: Sequence[Path], index: Path, encoder: Encoder, engine: Engine | None) -> Run:
    """Ingest into a new index."""
    store = PageStore.create(index, settings_for(encoder.info))
    started, cpu = time.perf_counter(), cpu_seconds(below=engine is not None)
    report = ingest(folders, store, encoder, engine=engine)
    seconds, cpu = time.perf_counter() - started, cpu_seconds(below=engine is not None) - cpu
    return Run(report.n_pages / seconds, cpu / report.n_pages, pages_of(store))


def cpu_seconds(*, below: bool) -> float:
    """Return the processor time of this process and those below it that have ended, or of all below it.

    Ray's processes live on while this one ingests alone, and are not counted then.
    """
    own = psutil.Process()
    total = 0.0
    for process in [own, *(own.children(recursive=True) if below else [])]:
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def compare(folders: Sequence[Path], fleet: Fleet, model: str, rounds: int) -> str:
    """Return a line on how the two ways compare.

    Raises:
        ColretError: If a model, an index or the cluster cannot be had.
    """
    started = time.perf_counter()
    remote = fleet.load_encoder(model, device="cpu")
    start = time.perf_counter() - started
    local = load_encoder(model, device="cpu")
    alone: list[Run] = []
    together: list[Run] = []
    for _ in range(1 + rounds):
        with tempfile.TemporaryDirectory() as folder:
            alone.append(measure(folders, Path(folder) / "alone", local, None))
            together.append(measure(folders, Path(folder) / "together", remote, fleet))
    same = alone[0].pages == together[0].pages
    del alone[0], together[0]
    rates = [statistics.median(run.rate for run in runs) for runs in (alone, together)]
    cpu = [statistics.median(run.cpu for run in runs) for runs in (alone, together)]
    ratios = [b.rate / a.rate for a, b in zip(alone, together, strict=True)]
    each = " ".join(f"{ratio:.2f}" for ratio in ratios)
    return (
        f"{len(alone[0].pages)} pages, {rounds} rounds: {rates[0]:.2f} pages/s without Ray, {rates[1]:.2f} with it, "
        f"ratio {statistics.median(ratios):.2f} (median of {each}); {cpu[0]:.3f} and {cpu[1]:.3f} CPU-s a page; "
        f"the same pages: {same}; Ray and its encoder took {start:.0f} s to start"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line on the folders named in ``arguments``; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m colret_eval.ray_ingest", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--encoders", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray", metavar="ADDRESS", help="a cluster; by default this machine's own")
    options = parser.parse_args(arguments)
    try:
        with Fleet(options.ray, n_encoders=options.encoders) as fleet:
            print(compare(options.folders, fleet, options.model, options.rounds), flush=True)
    except ColretError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
