"""What those who run the service ask: is it alive, ready, how busy, what does it hold; and a browser's session."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from colret.service.access import COOKIE
from colret.service.answers import IndexAnswer
from colret.service.batching import BusyError
from colret.service.library import Library
from colret.service.limits import MOST_HITS
from colret.service.routes.context import API, Here
from colret.service.telling import index_answer
from colret.types import IndexInfo

router = APIRouter(tags=["operations"])
api = APIRouter(prefix=API, tags=["operations"])

_SCRAPE_SECONDS = 3.0  # Prometheus gives up after ten


@router.get("/healthz", summary="Is the process alive")
async def alive() -> dict[str, str]:
    """Answer, without looking at the index."""
    return {"status": "ok"}


@router.get("/readyz", summary="Can searches be answered")
async def ready(here: Here) -> dict[str, str | int]:
    """Read the index; 503 if it cannot be read or holds no pages."""
    n_pages, version = await here.engine.ask(lambda library: (library.n_pages, library.version))
    if not n_pages:
        raise HTTPException(503, "the index holds no pages yet", {"Retry-After": "5"})
    return {"status": "ok", "n_pages": n_pages, "version": version}


@router.get("/metrics", summary="Counters for Prometheus", response_class=Response)
async def metrics(here: Here) -> Response:
    """Return all counters in Prometheus' text format; those of the index as last seen, while too much waits to look."""
    seen = None
    with suppress(BusyError, TimeoutError):
        async with asyncio.timeout(_SCRAPE_SECONDS):
            seen = await here.engine.ask(lambda library: (library.n_pages, library.version))
    text = here.engine.metrics.text(here.engine.n_waiting, seen)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@api.get("/index", summary="Describe the index")
async def index(here: Here) -> IndexAnswer:
    """Return what the index holds."""

    def look(library: Library) -> tuple[IndexInfo, str]:
        return library.info(), library.version

    info, version = await here.engine.ask(look)
    return index_answer(info, version, needs_key=bool(here.access.keys), most_hits=MOST_HITS)


@api.post("/session", summary="Let a browser in", status_code=204, response_class=Response)
async def session(here: Here, request: Request) -> Response:
    """Give a browser that shows a key a cookie that stands for it until the browser is closed."""
    response = Response(status_code=204)
    token = here.access.session(request.headers)
    if token is not None:
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, path="/")
    return response
