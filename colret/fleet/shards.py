"""Which documents a worker reads together, and what of them was given on already."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Final

from colret.documents import display_path
from colret.encoding import Event, PageEncoded
from colret.errors import DocumentError
from colret.readers import Finished, Opened, PageFailed
from colret.sync import NewDocument

_DOCUMENTS: Final = 32
_BYTES: Final = 32 << 20
_ROUNDS: Final = 4  # shards each of several workers gets at least, so that the last ones are small
_ATTEMPTS: Final = 3


class Shards:
    """Documents that are still to be read, and those that are to be read again.

    Args:
        documents: All of them.
        n_workers: That read.
    """

    def __init__(self, documents: Sequence[NewDocument], n_workers: int) -> None:
        self._left = deque(documents)
        self._again: deque[NewDocument] = deque()
        self._n_workers = n_workers
        self._n_lost: Counter[str] = Counter()
        self._reached: dict[str, int] = {}  # the last page given on, of documents that are not finished

    def next(self) -> list[NewDocument]:
        """Return documents to read, none if there are no more for now; what was lost comes one by one."""
        if self._again:
            return [self._again.popleft()]
        shard: list[NewDocument] = []
        share = len(self._left) // (_ROUNDS * self._n_workers) if self._n_workers > 1 else len(self._left)
        most = max(1, min(_DOCUMENTS, share))
        while self._left and len(shard) < most and sum(each.source.size for each in shard) < _BYTES:
            shard.append(self._left.popleft())
        return shard

    def __bool__(self) -> bool:
        """Return whether documents are left to read."""
        return bool(self._left or self._again)

    def lose(self, documents: Iterable[NewDocument]) -> list[Event]:
        """Take documents back whose worker was lost, to be read again.

        Returns:
            The end of those that were lost too often: maybe it is they that cost workers their lives.
        """
        given_up: list[Event] = []
        for document in documents:
            self._n_lost[document.doc_id] += 1
            if self._n_lost[document.doc_id] < _ATTEMPTS:
                self._again.append(document)
            else:
                given_up.append(Finished(document, _lost_too_often(document), self._reached.pop(document.doc_id, 0)))
        return given_up

    def fresh(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that were not given on before their document had to be read again."""
        return [event for event in events if self._is_fresh(event)]

    def _is_fresh(self, event: Event) -> bool:
        doc_id = event.document.doc_id
        match event:
            case Opened():
                number = 0
            case Finished():
                self._reached.pop(doc_id, None)
                return True
            case PageEncoded():
                number = event.page.ref.number
            case PageFailed():
                number = event.number
        if number <= self._reached.get(doc_id, -1):
            return False
        self._reached[doc_id] = number
        return True


def _lost_too_often(document: NewDocument) -> DocumentError:
    problem = f"the workers that were at it were lost {_ATTEMPTS} times"
    remedy = "see Ray's logs for what ended them, and ingest again"
    return DocumentError(display_path(document.source.path), problem, remedy, reason="unreadable")
