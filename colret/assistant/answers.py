"""What the tools give: fields for programs, and the same as text for whoever reads."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from colret.lanes import Lane
from colret.verdicts import Basis
from colret.wording import RANKED_BY, count


class Answer(BaseModel):
    """The answer of a tool."""

    def as_text(self) -> str:
        """Return the answer in lines."""
        raise NotImplementedError


class FoundRegion(BaseModel):
    """A rectangle of a page that matched."""

    box: list[float] = Field(description="Left, top, right, bottom in points from the upper left")
    share: float = Field(description="Of the query that it contributes")
    text: str


class FoundPage(BaseModel):
    """A page that was found."""

    rank: int
    file: str
    page: int
    page_id: str
    score: float = Field(description="What it is ranked by; higher is better")
    snippet: str = Field(description="Words around what matched")
    below_floor: bool = Field(description="Probably no answer")
    contents_page: bool = Field(description="A list of contents")
    regions: list[FoundRegion] = Field(description="What matched, that which contributes most first")


class Found(Answer):
    """What ``search`` gives."""

    text: str
    lane: Lane
    n_pages: int = Field(description="Pages that could have been found")
    n_scored: int = Field(description="Of them, those that were scored")
    answered: bool = Field(description="Whether any page is thought to answer")
    probability: float | None = Field(description="That one answers, if half of all queries have an answer")
    odds: str | None = Field(description="The same as odds")
    basis: Basis = Field(description="What that was judged by")
    caveat: str | None = Field(description="Why that judgement is less than it could be")
    hits: list[FoundPage]

    def as_text(self) -> str:
        """Return the answer in lines."""
        if not self.hits:
            return "no page has these words"
        lines = [f"{len(self.hits)} of {count(self.n_pages, 'page')}, {RANKED_BY[self.lane]}"]
        if not self.answered:
            known = f" (odds {self.odds} that one does)" if self.odds else ""
            lines.append(f"probably no page answers this{known}")
        for hit in self.hits:
            remarks = "".join(
                [", a contents page" if hit.contents_page else "", ", probably no answer" if hit.below_floor else ""]
            )
            lines += [f"{hit.rank}. {hit.file} page {hit.page}, score {hit.score:.3f}{remarks}", f"   {hit.snippet}"]
        return "\n".join(lines)


class ReadPage(Answer):
    """What ``read_page`` gives."""

    file: str
    page: int
    page_id: str
    width: float = Field(description="In points, as displayed")
    height: float
    text: str = Field(description="Its words in reading order, from the offset on")
    n_characters: int = Field(description="Of the whole page's text")
    next_offset: int | None = Field(description="Where the rest begins; null if there is none")

    def as_text(self) -> str:
        """Return the answer in lines."""
        rest = "" if self.next_offset is None else f"\n(more from offset {self.next_offset})"
        return f"{self.file} page {self.page}\n\n{self.text or '(no words)'}{rest}"


class ListedDocument(BaseModel):
    """A document of the index."""

    doc_id: str
    file: str
    more_files: int = Field(description="Other paths that hold the same content")
    n_pages: int
    status: Literal["done", "failed"]
    problem: str | None = Field(description="Why it could not be used")


class Documents(Answer):
    """What ``list_documents`` gives."""

    documents: list[ListedDocument]
    n_documents: int = Field(description="That the list has in all")
    n_indexed: int = Field(description="That the index has, listed or not")
    next_offset: int | None = Field(description="Where the rest begins; null if there is none")

    def as_text(self) -> str:
        """Return the answer in lines."""
        if self.n_indexed and not self.n_documents:
            return f"none of {count(self.n_indexed, 'document')}"
        lines = [f"{len(self.documents)} of {count(self.n_documents, 'document')}"]
        for each in self.documents:
            pages = count(each.n_pages, "page") if each.status == "done" else f"failed: {each.problem}"
            lines.append(f"{each.doc_id[:12]}  {each.file}  {pages}")
        if self.next_offset is not None:
            lines.append(f"(more from offset {self.next_offset})")
        return "\n".join(lines)


class IndexSummary(Answer):
    """What ``index_info`` gives."""

    model: str
    n_documents: int
    n_failed_documents: int
    n_pages: int
    n_blank_pages: int
    n_unreadable_pages: int
    n_vectors: int
    codec: str
    dimensions: int
    bytes: int = Field(description="That the index takes")
    default_lane: Lane = Field(description="What search ranks by unless it is told")
    calibrated: bool = Field(description="Whether search knows the probability of an answer")
    created: str = Field(description="ISO 8601, UTC")

    def as_text(self) -> str:
        """Return the answer in lines."""
        return "\n".join(
            [
                f"{count(self.n_pages, 'page')} of {count(self.n_documents, 'document')}, {self.model}",
                f"{self.n_blank_pages:,} blank and {self.n_unreadable_pages:,} unreadable pages, and "
                f"{count(self.n_failed_documents, 'document')} that could not be used, are left out",
                f"{self.n_vectors:,} vectors of {self.dimensions} dimensions in {self.codec}, {self.bytes:,} bytes",
                f"ranked {RANKED_BY[self.default_lane]}; {'' if self.calibrated else 'not '}calibrated",
            ]
        )
