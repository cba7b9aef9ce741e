"""The application: routes, what they need, and what guards them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI

import colret
from colret.encoders import Encoder
from colret.service.access import Access
from colret.service.engine import Engine
from colret.service.failures import add_handlers
from colret.service.guard import Guard
from colret.service.library import Library
from colret.service.limits import Limits
from colret.service.metrics import Metrics
from colret.service.routes import documents, operations, searching, static_files
from colret.service.routes.context import API, Context

_OPEN: Final = Access()
_LIMITS: Final = Limits()


def create_app(
    library: Library,
    encoder: Encoder,
    *,
    access: Access = _OPEN,
    limits: Limits = _LIMITS,
    hide_paths: bool = False,
) -> FastAPI:
    """Return an ASGI application that searches an index.

    Args:
        library: The index; nobody else may use it from here on.
        encoder: Its encoder: see ``Library.load``.
        access: Who may ask.
        limits: How much, and how long.
        hide_paths: Tell files' names without their folders.
    """
    metrics = Metrics()
    engine = Engine(library, encoder, limits, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        engine.close()

    app = FastAPI(
        title="colret",
        summary="Finds the right page in folders of PDFs.",
        version=colret.__version__,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # FastAPI's pages load their scripts from other hosts
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.context = Context(engine, access, hide_paths)
    app.include_router(searching.router)
    app.include_router(documents.router)
    app.include_router(operations.api)
    app.include_router(operations.router)
    app.include_router(static_files.router)
    app.add_middleware(Guard, access=access, limits=limits, metrics=metrics)
    add_handlers(app)
    return app
