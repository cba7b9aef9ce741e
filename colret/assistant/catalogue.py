"""The tools as assistants are told of them: what each is called, is for, takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from colret.assistant.answers import Answer, Documents, Found, IndexSummary, ReadPage
from colret.assistant.arguments import (
    Arguments,
    IndexInfoArguments,
    ListDocumentsArguments,
    ReadPageArguments,
    SearchArguments,
)
from colret.assistant.tools import Given, IndexTools


class Tool(NamedTuple):
    """A tool as assistants are told of it."""

    name: str
    title: str
    description: str
    takes: type[Arguments]
    gives: type[Answer]
    call: Callable[[IndexTools, Any], Given]


TOOLS: Final = (
    Tool(
        "search",
        "Search pages",
        "Find the pages of the indexed documents that answer a question: file, page, score, a snippet, the regions "
        "that match, and whether any page is thought to answer at all. Read a page before relying on it.",
        SearchArguments,
        Found,
        IndexTools.search,
    ),
    Tool(
        "read_page",
        "Read a page",
        "Give the text of a page of an indexed document and, with image, how it looks: for tables, figures and scans.",
        ReadPageArguments,
        ReadPage,
        IndexTools.read_page,
    ),
    Tool(
        "list_documents",
        "List documents",
        "List the indexed documents, ordered by path: file, id, number of pages, and why one could not be used.",
        ListDocumentsArguments,
        Documents,
        IndexTools.list_documents,
    ),
    Tool(
        "index_info",
        "Describe the index",
        "Tell how many documents and pages the index holds, and how it ranks them.",
        IndexInfoArguments,
        IndexSummary,
        IndexTools.index_info,
    ),
)
