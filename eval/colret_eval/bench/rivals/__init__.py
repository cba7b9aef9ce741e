"""Engines that store pages of vectors and search them, all behind one protocol.

Each module imports its engine inside the functions that use it: what is not installed is
reported by the benchmark, not failed on, and a process holds one engine only.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from colret.types import Float32


class Variant(NamedTuple):
    """One way to search what an engine has built."""

    label: str
    parameters: dict[str, Any] = {}  # noqa: RUF012  # of ``Rival.search``; never changed
    environment: dict[str, str] = {}  # noqa: RUF012  # variables that the engine reads once a process


class Rival(Protocol):
    """An engine over one folder. Pages are numbered in the order in which they come."""

    def build(self, pages: Iterator[Float32], n_pages: int) -> None:
        """Store ``n_pages`` pages, each (P, D) float32 unit rows, never holding all of them."""
        ...

    def index(self) -> None:
        """Build what makes searching fast, where that is a step of its own."""
        ...

    def variants(self, n_pages: int) -> list[Variant]:
        """Return the ways to search that are worth measuring."""
        ...

    def open(self) -> None:
        """Make ready for queries, in a process that need not be the builder's."""
        ...

    def search(self, query: Float32, k: int, **parameters: Any) -> list[int]:
        """Return the numbers of the best ``k`` pages for a (T, D) query, best first."""
        ...

    def stages(self) -> dict[str, float]:
        """Return the mean milliseconds of each stage since last asked; empty where nobody can tell."""
        ...


@runtime_checkable
class TellsExact(Protocol):
    """An engine whose exact search over its own index is what its other ways are compared with too."""

    def exact_answers(self, queries: Float32) -> list[list[int]]:
        """Return the best pages for each of (Q, T, D) queries."""
        ...


class Engine(NamedTuple):
    """Where an engine's class is, what to install for it, and how it is made."""

    place: str  # module:class
    distribution: str
    disk: float  # bytes it takes, with room to spare, for each byte of float32 vectors
    options: dict[str, Any] = {}  # noqa: RUF012  # never changed
    most_pages: int = 2**31  # that it can be built over in the time that anyone would wait


RIVALS = {
    "colret": Engine("own:Colret", "colret", 0.4),
    "colret-float16": Engine("own:Colret", "colret", 0.7, {"codec": "float16"}),
    "lancedb": Engine("lance:LanceDB", "lancedb", 1.3),
    "lancedb-hnsw": Engine("lance:LanceDB", "lancedb", 1.6, {"graph": True}, most_pages=2000),
    "qdrant-edge": Engine("qdrant:QdrantEdge", "qdrant-edge-py", 1.5),
    "fast-plaid": Engine("plaid:FastPlaid", "fast-plaid", 1.0),
}
"""Engines by the name that ``--rivals`` takes; colret itself is among them."""


def load_rival(name: str, folder: Path) -> Rival:
    """Return the engine called ``name`` over ``folder``.

    Raises:
        ImportError: If it is not installed.
    """
    engine = RIVALS[name]
    module, _, class_name = engine.place.partition(":")
    rival: Rival = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)(folder, **engine.options)
    return rival
