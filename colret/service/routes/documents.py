"""Documents, their pages, and the images of these."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException

import colret
from colret.service.answers import DocumentAnswer, DocumentsAnswer, PageAnswer
from colret.service.findings import ShownPage
from colret.service.library import Library
from colret.service.limits import LARGEST_SIDE, MOST_CHARACTERS, MOST_LISTED, SMALLEST_SIDE
from colret.service.pictures import MEDIA_TYPES, Format, Overlay, Picture
from colret.service.routes.context import API, Context, Here
from colret.service.routes.searching import DocId, Number
from colret.service.telling import document_answer, page_answer

router = APIRouter(prefix=API, tags=["documents"])

_KEEP_SECONDS = 3600  # a page's image: the document's id is that of its content
_NO_PAGE = "no such page in the index"

Text = Annotated[str | None, Query(max_length=MOST_CHARACTERS, description="What is looked for.")]


@router.get("/documents", summary="List documents")
async def documents(
    here: Here,
    after: Annotated[int, Query(ge=0, le=10**9, description="How many to leave out at the beginning.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
) -> DocumentsAnswer:
    """List what is known of each document, those that could not be read too, by path."""
    records, total = await here.engine.ask(lambda library: library.documents(after, limit))
    end = after + len(records)
    return DocumentsAnswer(
        documents=[document_answer(record, here.names) for record in records],
        total=total,
        next=end if records and end < total else None,
    )


@router.get("/documents/{doc_id}", summary="Describe a document")
async def document(here: Here, doc_id: DocId) -> DocumentAnswer:
    """Return what is known of a document."""
    record = await here.engine.ask(lambda library: library.document(doc_id))
    if record is None:
        raise HTTPException(404, "no such document in the index")
    return document_answer(record, here.names)


@router.get("/documents/{doc_id}/pages/{number}", summary="Describe a page")
async def page(here: Here, doc_id: DocId, number: Number, text: Text = None) -> PageAnswer:
    """Return a page's words, and where on it a text matches: regions, and the best place of each token."""
    _, shown = await _shown(here, doc_id, number, text)
    return page_answer(shown, here.names)


@router.get(
    "/documents/{doc_id}/pages/{number}/image",
    summary="Draw a page",
    response_class=Response,
    responses={200: {"content": {kind: {} for kind in MEDIA_TYPES.values()}}, 304: {}, 410: {"description": "No file "
    "holds the page any more."}},
)  # fmt: skip
async def image(
    here: Here,
    request: Request,
    doc_id: DocId,
    number: Number,
    size: Annotated[int, Query(ge=SMALLEST_SIDE, le=LARGEST_SIDE, description="Pixels of the long side.")] = 1200,
    format: Annotated[Format, Query()] = "webp",
    text: Text = None,
    overlay: Annotated[Overlay, Query(description="What of the text to draw: heat alone, or regions too.")] = "none",
    token: Annotated[int | None, Query(ge=0, description="Draw the heat of this token, from 0, alone.")] = None,
) -> Response:
    """Return the image of a page, with what of a text matched drawn on it if that is asked for."""
    if overlay != "none" and not text:
        raise HTTPException(400, "overlay: give the text that it shows")
    asked = text if overlay != "none" else None
    version, shown = await _shown(here, doc_id, number, asked)
    picture = _picture(shown, version if asked else "", size, format, asked or "", overlay, token)
    headers = {
        "ETag": f'"{picture.name}"',
        "Cache-Control": "private, no-cache" if asked else f"private, max-age={_KEEP_SECONDS}",
    }
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    content = await here.engine.picture(picture)
    return Response(content, media_type=MEDIA_TYPES[format], headers=headers)


async def _shown(here: Context, doc_id: str, number: int, text: str | None) -> tuple[str, ShownPage]:
    """Return a page, and the version of the index that it was seen in."""

    def look(library: Library) -> tuple[str, ShownPage | None]:
        shown = library.page(doc_id, number, text)
        return library.version, shown

    try:
        version, shown = await here.engine.ask(look)
    except ValueError as error:  # a text without tokens
        raise HTTPException(400, f"text: {error}") from error
    if shown is None:
        raise HTTPException(404, _NO_PAGE)
    return version, shown


def _picture(
    shown: ShownPage, version: str, size: int, format: Format, text: str, overlay: Overlay, token: int | None
) -> Picture:
    evidence = shown.evidence
    if token is not None and (evidence is None or token >= len(evidence.tokens)):
        n_tokens = 0 if evidence is None else len(evidence.tokens)
        raise HTTPException(400, f"token: the text has {n_tokens} tokens that have a place, numbered from 0")
    what = (colret.__version__, version, *shown.ref, size, format, overlay, token, text)
    name = hashlib.sha256(repr(what).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    paths = tuple(file.path for file in shown.document.files)
    return Picture(name, shown.ref, paths, size, format, overlay, token, evidence)
