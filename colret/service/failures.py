"""What went wrong, as one line of JSON: ``{"error": ...}``."""

from __future__ import annotations

import logging
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from colret.database import StaleReadError
from colret.errors import ColretError, DocumentError, FilterError, StoreError, one_line
from colret.service.batching import BusyError
from colret.service.engine import EXAMPLE
from colret.service.incoming import BUSY, LATER

log = logging.getLogger("colret.service")

INTERNAL: Final = "something went wrong here; the server's log says what"

_GONE = frozenset(["missing", "changed_while_read"])
_MOST_TOLD = 300  # characters


def failure(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an answer that says in one line what went wrong."""
    headers = {**(headers or {}), "Cache-Control": "no-store"}
    return JSONResponse({"error": one_line(message)[:_MOST_TOLD]}, status, headers)


def add_handlers(app: FastAPI) -> None:
    """Have an application answer all failures so."""

    def of_colret(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ColretError)
        return _told(error, hide_paths=request.app.state.context.hide_paths)

    def busy(request: Request, error: Exception) -> JSONResponse:
        return failure(503, BUSY, LATER)

    def too_slow(request: Request, error: Exception) -> JSONResponse:
        return failure(
            504, "it took too long; ask for less, try again later, or start the service with a longer --timeout"
        )

    def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return failure(400, _invalid(error))

    def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return failure(error.status_code, str(error.detail), dict(error.headers or {}))

    app.add_exception_handler(ColretError, of_colret)
    app.add_exception_handler(BusyError, busy)
    app.add_exception_handler(TimeoutError, too_slow)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def _told(error: ColretError, *, hide_paths: bool) -> JSONResponse:
    if isinstance(error, FilterError):
        return failure(400, str(error))
    if isinstance(error, DocumentError):
        return _of_document(error, hide_paths)
    if isinstance(error, StoreError):
        log.error("%s", error)
        problem = "cannot be read at the moment" if isinstance(error, StaleReadError) else error.problem
        if problem.startswith("LanceDB") or (hide_paths and "/" in problem):
            problem = "cannot be read at the moment"
        return failure(503, f"the index {problem}; try again in a moment", LATER)
    log.error("%s", error)
    return failure(500, INTERNAL)


def _of_document(error: DocumentError, hide_paths: bool) -> JSONResponse:
    if error.subject.startswith(EXAMPLE):  # what the client sent is to blame
        status = {"too_large": 413, "not_an_image": 415}.get(error.reason, 422)
        return failure(status, str(error))
    subject = error.subject.replace("\\", "/").rsplit("/", 1)[-1] if hide_paths else error.subject
    if error.reason in _GONE:
        return failure(410, f"{subject}: {error.problem}, so this page cannot be shown")
    if error.reason == "unreadable":  # a disk or an object store that does not answer now
        problem = "cannot be read at the moment" if hide_paths else error.problem
        return failure(503, f"{subject}: {problem}; try again in a moment", LATER)
    return failure(422, f"{subject}: {error.problem}")


def _invalid(error: RequestValidationError) -> str:
    """Return the first thing that is wrong with a request."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    return f"{name[:60] or 'request'}: {first['msg']}"
