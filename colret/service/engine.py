"""What the routes ask: searches, pages and images, each within its time."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from threadpoolctl import threadpool_limits

from colret.encoders import Encoder
from colret.errors import DocumentError
from colret.images import ImageFile
from colret.reading import Document
from colret.service.batching import Batcher, BusyError
from colret.service.findings import Found, How
from colret.service.library import Library
from colret.service.limits import CHARACTERS_TOGETHER, QUERIES_TOGETHER, Limits
from colret.service.metrics import Metrics
from colret.service.pictures import Picture, Pictures
from colret.types import Page, PageRef

Value = TypeVar("Value")

EXAMPLE: Final = "the image"
"""What an image that was sent is called."""

_READ_AT_ONCE = 4  # images that were sent and wait to be read: OCR takes seconds each
_IMAGE_MARKS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"RIFF")


class Engine:
    """The threads behind the service.

    Args:
        library: The index; from here on only the engine's search thread uses it.
        encoder: Its encoder, loaded.
        limits: How much may wait, and how long.
        metrics: Is told what happens.
    """

    def __init__(self, library: Library, encoder: Encoder, limits: Limits, metrics: Metrics) -> None:
        self.limits = limits
        self.metrics = metrics
        self._library = library
        self._encoder = encoder
        self._searches: Batcher[How, Found] = Batcher(
            self._search,
            most=QUERIES_TOGETHER,
            most_characters=CHARACTERS_TOGETHER,
            gather_seconds=limits.gather_seconds,
            length=limits.queue,
            observe=metrics.observe,
        )
        self._pictures = Pictures(
            waiting=limits.pictures,
            kept_bytes=limits.picture_bytes,
            storage_options=library.storage_options,
            observe=metrics.observe,
        )
        # A query's matrices are small: with a thread a core OpenBLAS waits more than it computes.
        self._one_core = threadpool_limits(1, "blas")
        self._reader = ThreadPoolExecutor(1, "colret-reader")
        self._n_reading = 0
        self._has_page_model = False  # in memory: of words the first page loads it

    @property
    def n_waiting(self) -> int:
        """Searches that wait."""
        return len(self._searches)

    async def search(self, text: str, how: How) -> Found:
        """Return what is found for a text; raises as ``Library.search``, and ``BusyError`` or ``TimeoutError``."""
        return await self._within(self._searches.ask(text, how))

    async def ask(self, question: Callable[[Library], Value]) -> Value:
        """Return what ``question`` finds in the library, in the thread that may ask it; raises as ``search``."""
        return await self._within(self._searches.call(lambda: question(self._library)))

    async def search_image(self, content: bytes, how: How) -> Found:
        """Return the pages most like an image.

        Raises:
            DocumentError: If it is none, or has nothing that the model reads.
        """

        async def answer() -> Found:
            page = await self._read(content)
            return await self._searches.call(lambda: self._library.like_page(page, EXAMPLE, how))

        return await self._within(answer())

    async def picture(self, picture: Picture) -> bytes:
        """Return an image, encoded; raises as ``Pictures.get``, and ``TimeoutError``."""
        return await self._within(self._pictures.get(picture))

    def close(self) -> None:
        """End all threads."""
        self._searches.close()
        self._pictures.close()
        self._one_core.restore_original_limits()
        self._reader.shutdown(wait=True, cancel_futures=True)

    async def _within(self, work: Awaitable[Value]) -> Value:
        async with asyncio.timeout(self.limits.seconds):
            return await work

    def _search(self, texts: Sequence[str], how: How) -> Sequence[Found]:
        began = time.perf_counter()
        try:
            return self._library.search(texts, how)
        finally:
            self.metrics.observe("search", time.perf_counter() - began)

    async def _read(self, content: bytes) -> Page:
        if self._n_reading >= _READ_AT_ONCE:
            raise BusyError
        self._n_reading += 1
        reading = asyncio.get_running_loop().run_in_executor(self._reader, self._read_image, content)
        reading.add_done_callback(self._read_done)
        return await asyncio.shield(reading)

    def _read_done(self, reading: asyncio.Future[Page]) -> None:
        self._n_reading -= 1
        if not reading.cancelled():
            reading.exception()  # whoever asked may be gone

    def _read_image(self, content: bytes) -> Page:
        """Read an image as the model reads pages; no other kind of document, whose readers are not for strangers."""
        if not content.startswith(_IMAGE_MARKS):
            problem, remedy = "not a PNG, JPEG, TIFF or WebP image", "send one of these as the body"
            raise DocumentError(EXAMPLE, problem, remedy, reason="not_an_image")
        began = time.perf_counter()
        info = self._encoder.info
        with tempfile.NamedTemporaryFile(prefix="colret-") as file:
            file.write(content)
            file.flush()
            with Document(ImageFile(Path(file.name), EXAMPLE), EXAMPLE) as document:
                page = document.read_page(
                    1, ref=PageRef("example", 1), pixels=info.render_pixels, ocr=info.reads == "words"
                )
        self.metrics.observe("read", time.perf_counter() - began)
        if info.reads == "words" and not self._has_page_model:
            self._encoder.encode_pages([page])  # for nothing, but not while all searches wait for the model
            self._has_page_model = True
        return page
