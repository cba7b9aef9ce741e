"""Object stores that refuse, fail or do not answer: one clear line, soon, and no credential in it."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from colret.database import StaleReadError, explained
from colret.errors import StoreError
from colret.location import Location
from colret.object_storage import failure
from colret.store import PageStore
from tests.object_store import Bucket
from tests.test_store import SETTINGS, record

SECRET = "s3cr3t-k3y"
PATIENCE = {"connect_timeout": "1s", "timeout": "2s", "client_max_retries": "1", "client_retry_timeout": "3"}
OPTIONS = {"aws_access_key_id": SECRET, "aws_secret_access_key": SECRET, "aws_region": "us-east-1", **PATIENCE}
DENIED = f"<Error><Code>AccessDenied</Code><Message>no access for {SECRET}</Message></Error>"


@contextmanager
def server(status: int, body: str) -> Iterator[str]:
    """Answer everything in the same way; yield the endpoint."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_PUT = do_HEAD = do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    answering = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=answering.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{answering.server_port}"
    finally:
        answering.shutdown()
        thread.join()
        answering.server_close()


def refusal(options: dict[str, str], address: str = "s3://bucket/index") -> str:
    """Return the line that opening an index gives, within ten seconds."""
    started = time.monotonic()
    place = Location.of(address, {**OPTIONS, **options})
    lines = []
    for use in (PageStore.open, PageStore.exists, lambda at: PageStore.create(at, SETTINGS)):
        with pytest.raises(StoreError) as raised:
            use(place)
        lines.append(str(raised.value))
        assert raised.value.__suppress_context__ or raised.value.__cause__ is None
    assert time.monotonic() - started < 20
    assert len(set(lines)) == 1
    assert lines[0].startswith(address)
    assert "\n" not in lines[0]
    assert SECRET not in lines[0]
    return lines[0]


def test_a_missing_bucket(bucket: Bucket) -> None:
    assert "there is no such bucket" in refusal(bucket.options, "s3://no-such-bucket/index")


def test_refused_credentials() -> None:
    with server(403, DENIED) as endpoint:
        assert "access was refused; set AWS_ACCESS_KEY_ID" in refusal({"aws_endpoint": endpoint, "allow_http": "true"})


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_fails(status: int) -> None:
    with server(status, SECRET) as endpoint:
        said = refusal({"aws_endpoint": endpoint, "allow_http": "true"})
    assert f"the server failed (status {status})" in said


def test_no_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert "cannot be reached" in refusal({"aws_endpoint": endpoint, "allow_http": "true"})
    assert "cannot be reached" in refusal({"aws_endpoint": "http://no-such-host.invalid", "allow_http": "true"})


def test_a_server_that_does_not_answer() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        endpoint = f"http://127.0.0.1:{mute.getsockname()[1]}"
        assert "cannot be reached" in refusal({"aws_endpoint": endpoint, "allow_http": "true"})


def test_an_endpoint_without_encryption_has_to_be_allowed() -> None:
    assert "allow_http=true" in refusal({"aws_endpoint": "http://127.0.0.1:9"})


def test_options_that_mean_nothing() -> None:
    for options in ({"timeout": SECRET}, {"allow_http": SECRET}):
        assert "has a value that cannot be used" in refusal(options)
    assert "no storage option aws_nonsense" in refusal({"aws_nonsense": SECRET})


def test_objects_that_are_gone_are_told_without_their_addresses(bucket: Bucket) -> None:
    place = Location.of(f"{bucket.address}/index", bucket.options)
    store = PageStore.create(place, SETTINGS)
    store.put_documents([record("a")])
    for key in bucket.keys(""):
        if "/data/" in key:
            bucket.delete(key)
    with pytest.raises(StaleReadError, match="an object of it is not found; retry; if it stays, the index is damaged"):
        PageStore.open(place).documents()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ('status: 403, body: Some("x")', "access was refused"),
        ("Failed to get AWS credentials: ProviderError", "found no credentials"),
        ("Error performing PUT http://169.254.169.254/latest/api/token", "found no credentials"),
        ("Server returned non-2xx status code: 301 Moved", "is elsewhere"),
        ("Retryable commit conflict for version 7", "another process wrote to it"),
        (f"Generic S3 error: https://host/x?sig={SECRET}", "refused a request"),
        ("Table 'x' has no column y", "Table 'x' has no column y"),
    ],
)
def test_messages_of_lancedb_are_told_in_our_words(message: str, said: str) -> None:
    assert said in failure(message)[0]
    with pytest.raises(StoreError, match=said) as raised, explained(Location.of("s3://bucket/x")):
        raise RuntimeError(message)
    assert SECRET not in str(raised.value)
