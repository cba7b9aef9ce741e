"""What runs on the nodes of a cluster: workers that read documents, and workers that encode pages.

Ray runs each as an actor. A worker serves one call at a time and may die between any two: the one
that comes in its place has nothing of what it was at.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import colret
from colret import readers
from colret.encoders import Encoder
from colret.encoding import Event, batches, encode_events
from colret.errors import DocumentError
from colret.memory import bound_memory, release_memory
from colret.readers import Finished, Limits, Readers
from colret.sync import NewDocument
from colret.types import EncoderInfo, Page, PageEmbedding, QueryEmbedding

BATCH_PAGES: Final = 16  # read and encoded together
_BATCH_SECONDS: Final = 30.0  # or this long, so that a slow page does not hold up those before it
_RELEASE_BATCHES: Final = 4  # after which freed memory goes back to the system


class Greeting(NamedTuple):
    """What a worker says when it is there."""

    host: str
    version: str  # of colret


def greeting() -> Greeting:
    """Return who this is."""
    return Greeting(socket.gethostname(), colret.__version__)


class ReadingOptions(NamedTuple):
    """How documents are read: see ``Readers``."""

    limits: Limits
    passwords: tuple[str, ...]
    pixels: int
    ocr: bool


class ReadingWorker:
    """Reads documents, in processes of its own that a page may cost their lives.

    Args:
        n_processes: That read at the same time.
    """

    def __init__(self, n_processes: int) -> None:
        self._n_processes = n_processes
        self._readers: Readers | None = None
        self._options: ReadingOptions | None = None
        self._events: Generator[readers.Event] | None = None
        self._batches: Iterator[list[readers.Event]] = iter(())

    def greet(self) -> Greeting:
        """Return who this is."""
        return greeting()

    def begin(self, documents: Sequence[NewDocument], options: ReadingOptions) -> None:
        """Begin to read documents, and leave off what was being read."""
        if self._events is not None:
            self._events.close()
        self._events = self._reading(options).read(documents, pixels=options.pixels, ocr=options.ocr)
        self._batches = batches(map(_told_by_node, self._events), BATCH_PAGES, _BATCH_SECONDS)

    def read(self) -> tuple[bool, list[readers.Event]]:
        """Return whether there is more, and if so the next events."""
        batch = next(self._batches, None)
        return batch is not None, batch or []

    def _reading(self, options: ReadingOptions) -> Readers:
        """Return the processes that read in this way."""
        if self._readers is None or self._options != options:
            if self._readers is not None:
                self._readers.close()
            self._readers = Readers(n_workers=self._n_processes, limits=options.limits, passwords=options.passwords)
            self._options = options
        return self._readers


class EncodingWorker:
    """Encodes pages with a model that it loads once.

    Args:
        name: As for ``encoders.load_encoder``.
        options: What else it takes.
        n_threads: To compute on, where the model is on the CPU.
    """

    def __init__(self, name: str, options: dict[str, Any], n_threads: int) -> None:
        self._name = name
        self._options = options
        self._n_threads = n_threads
        self._n_batches = 0

    def greet(self) -> Greeting:
        """Return who this is; the model comes later, so that waiting for a place and for it can be told apart."""
        return greeting()

    def info(self) -> EncoderInfo:
        """Return what an index must know of the encoder."""
        return self._encoder.info

    def encode(self, events: Sequence[readers.Event]) -> list[Event]:
        """Return the events with their pages encoded."""
        self._n_batches += 1
        if self._n_batches % _RELEASE_BATCHES == 0:
            release_memory()
        return encode_events(self._encoder, events)

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Encode pages with the encoder."""
        return self._encoder.encode_pages(pages)

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Encode queries with the encoder."""
        return self._encoder.encode_queries(texts)

    @functools.cached_property
    def _encoder(self) -> Encoder:
        bound_memory()
        import torch

        from colret.encoders import load_encoder

        torch.set_num_threads(self._n_threads)
        return load_encoder(self._name, **self._options)


def _told_by_node(event: readers.Event) -> readers.Event:
    """Return an event; of a file that only this node misses, with the node's name."""
    on_a_disk = isinstance(event.document.source.path, Path)
    if on_a_disk and isinstance(event, Finished) and event.error is not None and event.error.reason == "missing":
        problem = f"the Ray node {socket.gethostname()} sees no such file"
        remedy = "mount its folder under the same path on every node, or ingest without --ray"
        return event._replace(error=DocumentError(event.error.subject, problem, remedy, reason="missing"))
    return event
