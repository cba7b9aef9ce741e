"""What a collection of many pages takes: bytes, processor hours, memory and time a query.

    python -m colret_eval.scale [--pages N,...] [--NAME FIGURE ...]

Every figure is a product of the unit figures below, which were measured (docs/scale.md says how)
and can each be replaced on the command line by those of your machines, model and prices.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, NamedTuple

from colret.codecs import bytes_per_vector
from colret.compaction import BOX_BYTES
from colret.signatures import SKETCH_BLOCKS
from colret.types import Codec

PAGES: Final = (1_000_000, 100_000_000, 1_000_000_000)


@dataclass(frozen=True, slots=True)
class Units:
    """What one page, one core and one gigabyte do and cost."""

    vectors: float = 554  # of a page
    dim: int = 384
    codec: Codec = "int4"
    row_bytes: float = 9_000  # of a page in the index besides its codes, boxes and mean vector
    table_bytes: float = 80  # of a page in the memory of each process that searches
    ingest_rate: float = 11.2  # pages that a core reads and encodes a second
    commit_rate: float = 800  # pages that the one committer writes a second, at first
    commit_pages: int = 64  # of one commit
    commit_growth_us: float = 100  # that a commit takes longer for each one before it since the last compaction
    run_pages: int = 100_000  # of one ingest, which ends with a compaction
    rewrite_gb: float = 0.2  # that a compaction rewrites a second
    scan_gb: float = 10.0  # of signatures that a core compares with a query a second
    page_us: float = 90.0  # of a core, to score one candidate: read, decoded and compared
    trips: float = 3  # one after the other, to fetch candidates from an object store
    trip_ms: float = 30.0  # of each
    network_gb: float = 1.0  # that a node takes from an object store a second
    candidates: int = 100
    encode_ms: float = 8.0  # of a core, to encode a query
    cores: int = 16  # of a node
    memory_gb: float = 64  # of a node
    core_hour: float = 0.04  # $
    gb_month: float = 0.023  # $, in an object store


class Need(NamedTuple):
    """What so many pages need; bytes, seconds, dollars."""

    n_pages: int
    stored: float  # bytes in the object store
    ingest: float  # core-seconds to read and encode
    committing: float  # seconds of the one committer
    rewriting: float  # seconds of its compactions
    memory: float  # bytes, of page tables and signatures
    nodes: int  # that hold them
    scan: float  # core-seconds a query
    latency: float  # seconds a query, on those nodes at rest
    rate: float  # queries a second that those nodes can answer


def page_bytes(units: Units) -> float:
    """Return the bytes of a page in the index: codes, boxes, mean vector, words and what finds them."""
    codes = units.vectors * (bytes_per_vector(units.dim, units.codec) + BOX_BYTES)
    return codes + 4 * units.dim + units.row_bytes


def sketch_bytes(units: Units) -> float:
    """Return the bytes of a page's sketch, a bit a dimension: see ``signatures``."""
    return min(SKETCH_BLOCKS, units.vectors) * bytes_per_vector(units.dim, "binary")


def sign_bytes(units: Units) -> float:
    """Return the bytes of the signs of all of a page's vectors."""
    return units.vectors * bytes_per_vector(units.dim, "binary")


def committing(n_pages: int, units: Units) -> float:
    """Return the seconds in which one process commits so many pages, in runs of ``units.run_pages``."""
    commits = n_pages / units.commit_pages
    before = min(units.run_pages, n_pages) / units.commit_pages / 2  # of the same run, in the mean
    return n_pages / units.commit_rate + commits * before * units.commit_growth_us * 1e-6


def rewriting(n_pages: int, units: Units) -> float:
    """Return the seconds in which each run's compaction rewrites all that there is by then."""
    runs = max(1.0, n_pages / units.run_pages)
    return n_pages * page_bytes(units) * (runs + 1) / 2 / (units.rewrite_gb * 1e9)


