"""The workers of one kind: those that can be asked, and those that Ray is still to start, or to start again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import colret
from colret.errors import ColretError
from colret.fleet.failures import explained, lost
from colret.fleet.workers import Greeting

if TYPE_CHECKING:
    from ray import ObjectRef

_PATIENCE: Final = 120.0  # seconds that a cluster may take to give a place to the first worker, or to another
_AGAIN_SECONDS: Final = 1.0  # between two greetings of a worker that is not there yet


@dataclass(eq=False)
class Worker:
    """A worker during one of its lives."""

    actor: Any  # a handle, whose methods Ray makes
    n_asked: int = 0  # calls that it has not answered


class Pool:
    """Workers that are alike.

    Args:
        actors: Their handles.
        kind: What to call them in messages.
    """

    def __init__(self, actors: Sequence[Any], kind: str) -> None:
        self.present: list[Worker] = []
        self._kind = kind
        self._greetings: dict[ObjectRef[Greeting], Any] = {actor.greet.remote(): actor for actor in actors}
        self._absent: list[tuple[float, Any]] = []  # when to greet them again
        self._lacking_since = time.monotonic()

    def begin(self) -> None:
        """Forget what was asked before: an interrupted run waits for no answers."""
        self.present = [Worker(worker.actor) for worker in self.present]

    def lose(self, worker: Worker) -> None:
        """Do without a worker until it is there again."""
        if worker in self.present:
            self.present.remove(worker)
            self._lacking_since = time.monotonic()
            self._greet(worker.actor)

    def freest(self, most: int) -> Worker | None:
        """Return the worker that has least to do, if that is fewer than ``most`` calls."""
        free = (worker for worker in self.present if worker.n_asked < most)
        return min(free, key=lambda worker: worker.n_asked, default=None)

    def look(self) -> None:
        """See who has come.

        Raises:
            ColretError: If nobody is there, and nobody comes; or a node has another colret.
        """
        import ray

        now = time.monotonic()
        due = [actor for when, actor in self._absent if when <= now]
        self._absent = [(when, actor) for when, actor in self._absent if when > now]
        for actor in due:
            self._greet(actor)
        if self._greetings:
            answered, _ = ray.wait(list(self._greetings), num_returns=len(self._greetings), timeout=0)
            for answer in answered:
                self._welcome(self._greetings.pop(answer), answer)
        if not self.present and (now - self._lacking_since > _PATIENCE or not (self._greetings or self._absent)):
            problem = f"has no {self._kind} worker left, and gives no place to another"
            raise ColretError("the Ray cluster", problem, "add nodes, end other jobs, or ask for fewer --ray-encoders")

    def wait(self) -> Worker:
        """Wait for a worker and return it; raises as ``look`` does."""
        while not self.present:
            self.look()
            time.sleep(0.01)
        return self.present[0]

    def __iter__(self) -> Iterator[Worker]:
        """Return the workers that can be asked."""
        return iter(list(self.present))

    def _greet(self, actor: Any) -> None:
        self._greetings[actor.greet.remote()] = actor

    def _welcome(self, actor: Any, answer: ObjectRef[Greeting]) -> None:
        import ray
        from ray.exceptions import ActorUnavailableError, RayError

        try:
            greeting = ray.get(answer)
        except ActorUnavailableError:
            self._absent.append((time.monotonic() + _AGAIN_SECONDS, actor))
        except RayError as error:
            if not lost(error):
                raise explained(error) from error  # it cannot even be started
        else:
            if greeting.version != colret.__version__:
                problem = f"has colret {greeting.version}, and this is {colret.__version__}"
                raise ColretError(f"the Ray node {greeting.host}", problem, "install the same version on every node")
            self.present.append(Worker(actor))
