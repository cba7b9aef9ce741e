"""What the library is asked, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass

from colret.evidence import Evidence
from colret.lanes import Lane
from colret.results import Results
from colret.service.answers import EvidenceAnswer
from colret.types import DocumentRecord, PageDetails, PageRef


@dataclass(frozen=True, slots=True)
class How:
    """How texts are searched for; what is equal can be searched together."""

    k: int
    where: str | None = None
    docs: tuple[str, ...] = ()
    per_document: bool = False
    lane: Lane | None = None  # of texts
    with_evidence: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    results: Results
    evidence: list[EvidenceAnswer] | None  # of the first hits, if that was asked for
    documents: dict[str, DocumentRecord]  # of the hits, by id


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page of a document, and what of it matches a text."""

    document: DocumentRecord
    ref: PageRef
    details: PageDetails | None  # None where it has no vectors, as a blank one
    evidence: Evidence | None  # None where nothing is asked
