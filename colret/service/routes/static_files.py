"""The page and its parts: a fixed list of files that come with the package, so no path of a request is opened."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)

_MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class _File(NamedTuple):
    content: bytes
    media_type: str
    etag: str


@router.get("/")
async def page(request: Request) -> Response:
    """Return the page."""
    return _answer("index.html", request)


@router.get("/favicon.ico")
async def icon(request: Request) -> Response:
    """Return the icon where browsers look for it."""
    return _answer("icon.svg", request)


@router.get("/static/{name}")
async def part(name: str, request: Request) -> Response:
    """Return a part of the page."""
    return _answer(name, request)


def _answer(name: str, request: Request) -> Response:
    file = _files().get(name)
    if file is None:
        raise HTTPException(404, "no such file")
    headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


@cache
def _files() -> dict[str, _File]:
    """Return all files of the page, by name."""
    found = {}
    for entry in (files("colret.service") / "static").iterdir():
        media_type = _MEDIA_TYPES.get(entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            found[entry.name] = _File(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:20]}"')
    return found
