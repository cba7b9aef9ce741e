"""What the service counts, in Prometheus' text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

import colret

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TOGETHER = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "colret_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self._request_seconds = Histogram(
            "colret_request_seconds", "From a request's head to its answer's end.", ["route"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._stage_seconds = Histogram(
            "colret_stage_seconds", "Where the time goes: queue, search, draw, read.", ["stage"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._batch = Histogram(
            "colret_batch_queries", "Searches answered by one call.", buckets=_TOGETHER, registry=self.registry
        )
        self._waiting = Gauge("colret_queue_length", "Searches that wait.", registry=self.registry)
        self._pages = Gauge("colret_index_pages", "Pages that can be found.", registry=self.registry)
        self._version = Gauge("colret_index_version", "Of the index, by table.", ["table"], registry=self.registry)
        Gauge("colret_build", "The colret that serves.", ["version"], registry=self.registry).labels(
            colret.__version__
        ).set(1)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def observe(self, what: str, value: float) -> None:
        """Count the seconds of a stage, or with "batch" the searches answered by one call."""
        if what == "batch":
            self._batch.observe(value)
        else:
            self._stage_seconds.labels(what).observe(value)

    def text(self, waiting: int, seen: tuple[int, str] | None) -> bytes:
        """Return all of it, with how things are now.

        Args:
            waiting: Searches that wait.
            seen: Pages of the index and its version; None: as they were.
        """
        self._waiting.set(waiting)
        if seen is not None:
            n_pages, version = seen
            self._pages.set(n_pages)
            for table, number in zip(("documents", "pages"), version.split("."), strict=True):
                self._version.labels(table).set(int(number))
        return generate_latest(self.registry)
