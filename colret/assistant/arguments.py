"""What the tools take: bounded, described for whoever calls them, and refused where it is anything else."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from colret.lanes import Lane

MAX_HITS: Final = 50
MAX_LISTED: Final = 200
"""Documents of one answer."""

MAX_CHARACTERS: Final = 20_000
"""Characters of a page's text in one answer."""

_MAX_QUERY = 2_000  # characters, as are the next two
_MAX_NAME = 4_096
_MAX_CONDITION = 1_000
_MAX_DOCS = 100

_Name = Annotated[str, Field(min_length=1, max_length=_MAX_NAME)]
_NAMES = "a path, a folder, a glob such as *.pdf, or the first 8 or more digits of a document's id"


class Arguments(BaseModel):
    """The arguments of a tool; unknown ones are refused, so that a misspelt one is no silent default."""

    model_config = ConfigDict(extra="forbid")


class SearchArguments(Arguments):
    """What ``search`` takes."""

    text: str = Field(
        min_length=1,
        max_length=_MAX_QUERY,
        description='A question or some words; words in "double quotes" have to stand on the page in that order.',
    )
    k: int = Field(5, ge=1, le=MAX_HITS, description="Pages to return.")
    lane: Lane | None = Field(
        None,
        description="What pages are ranked by: visual (late interaction), text (words alone: names, numbers, "
        "codes) or both; by default what suits the index.",
    )
    docs: list[_Name] = Field(
        default_factory=list, max_length=_MAX_DOCS, description=f"Search only these documents: each {_NAMES}."
    )
    where: str | None = Field(
        None,
        min_length=1,
        max_length=_MAX_CONDITION,
        description="Search only pages that satisfy this SQL condition on path, file, folder, doc_id, page, n_pages, "
        "n_vectors, size (bytes) and modified (UTC), such as: file ILIKE '%2023%' AND page <= 20",
    )
    per_document: bool = Field(False, description="Return only the best page of each document.")


class ReadPageArguments(Arguments):
    """What ``read_page`` takes."""

    file: _Name = Field(description=f"The document, as search gives it: {_NAMES}.")
    page: int = Field(1, ge=1, le=10_000_000, description="The page's number, from 1.")
    offset: int = Field(0, ge=0, le=1_000_000_000, description="Characters of its text to pass over.")
    image: bool = Field(False, description="Give the page's image too, as PNG.")
    size: int = Field(1000, ge=200, le=1600, description="Long side of the image in pixels.")


class ListDocumentsArguments(Arguments):
    """What ``list_documents`` takes."""

    contains: str | None = Field(
        None, min_length=1, max_length=_MAX_NAME, description="Only documents whose path contains this, in any case."
    )
    offset: int = Field(0, ge=0, le=1_000_000_000, description="Documents to pass over.")
    limit: int = Field(50, ge=1, le=MAX_LISTED, description="Documents to return.")


class IndexInfoArguments(Arguments):
    """``index_info`` takes nothing."""
