"""What a labelled set is: documents, queries about their pages, and which pages answer each query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote

from colret.errors import ColretError
from colret.types import Page, PageRef
from colret_eval.measures import Qrels

Value = TypeVar("Value")


class DatasetError(ColretError):
    """A labelled set cannot be used; ``subject`` names the file and, where one is at fault, the line."""


class PageDocument(Protocol):
    """A document that is no file: pages of text, or images out of a table."""

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of its pages, from 1, ascending; there may be gaps."""

    def read_page(self, number: int, *, ref: PageRef, pixels: int, ocr: bool) -> Page:
        """Return a page, as ``colret.reading.Document`` does.

        Raises:
            ColretError: The page cannot be read.
            IndexError: There is no such page.
        """


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents, queries about them, and which pages answer each.

    The corpus is ``documents``, ``page_documents``, or (in a union) both; a name is in one of them.
    """

    name: str
    folder: Path
    queries: dict[str, str]  # query id to text, in the file's order; each has a relevant page
    qrels: Qrels  # query id to page key to grade, in the same order
    documents: dict[str, Path]  # document name, as in page keys, to its file
    sources: dict[str, str] = field(repr=False)  # query id to document name: the first with a relevant page
    no_answer: dict[str, str] = field(default_factory=dict)  # query id to text: no page answers these
    page_documents: dict[str, PageDocument] = field(default_factory=dict, repr=False)
    synthetic: bool = False  # queries were made from the pages they ask for: see ``synth``

    @property
    def pdfs(self) -> tuple[Path, ...]:
        """The files of the corpus."""
        return tuple(self.documents.values())


def page_key(name: str, number: int) -> str:
    """Return ``name:number``, white space and ``%`` percent-encoded so that TREC files can carry it.

    >>> page_key("Annual report.pdf", 3)
    'Annual%20report.pdf:3'
    """
    return PageRef(without_spaces(name), number).page_id


def without_spaces(name: str) -> str:
    """Return ``name``, white space and ``%`` percent-encoded; ``urllib.parse.unquote`` gives it back."""
    return re.sub(r"[\s%]", lambda match: quote(match[0]), name)


def read_pages(name: str, document: PageDocument, *, pixels: int, ocr: bool) -> Iterator[Page]:
    """Yield the pages of the document called ``name``; each ``ref.page_id`` is its key in the qrels.

    Args:
        name: Of the document, as in ``Dataset.page_documents``.
        document: Its pages.
        pixels: Largest number of pixels of a page's image; 0 leaves the image out.
        ocr: Read the image of a page that has no words.

    Raises:
        ColretError: A page cannot be read, or has no image where one is asked for.
    """
    for number in document.numbers:
        ref = PageRef.parse(page_key(name, number))
        yield document.read_page(number, ref=ref, pixels=pixels, ocr=ocr)


def union(datasets: Sequence[Dataset], name: str = "all") -> Dataset:
    """Return the sets as one: ids and document names are prefixed with their set's name.

    Raises:
        ValueError: If two sets share a name.
    """
    if len({dataset.name for dataset in datasets}) < len(datasets):
        raise ValueError("sets of one name cannot be told apart")
    merged = Dataset(name, Path(), {}, {}, {}, {}, synthetic=any(dataset.synthetic for dataset in datasets))
    for dataset in datasets:
        at = f"{dataset.name}/"
        in_keys = without_spaces(at)
        merged.queries.update(_prefixed(at, dataset.queries))
        merged.no_answer.update(_prefixed(at, dataset.no_answer))
        merged.qrels.update({at + query: _prefixed(in_keys, pages) for query, pages in dataset.qrels.items()})
        merged.documents.update(_prefixed(at, dataset.documents))
        merged.page_documents.update(_prefixed(at, dataset.page_documents))
        merged.sources.update({at + query: at + source for query, source in dataset.sources.items()})
    return merged


def _prefixed(at: str, entries: Mapping[str, Value]) -> dict[str, Value]:
    return {at + key: value for key, value in entries.items()}
