"""What the service answers, as its OpenAPI description has it."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from colret.lanes import Lane
from colret.verdicts import Basis

Box = tuple[float, float, float, float]


class RegionAnswer(BaseModel):
    """A rectangle that matched."""

    box: Box = Field(description="Left, top, right and bottom in points from the page's upper left corner.")
    score: float = Field(description="Share of the query that it adds to the regions before it.")
    tokens: list[str] = Field(description="Of the query's text, those that it answers best.")
    text: str


class TokenAnswer(BaseModel):
    """A token of the query and the best place of it."""

    token: str
    similarity: float
    box: Box


class EvidenceAnswer(BaseModel):
    """Where on a page a query matched."""

    width: float = Field(description="Of the page, in points.")
    height: float
    regions: list[RegionAnswer]
    tokens: list[TokenAnswer] = Field(description="Of the query's text; none of a search by example.")
    coarse: str | None = Field(description="Why boxes are only rough; null if they are exact.")


class HitAnswer(BaseModel):
    """A page that was found."""

    rank: int
    doc_id: str
    page: int
    page_id: str
    n_pages: int = Field(description="Of its document.")
    file: str
    paths: list[str]
    score: float
    maxsim: float
    bm25: float
    contents_page: bool
    below_floor: bool
    snippet: str
    highlights: list[tuple[int, int]] = Field(description="What matched, in characters of the snippet.")
    evidence: EvidenceAnswer | None = Field(None, description="Of the first 20 pages, if it was asked for.")


class VerdictAnswer(BaseModel):
    """Whether any page answers the query."""

    basis: Basis
    unanswered: bool
    probability: float | None
    caveat: str | None


class SearchAnswer(BaseModel):
    """The best pages, best first."""

    query: str
    lane: Lane
    n_pages: int = Field(description="That could have been found.")
    n_scored: int
    verdict: VerdictAnswer | None = Field(description="Null for a search by example.")
    hits: list[HitAnswer]


class DocumentAnswer(BaseModel):
    """A document of the index."""

    doc_id: str
    file: str
    paths: list[str]
    status: str
    reason: str | None
    n_pages: int
    n_blank: int
    skipped: list[int] = Field(description="Pages that could not be read.")
    size: int = Field(description="In bytes.")
    modified: datetime | None


class DocumentsAnswer(BaseModel):
    """Part of the list of documents."""

    documents: list[DocumentAnswer]
    total: int
    next: int | None = Field(description="What to give as after for the next part; null at the end.")


class PageAnswer(BaseModel):
    """A page of a document."""

    doc_id: str
    page: int
    n_pages: int
    file: str
    paths: list[str]
    indexed: bool = Field(description="Whether it can be found; a blank page cannot.")
    text: str
    snippet: str
    highlights: list[tuple[int, int]]
    evidence: EvidenceAnswer | None


class IndexAnswer(BaseModel):
    """What the index holds."""

    version: str = Field(description="Another after each commit.")
    model: str
    codec: str
    n_documents: int
    n_failed: int
    n_pages: int
    n_blank: int
    n_vectors: int
    bytes: int
    needs_key: bool
    most_hits: int
