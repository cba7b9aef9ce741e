"""uvicorn in front of the application, and what it does not do: give up on heads that do not arrive."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, Final

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from colret.errors import ColretError
from colret.service.limits import Limits

_HEAD_BYTES: Final = 16 << 10
_IDLE_SECONDS: Final = 15  # that a connection is kept for the next request
_SHUTDOWN_SECONDS: Final = 10  # for requests that are being answered


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ColretError: If the address is taken, or not this machine's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024, reuse_port=False)
    except OSError as error:
        problem = f"cannot listen there ({error.strerror or error})"
        raise ColretError(f"{host}:{port}", problem, "choose another --port or --host") from error


def serve(app: FastAPI, listening: socket.socket, limits: Limits) -> None:
    """Answer requests until a signal ends it."""
    _log_to_stderr()
    make_server(app, limits).run(sockets=[listening])


def make_server(app: FastAPI, limits: Limits) -> uvicorn.Server:
    """Return a server that runs until it is told to exit."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_impatient(limits.head_seconds),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=limits.connections,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in ("colret.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.addHandler(handler)
        logger.propagate = False


def _impatient(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol that cuts a connection whose request's head takes longer to arrive."""

    class Impatient(H11Protocol):
        """Looks at the connection now and then."""

        _was_partial = True  # of a new connection a whole head is due by the first look

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._look = self.loop.call_later(seconds, self._cut_if_partial)

        def connection_lost(self, exc: Exception | None) -> None:
            self._look.cancel()
            super().connection_lost(exc)

        def _cut_if_partial(self) -> None:
            is_partial = self.conn.their_state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
            if is_partial and self._was_partial:
                self.transport.close()
                return
            self._was_partial = is_partial
            self._look = self.loop.call_later(seconds, self._cut_if_partial)

    return Impatient
