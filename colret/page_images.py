"""A page of an index as an image, with what a query found drawn on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from colret.evidence import Evidence
from colret.matches import heat
from colret.originals import read_page_of
from colret.overlay import fit, overlay
from colret.types import PageRef

if TYPE_CHECKING:
    from PIL.Image import Image


def page_image(
    path: Path,
    ref: PageRef,
    *,
    size: int,
    evidence: Evidence | None = None,
    token: int | None = None,
    full: float = 0.0,
) -> Image:
    """Return a page's image, RGB, its long side at most ``size`` pixels.

    Args:
        path: The page's file: see ``originals.find_original``.
        ref: The page.
        size: In pixels, ``overlay.MIN_SIDE`` to ``overlay.MAX_SIDE``.
        evidence: What to draw on it; by default nothing.
        token: Index of the one token whose heat to draw; by default that of all.
        full: As for ``matches.heat``.

    Raises:
        DocumentError: If the file or the page cannot be read.
    """
    page = read_page_of(path, ref, pixels=size * size)
    assert page.image is not None  # pixels were asked for
    image = fit(page.image, size)
    if evidence is None:
        return image
    return overlay(
        image,
        evidence.matches.boxes,
        heat(evidence.matches, token=token, full=full),
        evidence.regions,
        size=(evidence.page.width, evidence.page.height),
        from_words=evidence.from_words,
    )
