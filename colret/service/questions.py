"""What may be asked, as OpenAPI describes it, and what the library is asked for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from colret.conditions import condition, page_range
from colret.errors import FilterError
from colret.lanes import Lane
from colret.service.conditions import check_condition, document_name
from colret.service.findings import How
from colret.service.limits import MOST_CHARACTERS, MOST_CONDITION, MOST_DOCUMENTS, MOST_HITS

Text = Annotated[str, StringConstraints(min_length=1, max_length=MOST_CHARACTERS)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=MOST_CONDITION)]


class Narrowing(BaseModel):
    """How many pages are wanted, and which may be found."""

    model_config = ConfigDict(extra="forbid")

    k: int = Field(10, ge=1, le=MOST_HITS, description="Pages to return.")
    docs: list[Name] = Field(
        [], max_length=MOST_DOCUMENTS, description="Only these documents: files' names, paths, patterns, or ids."
    )
    where: Name | None = Field(
        None, description="Only pages that satisfy a condition in SQL, such as path LIKE '%2023%' AND n_pages < 10."
    )
    pages: str | None = Field(None, max_length=32, description="Only these pages of documents: 3, 3-10, 3- or -10.")
    after: datetime | None = Field(None, description="Only files modified then or later; UTC unless it says otherwise.")
    before: datetime | None = Field(None, description="Only files modified before that.")
    per_document: bool = Field(False, description="Only the best page of each document.")
    evidence: bool = Field(True, description="Tell where on the pages the query matched.")

    def how(self, *, hide_paths: bool, lane: Lane | None = None) -> How:
        """Return how the library is asked.

        Raises:
            FilterError: If a filter is wrong, or may not be used here.
        """
        if self.where is not None:
            check_condition(self.where, hide_paths=hide_paths)
        try:
            pages = None if self.pages is None else page_range(self.pages)
        except ValueError as error:
            raise FilterError("pages", str(error), "give one such as 3-10") from error
        return How(
            k=self.k,
            where=condition(self.where, pages, _aware(self.after), _aware(self.before)),
            docs=tuple(document_name(name, hide_paths=hide_paths) for name in self.docs),
            per_document=self.per_document,
            lane=lane,
            with_evidence=self.evidence,
        )


class SearchQuestion(Narrowing):
    """A search by text."""

    text: Text = Field(description='What is looked for; "quoted phrases" have to be on the page.')
    lane: Lane | None = Field(None, description="Rank by late interaction, by words, or by both.")


def _aware(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
