"""uvicorn in front of the application, and what it does not do: give up on heads that do not arrive."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from typing import Any, Final

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from colret.errors import ColretError
from colret.service.limits import Limits

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
    _allow_files(2 * limits.connections)  # the index takes some too
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
            h11_max_incomplete_event_size=limits.head_bytes,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )


def _allow_files(n_files: int) -> None:
    """Let the process open so many files, if the system does: by default it is often 1,024, or 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = n_files if hard == resource.RLIM_INFINITY else min(n_files, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in ("colret.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.addHandler(handler)
        logger.propagate = False


def _impatient(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol that cuts connections on which nothing moves.

    These are the ones whose request's head takes longer to arrive, and whose client does not take its answer.
    """

    class Impatient(H11Protocol):
        """Looks at the connection now and then."""

        _was_partial = True  # of a new connection a whole head is due by the first look
        _n_untaken = 0  # bytes of answers, at the last look

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._look = self.loop.call_later(seconds, self._cut_if_stuck)

        def connection_lost(self, exc: Exception | None) -> None:
            self._look.cancel()
            super().connection_lost(exc)

        def _cut_if_stuck(self) -> None:
            is_partial = self.conn.their_state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
            n_untaken = self.transport.get_write_buffer_size()
            if n_untaken and n_untaken == self._n_untaken:
                self.transport.abort()  # close would wait until all was taken
            elif is_partial and self._was_partial:
                self.transport.close()
            else:
                self._look = self.loop.call_later(seconds, self._cut_if_stuck)
            self._was_partial, self._n_untaken = is_partial, n_untaken

    return Impatient
