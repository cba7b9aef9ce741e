"""Who does what next: shards go to workers that read, their batches to workers that encode.

Each shard has a lane. Its batches are read one after the other, encoded side by side, and given on
in order, so a document's events are in order too, whatever other documents do. Only a few batches a
worker are under way. So what the cluster holds is bounded, and this process, which takes one batch
at a time, is held up by nothing but the index.

When a worker that encodes is lost, its batches go to another. When a worker that reads is lost, or a
node with the batches on it, the shard's unfinished documents are read again, and what was given on
of them is left out the second time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from colret import readers
from colret.encoding import Event
from colret.fleet.failures import explained, input_lost, lost
from colret.fleet.pool import Pool, Worker
from colret.fleet.shards import Shards
from colret.fleet.workers import ReadingOptions
from colret.readers import Finished
from colret.sync import NewDocument

if TYPE_CHECKING:
    from ray import ObjectRef

_TICK: Final = 0.1  # seconds between two looks at what else there is to do
_QUEUED: Final = 2  # batches of a worker that encodes: one that it is at, and the next
_ATTEMPTS: Final = 3  # to encode a batch


@dataclass(eq=False)
class _Batch:
    """Some pages of a lane."""

    read: ObjectRef[list[readers.Event]]
    encoded: ObjectRef[list[Event]] | None = None  # or will be
    encoder: Worker | None = None
    done: bool = False  # encoded, or lost
    n_lost: int = 0


@dataclass(eq=False)
class _Lane:
    """A shard under way."""

    reader: Worker
    unfinished: dict[str, NewDocument]
    asked: tuple[ObjectRef[bool], ObjectRef[list[readers.Event]]] | None = None  # whether there is more, and it
    batches: deque[_Batch] = field(default_factory=deque)
    ended: bool = False  # nothing more is read


class Dispatch:
    """One run over documents.

    Args:
        readers: Workers that read.
        encoders: Workers that encode.
        documents: To read.
        options: How.
        n_readers: How many there will be.
        put: Takes events; may wait.
    """

    def __init__(
        self,
        readers: Pool,
        encoders: Pool,
        documents: Sequence[NewDocument],
        options: ReadingOptions,
        n_readers: int,
        put: Callable[[list[Event]], None],
    ) -> None:
        self._readers = readers
        self._encoders = encoders
        self._shards = Shards(documents, n_readers)
        self._options = options
        self._put = put
        self._lanes: list[_Lane] = []
        for pool in (readers, encoders):
            pool.begin()

    def run(self, tell: Callable[[], None]) -> None:
        """Do everything; ``tell`` is called now and then.

        Raises:
            ColretError: If a worker fails in a way that would fail again, or none is left.
        """
        while self._shards or self._lanes:
            self._readers.look()
            self._encoders.look()
            self._begin()
            for lane in list(self._lanes):
                self._ask(lane)
                self._encode(lane)
            self._wait()
            for lane in list(self._lanes):
                self._take_read(lane)
                self._give_on(lane)
                self._end(lane)
            tell()

    def _begin(self) -> None:
        """Give shards to workers that have none."""
        while self._shards and self._has_room() and (reader := self._readers.freest(1)) is not None:
            shard = self._shards.next()
            reader.actor.begin.remote(shard, self._options)
            reader.n_asked += 1
            self._lanes.append(_Lane(reader, {document.doc_id: document for document in shard}))

    def _ask(self, lane: _Lane) -> None:
        """Have a lane's next batch read, if not too much is read already."""
        if lane.asked is None and not lane.ended and self._has_room():
            lane.asked = lane.reader.actor.read.options(num_returns=2).remote()

    def _has_room(self) -> bool:
        """Return whether fewer batches are under way than keep every worker busy."""
        n_under_way = sum(len(lane.batches) + (lane.asked is not None) for lane in self._lanes)
        return n_under_way < _QUEUED * (len(self._readers.present) + len(self._encoders.present))

    def _encode(self, lane: _Lane) -> None:
        """Give a lane's batches to workers that have room for them."""
        for batch in lane.batches:
            if batch.encoded is None and (encoder := self._encoders.freest(_QUEUED)) is not None:
                batch.encoder, batch.encoded = encoder, encoder.actor.encode.remote(batch.read)
                encoder.n_asked += 1

    def _wait(self) -> None:
        """Wait a moment for an answer, and note the batches that are done."""
        import ray

        batches = [batch for lane in self._lanes for batch in lane.batches if not batch.done]
        encoding = {batch.encoded: batch for batch in batches if batch.encoded is not None}
        asked = [lane.asked[0] for lane in self._lanes if lane.asked]
        if not encoding and not asked:
            time.sleep(_TICK)
            return
        ray.wait([*encoding, *asked], num_returns=1, timeout=_TICK)
        ready, _ = ray.wait(list(encoding), num_returns=len(encoding), timeout=0) if encoding else ([], [])
        for answer in ready:
            batch = encoding[answer]
            batch.done = True
            assert batch.encoder is not None
            batch.encoder.n_asked -= 1

    def _take_read(self, lane: _Lane) -> None:
        """Take the answer to the question for a lane's next batch, if it is there."""
        import ray

        if lane.asked is None or not ray.wait([lane.asked[0]], timeout=0)[0]:
            return
        (more, batch), lane.asked = lane.asked, None
        there_is_more, loss = self._get(more)
        if loss:
            self._readers.lose(lane.reader)
        if there_is_more:
            lane.batches.append(_Batch(batch))
        else:
            _stop(lane)

    def _give_on(self, lane: _Lane) -> None:
        """Give on what of a lane is encoded, in its order."""
        while lane.batches and lane.batches[0].done:
            batch = lane.batches[0]
            assert batch.encoded is not None
            events, loss = self._get(batch.encoded)
            if loss:
                self._lose(lane, batch, loss)
                continue
            lane.batches.popleft()
            for event in events:
                if isinstance(event, Finished):
                    lane.unfinished.pop(event.document.doc_id)
            self._put(self._shards.fresh(events))

    def _lose(self, lane: _Lane, batch: _Batch, loss: Exception) -> None:
        """Have a batch encoded once more; if it is gone itself, have its documents read once more."""
        assert batch.encoder is not None
        if not input_lost(loss):
            self._encoders.lose(batch.encoder)
        batch.n_lost += 1
        batch.encoded, batch.encoder, batch.done = None, None, False
        if batch.n_lost == _ATTEMPTS or input_lost(loss):
            lane.batches.clear()
            _stop(lane)

    def _end(self, lane: _Lane) -> None:
        """Forget a lane that is over; its documents that are not finished have to be read again."""
        if lane.ended and not lane.batches:
            self._lanes.remove(lane)
            self._put(self._shards.lose(lane.unfinished.values()))

    def _get(self, answer: ObjectRef[Any]) -> tuple[Any, Exception | None]:
        """Return an answer, or None and how it was lost."""
        import ray
        from ray.exceptions import RayError

        try:
            return ray.get(answer), None
        except RayError as error:
            if not lost(error):
                raise explained(error) from error
            return None, error


def _stop(lane: _Lane) -> None:
    """Read no more of a lane, so that its worker can begin another; what was read still goes its way."""
    if not lane.ended:
        lane.ended, lane.asked = True, None
        lane.reader.n_asked -= 1
