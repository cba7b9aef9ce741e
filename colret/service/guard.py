"""What every request passes first: its size, host, key; and what every answer has.

It counts requests too, leaves off what nobody waits for any more, and answers for what nobody
foresaw: a line in the log and no traceback.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from colret.errors import one_line
from colret.service.access import Access
from colret.service.failures import INTERNAL, failure
from colret.service.incoming import Bodies, Incoming, too_large
from colret.service.limits import Limits
from colret.service.metrics import Metrics
from colret.service.routes.context import IMAGE_SEARCH

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

_CLOSE: Final = {"Connection": "close"}
_LEFT: Final = 499  # what other servers count where the client has hung up; nobody is told


class Guard:
    """Middleware around the whole application.

    Args:
        app: What it guards.
        access: Who may ask.
        limits: Of heads and bodies.
        metrics: Is told of each answer.
    """

    def __init__(self, app: ASGIApp, *, access: Access, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._access = access
        self._limits = limits
        self._metrics = metrics
        self._bodies = Bodies(max(limits.bodies_bytes, limits.body_bytes))

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
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, answer)
            else:
                await self._pass_on(scope, receive, answer)
        except Exception as error:
            if status:
                raise  # half an answer is out: the connection has to be cut
            log.error("%s %s: %s: %s", method, scope["path"], type(error).__name__, one_line(str(error)))
            await failure(500, INTERNAL)(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            known = method if method in ("GET", "HEAD", "POST", "OPTIONS") else "other"
            self._metrics.answered(known, route, status or _LEFT, time.perf_counter() - began)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the application answer, as long as the client waits for it."""
        incoming = Incoming(receive, Headers(scope=scope), self._limits, self._most_bytes(scope), self._bodies)
        answering = asyncio.ensure_future(self._app(scope, incoming.receive, send))
        leaving = asyncio.ensure_future(incoming.gone())
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
            else:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)
        finally:
            leaving.cancel()
            answering.cancel()
            incoming.release()

    def _most_bytes(self, scope: Scope) -> int:
        image = scope["path"] == IMAGE_SEARCH
        return self._limits.body_bytes if image else min(self._limits.json_bytes, self._limits.body_bytes)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        if _head_bytes(scope) > self._limits.head_bytes:  # h11 bounds heads that come in parts alone
            return failure(431, f"a request's head has at most {self._limits.head_bytes:,} bytes here", _CLOSE)
        headers = Headers(scope=scope)
        if not self._access.knows_host(headers.get("host", "")):
            return failure(421, "this service does not go by that name; start it with --allowed-host NAME")
        if not self._access.allows(scope["path"], headers):
            return failure(401, "a key is needed: Authorization: Bearer KEY", {"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        most = self._most_bytes(scope)
        if length.isdigit() and int(length[:20]) > most:
            return failure(413, too_large(most), _CLOSE)
        return None


def _head_bytes(scope: Scope) -> int:
    """Return how long the head of a request is, but for its method and version."""
    headers = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return len(scope["raw_path"]) + len(scope["query_string"]) + headers
