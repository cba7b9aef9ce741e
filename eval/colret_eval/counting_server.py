"""An S3 server in this process, moto's, that counts requests and answers each after a delay."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

BUCKET: Final = "measured"

_CREDENTIALS = {"aws_access_key_id": "measured", "aws_secret_access_key": "measured", "aws_region": "us-east-1"}


class CountingServer:
    """A WSGI application that counts the requests to another, and delays them."""

    def __init__(self, application: WSGIApplication) -> None:
        self.n_requests = 0
        self.delay = 0.0  # seconds
        self._application = application

    def __call__(self, environment: WSGIEnvironment, start: StartResponse) -> Any:
        """Answer a request."""
        self.n_requests += 1
        time.sleep(self.delay)
        return self._application(environment, start)


@contextmanager
def s3_server() -> Iterator[tuple[CountingServer, Mapping[str, str]]]:
    """Run a server with an empty bucket; yield it and the options that reach it."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    counting = CountingServer(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, counting, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.port}"
    try:
        import httpx

        httpx.put(f"{endpoint}/{BUCKET}", trust_env=False).raise_for_status()
        yield counting, {**_CREDENTIALS, "aws_endpoint": endpoint, "allow_http": "true"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
