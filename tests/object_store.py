"""An S3 server of the tests' own, on 127.0.0.1: moto's, which keeps what it is given in memory."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from obstore.store import ObjectStore


@dataclass(frozen=True)
class Bucket:
    """A bucket that one test has for itself."""

    name: str
    options: dict[str, str]  # as ``--storage-option`` and LanceDB take them

    @property
    def address(self) -> str:
        """Its address, ``s3://NAME``."""
        return f"s3://{self.name}"

    @property
    def arguments(self) -> list[str]:
        """The options for a command line."""
        return [part for name, value in self.options.items() for part in ("--storage-option", f"{name}={value}")]

    @property
    def environment(self) -> dict[str, str]:
        """The options as variables of the environment."""
        return {name.upper(): value for name, value in self.options.items()}

    def put(self, key: str, content: bytes | Path) -> str:
        """Write an object; return its address."""
        import obstore

        obstore.put(self._store(), key, content.read_bytes() if isinstance(content, Path) else content)
        return f"{self.address}/{key}"

    def get(self, key: str) -> bytes:
        """Return what an object holds."""
        import obstore

        return bytes(obstore.get(self._store(), key).bytes())

    def delete(self, key: str) -> None:
        """Delete an object."""
        import obstore

        obstore.delete(self._store(), key)

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that start with whole parts of ``prefix``, sorted."""
        import obstore

        return sorted(each["path"] for batch in obstore.list(self._store(), prefix or None) for each in batch)

    def _store(self) -> ObjectStore:
        from colret.object_storage import open_prefix

        return open_prefix(self.address, self.options)


class Request(NamedTuple):
    """What the server was asked."""

    method: str
    path: str  # /BUCKET/KEY
    query: str


class Traffic:
    """What goes through the server: a list of requests, and a place to interfere."""

    def __init__(self) -> None:
        self.application: Callable[..., Iterable[bytes]] | None = None
        self.clear()

    def clear(self) -> None:
        """Forget the requests, and interfere no more."""
        self.requests: list[Request] = []
        self.meddle: Callable[[Request], str | None] = lambda request: None  # a status to answer with instead

    def gets(self) -> list[str]:
        """Return the paths of the objects that were read."""
        return [each.path for each in self.requests if each.method == "GET" and "list-type" not in each.query]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request, as WSGI has it."""
        request = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"])
        self.requests.append(request)
        if status := self.meddle(request):
            start_response(status, [("Content-Type", "application/xml")])
            return [b"<Error><Message>by the test</Message></Error>"]
        assert self.application is not None
        return self.application(environ, start_response)


_traffic = Traffic()


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of an S3 server that answers as long as the tests run."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    inner: Any = server._server
    _traffic.application, inner.app = inner.app, _traffic
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def traffic(s3_endpoint: str) -> Iterator[Traffic]:
    """What the tests' server is asked from now on."""
    _traffic.clear()
    yield _traffic
    _traffic.clear()


@pytest.fixture
def bucket(s3_endpoint: str) -> Bucket:
    """An empty bucket on the tests' own S3 server."""
    import httpx

    name = f"bucket-{uuid.uuid4().hex}"
    httpx.put(f"{s3_endpoint}/{name}", trust_env=False).raise_for_status()
    return Bucket(
        name,
        {
            "aws_endpoint": s3_endpoint,
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing-secret",
            "aws_region": "us-east-1",
            "allow_http": "true",
            "connect_timeout": "2s",
            "timeout": "20s",
            "client_max_retries": "1",
            "client_retry_timeout": "5",
        },
    )
