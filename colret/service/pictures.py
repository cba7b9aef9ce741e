"""Images of pages: drawn one at a time in a thread of their own, the latest kept.

PDFium is not thread-safe, so one thread draws. What clients ask for at the same time is drawn
once. A few drawn pages are kept as pixels, so that the heat of one token after another needs no
new look into the file.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from colret.evidence import Evidence
from colret.matches import heat
from colret.originals import original_among
from colret.overlay import overlay
from colret.page_images import page_image
from colret.service.batching import BusyError
from colret.types import PageRef

if TYPE_CHECKING:
    from PIL.Image import Image

Format = Literal["webp", "png", "jpeg"]
Overlay = Literal["none", "heat", "all"]

MEDIA_TYPES: Final[dict[Format, str]] = {"webp": "image/webp", "png": "image/png", "jpeg": "image/jpeg"}

# WebP at the level at which it takes a fifth of the time of the default, and 2 % more bytes.
_HOW_SAVED: Final[dict[Format, dict[str, int]]] = {
    "webp": {"quality": 80, "method": 1},
    "png": {"compress_level": 3},
    "jpeg": {"quality": 85},
}
_DRAWN_KEPT = 6  # of at most 2400 x 2400 pixels, 17 MB each


@dataclass(frozen=True, slots=True)
class Picture:
    """The image of a page; ``name`` is the same for the same image."""

    name: str
    ref: PageRef
    paths: tuple[str, ...] = field(compare=False)  # of files that may hold the page
    size: int  # pixels of the long side
    format: Format
    overlay: Overlay = "none"  # heat, or also regions
    token: int | None = None  # the one whose heat to draw
    evidence: Evidence | None = field(default=None, compare=False)


@dataclass(slots=True)
class _Drawing:
    """An image that waits to be drawn, and how many wait for it."""

    future: Future[bytes]
    n_waiting: int = 0


class Pictures:
    """Draws pages, and keeps what it drew.

    Args:
        waiting: Images that may wait to be drawn.
        kept_bytes: Of encoded images that are kept.
        observe: Is told the seconds that drawing took.
        storage_options: What opens object storage, where documents may be.
    """

    def __init__(
        self,
        *,
        waiting: int,
        kept_bytes: int,
        observe: Callable[[str, float], None],
        storage_options: Mapping[str, str],
    ) -> None:
        self._storage_options = storage_options
        self._most_waiting = waiting
        self._most_bytes = kept_bytes
        self._observe = observe
        self._thread = ThreadPoolExecutor(1, "colret-pictures")
        self._waiting: dict[str, _Drawing] = {}
        self._encoded: OrderedDict[str, bytes] = OrderedDict()
        self._n_bytes = 0
        self._drawn: OrderedDict[tuple[PageRef, int], Image] = OrderedDict()  # of the thread alone

    async def get(self, picture: Picture) -> bytes:
        """Return an image, encoded.

        Raises:
            BusyError: If too many wait.
            DocumentError: If no file holds the page any more, or it cannot be read.
        """
        if picture.name in self._encoded:
            self._encoded.move_to_end(picture.name)
            return self._encoded[picture.name]
        drawing = self._waiting.get(picture.name)
        if drawing is None:
            if len(self._waiting) >= self._most_waiting:
                raise BusyError
            drawing = self._waiting[picture.name] = _Drawing(self._thread.submit(self._draw, picture))
            loop = asyncio.get_running_loop()
            drawing.future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._keep, picture.name, done))
        drawing.n_waiting += 1
        try:
            return await asyncio.shield(asyncio.wrap_future(drawing.future))  # others may wait for it too
        finally:
            drawing.n_waiting -= 1
            if not drawing.n_waiting and drawing.future.cancel():  # unless it is begun
                self._waiting.pop(picture.name, None)

    def close(self) -> None:
        """End the thread after what it is doing."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _keep(self, name: str, done: Future[bytes]) -> None:
        if done.cancelled():
            return
        self._waiting.pop(name, None)
        if done.exception() is not None:
            return
        self._encoded[name] = done.result()
        self._n_bytes += len(done.result())
        while self._n_bytes > self._most_bytes:
            _, dropped = self._encoded.popitem(last=False)
            self._n_bytes -= len(dropped)

    def _draw(self, picture: Picture) -> bytes:
        began = time.perf_counter()
        image = self._page(picture)
        evidence = picture.evidence
        if evidence is not None and picture.overlay != "none":
            image = overlay(
                image,
                evidence.matches.boxes,
                heat(evidence.matches, token=picture.token),
                evidence.regions if picture.overlay == "all" else (),
                size=(evidence.page.width, evidence.page.height),
                from_words=evidence.from_words,
            )
        buffer = io.BytesIO()
        image.save(buffer, picture.format.upper(), **_HOW_SAVED[picture.format])
        self._observe("draw", time.perf_counter() - began)
        return buffer.getvalue()

    def _page(self, picture: Picture) -> Image:
        key = (picture.ref, picture.size)
        if key not in self._drawn:
            path = original_among(picture.ref.doc_id, picture.paths, self._storage_options)
            self._drawn[key] = page_image(path, picture.ref, size=picture.size)
            if len(self._drawn) > _DRAWN_KEPT:
                self._drawn.popitem(last=False)
        self._drawn.move_to_end(key)
        return self._drawn[key]
