"""Object storage (S3, Google Cloud Storage, Azure): the one place that knows its addresses and options.

The options are those that LanceDB takes: names of the ``object_store`` library, which both use, such
as ``aws_endpoint`` or ``allow_http``. What is not given comes from the environment, in the same names
in capitals (``AWS_ACCESS_KEY_ID``), and from the machine's own role.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from colret.errors import StoreError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
PATIENCE: Final = {
    "connect_timeout": "5s",
    "timeout": "30s",
    "client_max_retries": "4",
    "client_retry_timeout": "20",
}
"""Options unless others are given: what does not answer is given up within a minute."""

_ENDPOINTS: Final = frozenset(
    ["endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "azure_endpoint", "azure_storage_endpoint"],
)
_HTTP = re.compile(r"https?://[^/?#@\s]+(/[^?#@\s]*)?$", re.IGNORECASE)
_CLIENT_OPTIONS: Final = frozenset(
    ["allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout", "user_agent"],
)


def scheme(text: str) -> str | None:
    """Return the scheme, in small letters, of what looks like an address; None for what is a path."""
    found = _ADDRESS.match(text)
    return found[1].lower() if found else None


def is_remote(text: str) -> bool:
    """Tell whether ``text`` is an address in an object store that can be used."""
    return scheme(text) in SCHEMES


def open_prefix(address: str, options: Mapping[str, str]) -> ObjectStore:
    """Return what reads and writes the objects below ``address``, by their names there. Nothing is asked yet.

    Args:
        address: ``s3://BUCKET/PREFIX``, or the same with another of ``SCHEMES``.
        options: As LanceDB takes them.

    Raises:
        ValueError, obstore.exceptions.BaseError: If address or options cannot be understood.
    """
    from obstore.store import from_url

    _check_endpoints(scheme(address), options)
    config: dict[str, Any] = {}
    client: dict[str, Any] = {}
    retries: dict[str, Any] = {}
    for name, value in options.items():
        key = name.lower()
        if key in _CLIENT_OPTIONS:
            client[key] = value
        elif key == "client_max_retries":
            retries["max_retries"] = _whole_number(key, value)
        elif key == "client_retry_timeout":
            retries["retry_timeout"] = timedelta(seconds=_whole_number(key, value))
        else:
            config[key] = value
    return from_url(address, config=config, client_options=client, retry_config=retries or None)  # type: ignore[call-overload, no-any-return]


def _whole_number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise ValueError(f"option {name} is no number")  # which may be a secret in the wrong place
    return int(value)


def _check_endpoints(kind: str | None, options: Mapping[str, str]) -> None:
    """Refuse endpoints without a scheme, on which the library that takes them panics."""
    if kind == "gs":  # has no such option
        return
    given = {name.lower(): value for name, value in [*os.environ.items(), *options.items()]}
    for name in _ENDPOINTS & given.keys():
        if not _HTTP.match(given[name]):
            raise ValueError(f"option {name} is no URL")


@contextmanager
def requesting(address: object) -> Iterator[None]:
    """Turn what an object store, or obstore itself, refuses meanwhile into one line about the address.

    Raises:
        StoreError: In place of that; nothing of it may hold a credential.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise StoreError(address, *failure(str(error))) from None  # what it says may quote options and URLs


def failure(message: str) -> tuple[str, str]:
    """Return in our own words what a message of obstore or LanceDB says is wrong, and the remedy.

    Such messages quote URLs, options and what servers answer, any of which may hold credentials.
    """
    for pattern, problem, remedy in _FAILURES:
        if found := pattern.search(message):
            return problem.format(*found.groups()), remedy
    if "://" in message or "Generic" in message:
        return "the object store refused a request", "check the address and the options: see docs/object-storage.md"
    return message.split("\n", 1)[0][:300], "check space and permissions, then retry"


_CREDENTIALS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or what your store calls them, or --storage-option"
_FAILURES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), problem, remedy)
    for pattern, problem, remedy in (
        (
            r"NoSuchBucket|bucket does not exist|ContainerNotFound|container does not exist",
            "there is no such bucket",
            "make it, or correct the address",
        ),
        (r"commit conflict", "another process wrote to it at the same moment", "run the same command again"),
        (
            r"169\.254\.|metadata\.google|Failed to get \w+ credentials|no credentials|missing credential",
            "found no credentials",
            _CREDENTIALS,
        ),
        (r"^option (\w+) is no number$", "the value of {0} is not a whole number", "correct it"),
        (r"^option (\w+) is no URL$", "the value of {0} is no URL", "begin it with https:// or http://"),
        (r"Configuration key: '([\w.-]+)'", "there is no storage option {0}", "see docs/object-storage.md"),
        (r"Generic Config error|failed to parse", "a storage option has a value that cannot be used", "correct it"),
        (r"Unable to recognise URL|did not match any known pattern", "is no address", "name SCHEME://BUCKET/PREFIX"),
        (
            r"BadScheme|builder error",
            "its endpoint is http://, which is not encrypted",
            "use https://, or allow it with --storage-option allow_http=true",
        ),
        (r"status(?: code)?: (401|403)|AccessDenied|Forbidden", "access was refused", _CREDENTIALS),
        (r"status(?: code)?: (5\d\d|429)", "the server failed (status {0})", "try again later"),
        (
            r"status(?: code)?: (3\d\d)",
            "the bucket is elsewhere",
            "give its region with --storage-option aws_region=...",
        ),
        (
            r"HttpError|HTTP error|error sending request|ConnectError|timed ?out|dns error",
            "the server cannot be reached",
            "check the network, and the endpoint if you gave one",
        ),
        (r"status(?: code)?: (\d{3})", "the server refused a request (status {0})", "check address and options"),
    )
)
