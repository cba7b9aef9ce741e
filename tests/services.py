"""A real server of the service on 127.0.0.1, and clients that say what no library would."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from colret.location import Location
from colret.service.access import Access
from colret.service.app import create_app
from colret.service.library import Library
from colret.service.limits import Limits
from colret.service.routes.context import API as API
from colret.service.server import bind, make_server

OPEN, DEFAULT = Access(), Limits()
PATIENCE = 60  # seconds


@contextmanager
def serving(
    index: Path | Location, *, access: Access = OPEN, limits: Limits = DEFAULT, hide_paths: bool = False
) -> Iterator[str]:
    """Serve an index meanwhile, at the address that this gives."""
    library = Library(index, device="cpu")
    app = create_app(library, library.load(), access=access, limits=limits, hide_paths=hide_paths)
    listening = bind("127.0.0.1", 0)
    server = make_server(app, limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def client(address: str, **options: Any) -> httpx.Client:
    """Return a client of a service."""
    return httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False, **options)


def raw(address: str, *parts: bytes, seconds: float = 10.0) -> bytes:
    """Send bytes, and return all that comes back until the connection ends or nothing comes for so long."""
    host, _, port = address.removeprefix("http://").partition(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            while chunk := connection.recv(1 << 16):
                received += chunk
        except (TimeoutError, ConnectionError):
            pass
    return received
