"""What an index costs that is in an object store, beside the same one in a folder.

    python -m colret_eval.object_store [--pages N] [--delay MS] [--repeat N]

The store is moto's S3 server in this process (``pip install colret[dev]``), which counts requests
and answers each after a delay, as one at a distance does. Round trips are how many delays a step
waits for: requests made together count once. Pages are of random vectors, 560 of 384 dimensions
in int4, so their bytes are those of real ones.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from colret.cache_folder import FOLDER as CACHE_FOLDER
from colret.errors import ColretError
from colret.location import Location
from colret.object_storage import open_prefix
from colret.page_cache import FOLDER as CODES
from colret.scoring import normalize_rows
from colret.search import rank
from colret.signatures import open_signatures
from colret.store import PageStore
from colret.types import WHOLE_PAGE, EncoderInfo, Float32, PageEmbedding, QueryEmbedding
from colret_eval.bench.indexes import as_query, write_index
from colret_eval.counting_server import BUCKET, CountingServer, s3_server

CANDIDATES: Final = 100

_VECTORS, _DIM, _TOKENS = 560, 384, 12


class Cost(NamedTuple):
    """What a step takes."""

    step: str
    folder_ms: float
    n_requests: int
    n_round_trips: float
    ms: float  # with a server that answers at once
    delayed_ms: float


def measure(n_pages: int, delay: float, repeat: int) -> list[Cost]:
    """Return what each step of a search costs, the median of ``repeat`` times.

    Args:
        n_pages: Pages of the index.
        delay: Seconds, of each request in the last column.
        repeat: How often each is done.
    """
    rng = np.random.default_rng(0)
    query = as_query(_unit(rng, _TOKENS))
    with (
        tempfile.TemporaryDirectory(prefix="colret-object-store-") as name,
        _copies_in(Path(name) / "cache"),
        s3_server() as (server, options),
    ):
        folder = Path(name) / "index"
        info = EncoderInfo("random", "text", "1", _DIM, "{}", "words", 0)
        write_index(folder, _pages(rng), n_pages, info, "int4")
        place = Location.of(f"s3://{BUCKET}/index", options)
        copy_up(folder, place)
        names = [step.name for step in _steps(PageStore.open(folder), query)]
        local = _seconds(Location.of(folder), query, repeat)
        near = _seconds(place, query, repeat, server)
        server.delay = delay
        far = _seconds(place, query, repeat)
    return [
        Cost(step, at_home[0] * 1000, int(here[1]), (there[0] - here[0]) / delay, here[0] * 1000, there[0] * 1000)
        for step, at_home, here, there in zip(names, local, near, far, strict=True)
    ]


@contextmanager
def _copies_in(folder: Path) -> Iterator[None]:
    """Keep copies in a folder meanwhile."""
    before = os.environ.get(CACHE_FOLDER)
    os.environ[CACHE_FOLDER] = str(folder)
    try:
        yield
    finally:
        del os.environ[CACHE_FOLDER]
        if before is not None:
            os.environ[CACHE_FOLDER] = before


def copy_up(folder: Path, place: Location) -> None:
    """Copy an index in a folder into an object store: it is one there too."""
    objects = open_prefix(place.address, place.options)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            objects.put(file.relative_to(folder).as_posix(), file)


class _Step(NamedTuple):
    name: str
    before: Callable[[], object]
    run: Callable[[], object]


def _steps(store: PageStore, query: QueryEmbedding) -> list[_Step]:
    chosen = np.random.default_rng(1).permutation(store.n_pages())[:CANDIDATES]

    def forget_codes() -> None:
        shutil.rmtree(store.side_files / CODES, ignore_errors=True)

    def forget_all() -> None:
        if store.location.folder is None:
            shutil.rmtree(store.side_files, ignore_errors=True)

    def nothing() -> None:
        pass

    def answer() -> object:
        store.refresh()
        return rank(store, [query], prefilter="binary", n_candidates=CANDIDATES)

    return [
        _Step("open, and see what pages there are", nothing, lambda: PageStore.open(store.location).page_table()),
        _Step(
            "sign bits, first time on a machine",
            forget_all,
            lambda: open_signatures(PageStore.open(store.location), "bits"),
        ),
        _Step(f"codes of {CANDIDATES} candidates, not copied yet", forget_codes, lambda: store.vectors(chosen)),
        _Step("the same, copied", nothing, lambda: store.vectors(chosen)),
        _Step("a query on an open index, codes not copied yet", forget_codes, answer),
        _Step("the same, copied", nothing, answer),
    ]


def _seconds(
    place: Location, query: QueryEmbedding, repeat: int, server: CountingServer | None = None
) -> list[tuple[float, float]]:
    """Return the median seconds and requests of each step."""
    found = []
    for step in _steps(PageStore.open(place), query):
        times, counts = [], []
        step.before()
        step.run()  # connections are made once
        for _ in range(repeat):
            step.before()
            count, started = server.n_requests if server else 0, time.perf_counter()
            step.run()
            times.append(time.perf_counter() - started)
            counts.append((server.n_requests if server else 0) - count)
        found.append((float(np.median(times)), float(np.median(counts))))
    return found


def _unit(rng: np.random.Generator, n: int) -> Float32:
    return normalize_rows(rng.standard_normal((n, _DIM), np.float32))


def _pages(rng: np.random.Generator) -> Iterator[PageEmbedding]:
    boxes = np.tile(np.array(WHOLE_PAGE, np.uint16), (_VECTORS, 1))
    while True:
        yield PageEmbedding(_unit(rng, _VECTORS), boxes)


def table(costs: list[Cost], delay: float) -> str:
    """Return the costs as a Markdown table."""
    head = ["step", "folder", "requests", "round trips", "store, at once", f"store, {delay * 1000:.0f} ms away"]
    rows = [
        [cost.step, f"{cost.folder_ms:.1f} ms", f"{cost.n_requests}", f"{cost.n_round_trips:.1f}"]
        + [f"{ms:.0f} ms" for ms in (cost.ms, cost.delayed_ms)]
        for cost in costs
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What an index in an object store costs.")
    parser.add_argument("--pages", type=int, default=1000, help="of the index (default: 1000)")
    parser.add_argument("--delay", type=float, default=30, metavar="MS", help="of each request (default: 30)")
    parser.add_argument("--repeat", type=int, default=5, help="times that each step is done (default: 5)")
    asked = parser.parse_args()
    if min(asked.pages, asked.delay, asked.repeat) < 1 or asked.pages < CANDIDATES:
        parser.error(f"--delay and --repeat are at least 1, --pages {CANDIDATES}")
    try:
        costs = measure(asked.pages, asked.delay / 1000, asked.repeat)
    except ColretError as error:
        sys.exit(f"{parser.prog}: {error}")
    print(f"N = {asked.pages:,} pages, the median of {asked.repeat}\n\n{table(costs, asked.delay / 1000)}")


if __name__ == "__main__":
    main()
