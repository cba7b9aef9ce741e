"""The fleet: workers on a cluster that read and encode the documents of an ingest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final

from colret.closing import Closing
from colret.encoding import Event
from colret.errors import ColretError
from colret.fleet.cluster import Node, encoder_sizes, import_ray, joined, reading_places
from colret.fleet.dispatch import Dispatch
from colret.fleet.failures import explained, lost
from colret.fleet.pool import Pool
from colret.fleet.workers import EncodingWorker, ReadingOptions, ReadingWorker
from colret.readers import Limits
from colret.sync import NewDocument
from colret.types import EncoderInfo, Page, PageEmbedding, QueryEmbedding

_ATTEMPTS: Final = 3  # to have a worker answer


class Fleet(Closing):
    """An ``ingest.Engine`` on a Ray cluster, which it joins when it is to load a model; use it in ``with``.

    Args:
        address: Of the cluster, as for ``cluster.joined``; None starts Ray on this machine.
        n_encoders: Workers that encode; by default one for each GPU, or one for each node's CPUs.
    """

    def __init__(self, address: str | None = None, *, n_encoders: int | None = None) -> None:
        self._address = address
        self._n_encoders = n_encoders
        self._nodes: list[Node] = []
        self._encoder: FleetEncoder | None = None
        self._readers: Pool | None = None
        self._actors: list[Any] = []  # of both kinds
        self._open = ExitStack()

    def load_encoder(self, name: str, *, device: str = "auto", **options: Any) -> FleetEncoder:
        """Load an encoder on the cluster; arguments as for ``encoders.load_encoder``.

        Raises:
            ColretError: If Ray is not installed, the cluster cannot be joined or has no room for
                an encoder, a node has another version of colret, or the model cannot be had.
            ValueError: If an option has no such value.
        """
        import_ray()
        if not self._nodes:
            self._nodes = self._open.enter_context(joined(self._address))
        sizes = encoder_sizes(self._nodes, self._n_encoders, on_cpu=device == "cpu")
        import ray

        actors = []
        for size in sizes:
            where = "cpu" if device == "auto" and not size.n_gpus else device
            made = ray.remote(EncodingWorker).options(num_cpus=size.n_cpus, num_gpus=size.n_gpus, max_restarts=-1)
            actors.append(made.remote(name, {**options, "device": where}, size.n_cpus))
        self._actors += actors
        self._encoder = FleetEncoder(Pool(actors, "encoding"))
        return self._encoder

    def run(
        self,
        documents: Sequence[NewDocument],
        put: Callable[[list[Event]], None],
        tell: Callable[[], None],
        *,
        limits: Limits,
        passwords: Sequence[str],
    ) -> None:
        """Read and encode documents, with the encoder loaded last; see ``ingest.Engine``."""
        assert self._encoder is not None
        info = self._encoder.info
        options = ReadingOptions(limits, tuple(passwords), info.render_pixels, info.reads == "words")
        if self._readers is None:
            self._readers = Pool(self._start_readers(), "reading")
        n_readers = len(reading_places(self._nodes))
        Dispatch(self._readers, self._encoder.pool, documents, options, n_readers, put).run(tell)

    def _start_readers(self) -> list[Any]:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        made = ray.remote(ReadingWorker)
        actors = [
            made.options(
                num_cpus=0,  # those of the node whose encoding workers wait for pages
                memory=1,  # byte: a worker that asks for nothing is put on any node
                max_restarts=-1,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=True),
            ).remote(n_processes)
            for node_id, n_processes in reading_places(self._nodes)
        ]
        self._actors += actors
        return actors

    def close(self) -> None:
        """Let go of the workers and leave the cluster."""
        if self._actors:
            import ray

            for actor in self._actors:
                ray.kill(actor)
        self._encoder, self._readers = None, None
        self._actors, self._nodes = [], []
        self._open.close()


class FleetEncoder:
    """An ``Encoder`` on the cluster, whichever worker answers.

    Args:
        pool: Its workers.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.info: EncoderInfo = self._ask("info")

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Encode pages with the encoder."""
        embeddings: list[PageEmbedding] = self._ask("encode_pages", pages)
        return embeddings

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Encode queries with the encoder."""
        embeddings: list[QueryEmbedding] = self._ask("encode_queries", texts)
        return embeddings

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Have a worker do something, and another one if it is lost."""
        import ray
        from ray.exceptions import RayError

        for _ in range(_ATTEMPTS):
            worker = self.pool.wait()
            try:
                return ray.get(getattr(worker.actor, method).remote(*arguments))
            except RayError as error:
                if not lost(error):
                    cause = explained(error)
                    raise cause from error
                self.pool.lose(worker)
        raise ColretError("the Ray cluster", "lost one worker after the other", "see Ray's logs for what ended them")
