"""What a client sends of one request, within limits, and whether it still waits for the answer."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from colret.service.limits import Limits

BUSY: Final = "too many requests wait here; try again in a moment"
LATER: Final = {"Retry-After": "1"}


class Bodies:
    """The bytes of all bodies that are in memory.

    Args:
        most: How many may be.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0


class Incoming:
    """One request as it comes in.

    Args:
        receive: The server's.
        headers: Of the request.
        limits: Of its body.
        most: Bytes of its body.
        bodies: All there are.
    """

    def __init__(self, receive: Receive, headers: Headers, limits: Limits, most: int, bodies: Bodies) -> None:
        self._receive = receive
        self._most = most
        self._bodies = bodies
        self._n_bytes = 0
        self._end = time.monotonic() + limits.body_seconds
        self._has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        self._told = False
        self._complete, self._gone = asyncio.Event(), asyncio.Event()
        if not self._has_body:
            self._complete.set()

    async def receive(self) -> Message:
        """Return the next part of the body; once it is complete, wait until the client is gone.

        Raises:
            HTTPException: It is too long, whether its head said so or not, takes too long, or there is no room.
        """
        if not self._has_body and not self._told:
            self._told = True
            return {"type": "http.request", "body": b"", "more_body": False}
        if self._complete.is_set():
            await self._gone.wait()
            return {"type": "http.disconnect"}
        try:
            async with asyncio.timeout(max(self._end - time.monotonic(), 0)):
                message = await self._receive()
        except TimeoutError as error:
            raise HTTPException(408, "the body did not arrive in time", {"Connection": "close"}) from error
        self._take(len(message.get("body", b"")))
        if not message.get("more_body", False):
            self._complete.set()
        return message

    async def gone(self) -> None:
        """Return when the client has left; not before its body is complete, which whoever reads that is told."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()

    def release(self) -> None:
        """Give the room of the body back."""
        self._bodies.held -= self._n_bytes
        self._n_bytes = 0

    def _take(self, n_bytes: int) -> None:
        self._n_bytes += n_bytes
        self._bodies.held += n_bytes
        if self._n_bytes > self._most:
            raise HTTPException(413, too_large(self._most), {"Connection": "close"})
        if self._bodies.held > self._bodies.most:
            raise HTTPException(503, BUSY, {"Connection": "close", **LATER})


def too_large(most: int) -> str:
    """Return what is told of a body that is too long."""
    return f"a body has at most {most:,} bytes here"