def need(n_pages: int, units: Units, signature_bytes: float) -> Need:
    """Return what ``n_pages`` take when each is first judged by a signature of so many bytes in memory.

    A node holds the table and the signatures of its share of the pages; all nodes look at a query at
    once, each scores its own candidates, so a query waits for one share, one fetch and one rescoring.
    """
    memory = n_pages * (units.table_bytes + signature_bytes)
    nodes = max(1, math.ceil(memory / (0.75 * units.memory_gb * 1e9)))  # a quarter for all else
    scan = n_pages * signature_bytes / (units.scan_gb * 1e9)
    candidates = units.candidates * page_bytes(units)
    rescoring = units.candidates * units.page_us * 1e-6
    fetch = units.trips * units.trip_ms * 1e-3 + candidates / (units.network_gb * 1e9)
    work = scan + nodes * rescoring + units.encode_ms * 1e-3
    return Need(
        n_pages=n_pages,
        stored=n_pages * page_bytes(units),
        ingest=n_pages / units.ingest_rate,
        committing=committing(n_pages, units),
        rewriting=rewriting(n_pages, units),
        memory=memory,
        nodes=nodes,
        scan=scan,
        latency=units.encode_ms * 1e-3 + scan / (nodes * units.cores) + fetch + rescoring,
        rate=nodes * units.cores / work,
    )


_ROWS: Final[tuple[tuple[str, Callable[[Need, Units], str]], ...]] = (
    ("in the object store", lambda need, units: _bytes(need.stored)),
    ("... a month", lambda need, units: f"${need.stored / 1e9 * units.gb_month:,.0f}"),
    ("to read and encode, core-hours", lambda need, units: f"{need.ingest / 3600:,.0f}"),
    ("... once", lambda need, units: f"${need.ingest / 3600 * units.core_hour:,.0f}"),
    ("... on 100 nodes", lambda need, units: _time(need.ingest / 100 / units.cores)),
    ("the one committer", lambda need, units: _time(need.committing)),
    ("... its compactions", lambda need, units: _time(need.rewriting)),
    ("memory, table and signatures", lambda need, units: _bytes(need.memory)),
    ("nodes that search", lambda need, units: f"{need.nodes:,}"),
    ("... a month", lambda need, units: f"${need.nodes * units.cores * 730 * units.core_hour:,.0f}"),
    ("a query, core-seconds", lambda need, units: f"{need.scan:.3g}"),
    ("a query at rest", lambda need, units: _time(need.latency)),
    ("queries a second", lambda need, units: f"{need.rate:,.0f}"),
)


def table(sizes: Sequence[int], units: Units, signature_bytes: float) -> str:
    """Return what collections of these sizes need, as a table in Markdown."""
    needs = [need(size, units, signature_bytes) for size in sizes]
    head = ["pages", *(f"{size:,}" for size in sizes)]
    rows = [[name, *(show(each, units) for each in needs)] for name, show in _ROWS]
    rule = ["---", *("---:" for _ in sizes)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def _bytes(n_bytes: float) -> str:
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{n_bytes / 1e6:,.0f} MB"


def _time(seconds: float) -> str:
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds * 1e3:,.0f} ms"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pages", metavar="N,...", default=",".join(map(str, PAGES)), help="sizes of the collection")
    for field in fields(Units):
        kind = type(field.default)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default, metavar="FIGURE")
    given = vars(parser.parse_args(arguments))
    sizes = [int(size) for size in given.pop("pages").split(",")]
    units = replace(Units(), **given)
    print(f"A page: {page_bytes(units) / 1e3:.1f} kB in the index.")
    for name, n_bytes in {"sketch": sketch_bytes(units), "binary": sign_bytes(units)}.items():
        print(f"\nPrefilter {name}: {n_bytes / 1e3:.1f} kB a page in memory.\n\n{table(sizes, units, n_bytes)}")


if __name__ == "__main__":
    main()
