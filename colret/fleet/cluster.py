"""The cluster: joined, or started on this machine; what it has, and where workers go in it."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from colret.errors import ColretError

_NODE_PROCESSES: Final = 8  # of one worker; a larger node has several
_CONNECT_SECONDS: Final = 5.0
_LONGEST_FOLDER: Final = 40  # of temporary files, in which Ray finds room for the names of its sockets


class Node(NamedTuple):
    """A node that has CPUs for work."""

    node_id: str
    n_cpus: int
    n_gpus: int


class EncoderSize(NamedTuple):
    """What one encoding worker asks for."""

    n_cpus: int
    n_gpus: int


@contextmanager
def joined(address: str | None) -> Iterator[list[Node]]:
    """Be in a cluster, and yield its nodes.

    Args:
        address: "auto" (the cluster that this machine is a node of) or "HOST:PORT" of its head;
            None starts Ray on this machine, and ends it at the end. A process that is in a
            cluster already stays there.

    Raises:
        ColretError: If Ray is not installed, or the cluster cannot be joined.
    """
    ray = import_ray()
    ours = not ray.is_initialized()
    if ours:
        _join(address or "local")
    try:
        yield _nodes()
    finally:
        if ours:
            ray.shutdown()


def import_ray() -> Any:
    """Return Ray, which no other part of colret imports.

    Raises:
        ColretError: If it is not installed.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # What became of a worker is seen where it is asked; Ray tells it on standard output too.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # read when Ray is imported
    try:
        import ray
    except ImportError as error:
        raise ColretError("--ray", "Ray is not installed", "pip install 'colret[ray]'") from error
    return ray


def reading_places(nodes: Sequence[Node]) -> list[tuple[str, int]]:
    """Return a node and a number of processes for each reading worker: together, all of the nodes' CPUs."""
    return [
        (node.node_id, node.n_cpus // n_workers)
        for node in nodes
        for n_workers in [math.ceil(node.n_cpus / _NODE_PROCESSES)]
        for _ in range(n_workers)
    ]


def encoder_sizes(nodes: Sequence[Node], n_encoders: int | None, *, on_cpu: bool) -> list[EncoderSize]:
    """Return what each encoding worker asks for.

    Args:
        nodes: Of the cluster.
        n_encoders: How many; by default one for each GPU, or where there is none as many as
            there are reading workers.
        on_cpu: Leave the GPUs alone.
    """
    n_gpus = 0 if on_cpu else sum(node.n_gpus for node in nodes)
    if n_gpus:
        return [EncoderSize(1, 1)] * (n_encoders or n_gpus)
    n_encoders = n_encoders or len(reading_places(nodes))
    n_cpus = sum(node.n_cpus for node in nodes) // n_encoders
    return [EncoderSize(max(1, min(n_cpus, max(node.n_cpus for node in nodes))), 0)] * n_encoders


def _join(address: str) -> None:
    import ray

    if address.startswith("ray://"):
        remedy = "start colret on a node of the cluster, and give HOST:PORT of its head"
        raise ColretError(f"Ray at {address}", "Ray's client protocol is not used", remedy)
    host, port = _endpoint(address)
    if port:
        _knock(address, host, port)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}
    if address == "local":
        options["include_dashboard"] = False
        if len(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR", "")) > _LONGEST_FOLDER:
            options["_temp_dir"] = "/tmp/ray"  # Ray's own choice where no variable names another
    try:
        with warnings.catch_warnings(), _own_signals():
            warnings.simplefilter("ignore")  # of Ray's own future
            ray.init(address=address, **options)
    except (ImportError, RuntimeError, ValueError, OSError, AssertionError) as error:
        with suppress(Exception):  # what there is of a connection
            ray.shutdown()
        remedy = "start it with: ray start --head, or leave the address out to run Ray on this machine"
        raise ColretError(f"Ray at {address}", f"cannot be joined ({error})", remedy) from error


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what this process does when it is told to stop: Ray would print where it was at, and take its time."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _endpoint(address: str) -> tuple[str, int]:
    """Return the host and the port of an address; port 0 if it names none."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if host and port.isdecimal() else 0


def _knock(address: str, host: str, port: int) -> None:
    """Refuse an address where nobody listens: Ray would try for minutes."""
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        problem = f"nobody answers there ({error.strerror or error})"
        raise ColretError(f"Ray at {address}", problem, "check the address, and that the cluster runs") from error


def _nodes() -> list[Node]:
    nodes = [
        Node(node["NodeID"], int(node["Resources"].get("CPU", 0)), int(node["Resources"].get("GPU", 0)))
        for node in import_ray().nodes()
        if node["Alive"]
    ]
    usable = [node for node in nodes if node.n_cpus]
    if not usable:
        raise ColretError("Ray", "no node of the cluster has a CPU for work", "start nodes with --num-cpus above 0")
    return usable
