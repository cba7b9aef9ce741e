"""What routes need of the application that serves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request

from colret.service.access import Access
from colret.service.engine import Engine
from colret.service.telling import Names

API: Final = "/api/v1"
"""Where what programs ask begins."""

IMAGE_SEARCH: Final = f"{API}/search/image"
"""Where images are sent, the only bodies that may be large."""


@dataclass(frozen=True, slots=True)
class Context:
    """The engine, and what may be told."""

    engine: Engine
    access: Access
    hide_paths: bool

    @property
    def names(self) -> Names:
        """How files are told."""
        return Names(hide_paths=self.hide_paths)


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


Here = Annotated[Context, Depends(_context)]
"""A parameter of a route."""
