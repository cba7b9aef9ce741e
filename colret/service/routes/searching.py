"""Searches: by text, by an image, by a page of the index."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException

from colret.service.answers import SearchAnswer
from colret.service.questions import Narrowing, SearchQuestion
from colret.service.routes.context import API, Context, Here
from colret.service.telling import search_answer

router = APIRouter(prefix=API, tags=["search"])

_DOC_ID = "^[0-9a-f]{32}$"


def _document_id(text: str) -> str:
    if re.fullmatch(_DOC_ID, text) is None:
        raise PydanticCustomError("doc_id", "an id has 32 digits 0-9a-f, as searches and lists give it")
    return text


DocId = Annotated[
    str,
    Path(description="As searches and lists give it.", json_schema_extra={"pattern": _DOC_ID}),
    AfterValidator(_document_id),
]
Number = Annotated[int, Path(ge=1, le=999_999_999, description="Of the page, from 1.")]

_IMAGES = {
    "requestBody": {
        "required": True,
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("image/png", "image/jpeg", "image/webp", "image/tiff")
        },
    }
}


@router.get("/search", summary="Search by text")
async def search(here: Here, question: Annotated[SearchQuestion, Query()]) -> SearchAnswer:
    """Rank the pages that answer a text, best first."""
    return await _answer(here, question)


@router.post("/search", summary="Search by text, asked as JSON")
async def search_json(here: Here, question: Annotated[SearchQuestion, Body()]) -> SearchAnswer:
    """Rank the pages that answer a text, best first."""
    return await _answer(here, question)


@router.post("/search/image", summary="Search by an image", openapi_extra=_IMAGES)
async def search_image(here: Here, narrowing: Annotated[Narrowing, Query()], request: Request) -> SearchAnswer:
    """Rank the pages most like an image, which is the body: PNG, JPEG, TIFF or WebP. Of a TIFF it is the first page."""
    content = await request.body()
    if not content:
        raise HTTPException(400, "the body is empty; send an image as the body")
    found = await here.engine.search_image(content, narrowing.how(hide_paths=here.hide_paths))
    return search_answer(found, here.names)


@router.get("/documents/{doc_id}/pages/{number}/like", summary="Search by a page of the index")
async def like(here: Here, doc_id: DocId, number: Number, narrowing: Annotated[Narrowing, Query()]) -> SearchAnswer:
    """Rank the pages most like a page, which is left out."""
    how = narrowing.how(hide_paths=here.hide_paths)
    shown = await here.engine.ask(lambda library: library.page(doc_id, number, None))
    if shown is None or shown.details is None:
        raise HTTPException(404, "no such page in the index")
    return search_answer(await here.engine.ask(lambda library: library.like(doc_id, number, how)), here.names)


async def _answer(here: Context, question: SearchQuestion) -> SearchAnswer:
    how = question.how(hide_paths=here.hide_paths, lane=question.lane)
    try:
        found = await here.engine.search(question.text, how)
    except ValueError as error:  # a text without tokens
        raise HTTPException(400, f"text: {error}") from error
    return search_answer(found, here.names)
