"""What the service refuses, and how long it tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST_CHARACTERS: Final = 1000
"""Of a query: its time grows with it."""

MOST_CONDITION: Final = 1000
"""Characters of a condition, of a document's name, of a range of pages."""

MOST_DOCUMENTS: Final = 20
"""Names of documents that a search is limited to."""

MOST_HITS: Final = 100
"""Pages that a search returns."""

MOST_WITH_EVIDENCE: Final = 20
"""Pages that a search tells the evidence of, the first ones: finding that takes longer than finding them."""

MOST_LISTED: Final = 1000
"""Documents on a page of the list."""

SMALLEST_SIDE, LARGEST_SIDE = 64, 2400
"""Pixels of the long side of a page's image."""

QUERIES_TOGETHER, CHARACTERS_TOGETHER = 64, 4000
"""That one call of the index answers; whoever comes after long ones can still give up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What can be set; the defaults suit a machine of a few cores."""

    seconds: float = 30.0  # for an answer, from the request's arrival
    body_seconds: float = 30.0  # for a body to arrive
    head_seconds: float = 15.0  # for a request's head to arrive
    head_bytes: int = 16 << 10  # of it
    body_bytes: int = 20 << 20  # of an image
    json_bytes: int = 1 << 20  # of any other body: several times what the longest question takes
    bodies_bytes: int = 256 << 20  # of all bodies that are in memory
    queue: int = 256  # searches that wait
    pictures: int = 256  # page images that wait to be drawn
    picture_bytes: int = 64 << 20  # of encoded images that are kept
    gather_seconds: float = 0.003  # that a search waits for others to be answered with it
    connections: int = 1000
