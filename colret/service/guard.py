"""What every request passes first: host, key, size and time of its body; and what every answer has.

It counts requests too, and answers for what nobody foresaw: a line in the log and no traceback.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from colret.errors import one_line
from colret.service.access import Access
from colret.service.failures import INTERNAL, failure
from colret.service.limits import Limits
from colret.service.metrics import Metrics

log = logging.getLogger("colret.service")

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Middleware around the whole application.

    Args:
        app: What it guards.
        access: Who may ask.
        limits: Of bodies.
        metrics: Is told of each answer.
    """

    def __init__(self, app: ASGIApp, *, access: Access, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._access = access
        self._limits = limits
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, method = time.perf_counter(), 0, scope["method"]
        if method == "HEAD":  # is a GET whose body is not sent
            scope = {**scope, "method": "GET"}

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, answer)
            else:
                await self._app(scope, _bounded(receive, self._limits), answer)
        except Exception as error:
            if status:
                raise  # half an answer is out: the connection has to be cut
            log.error("%s %s: %s: %s", method, scope["path"], type(error).__name__, one_line(str(error)))
            await failure(500, INTERNAL)(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            known = method if method in ("GET", "HEAD", "POST", "OPTIONS") else "other"
            self._metrics.answered(known, route, status, time.perf_counter() - began)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        if not self._access.knows_host(headers.get("host", "")):
            return failure(421, "this service does not go by that name; start it with --allowed-host NAME")
        if not self._access.allows(scope["path"], headers):
            return failure(401, "a key is needed: Authorization: Bearer KEY", {"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length[:20]) > self._limits.body_bytes:
            return failure(413, _too_large(self._limits), {"Connection": "close"})
        return None


def _bounded(receive: Receive, limits: Limits) -> Receive:
    """Return a ``receive`` that gives up on a body that is too long, said so or not, or takes too long."""
    n_bytes, end = 0, time.monotonic() + limits.body_seconds
    more = True

    async def bounded() -> Message:
        nonlocal n_bytes, more
        if not more:
            return await receive()  # waits for the client to leave
        try:
            async with asyncio.timeout(max(end - time.monotonic(), 0)):
                message = await receive()
        except TimeoutError as error:
            raise HTTPException(408, "the body did not arrive in time", {"Connection": "close"}) from error
        n_bytes += len(message.get("body", b""))
        more = message.get("more_body", False)
        if n_bytes > limits.body_bytes:
            raise HTTPException(413, _too_large(limits), {"Connection": "close"})
        return message

    return bounded


def _too_large(limits: Limits) -> str:
    return f"a body has at most {limits.body_bytes:,} bytes here"
