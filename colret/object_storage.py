"""Object storage (S3, Google Cloud Storage, Azure): the one place that knows its addresses and options.

The options are those that LanceDB takes: names of the ``object_store`` library, which both use, such
as ``aws_endpoint`` or ``allow_http``. What is not given comes from the environment, in the same names
in capitals (``AWS_ACCESS_KEY_ID``), and from the machine's own role.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
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

    config: dict[str, Any] = {}
    client: dict[str, Any] = {}
    retries: dict[str, Any] = {}
    for name, value in options.items():
        key = name.lower()
        if key in _CLIENT_OPTIONS:
            client[key] = value
        elif key == "client_max_retries":
            retries["max_retries"] = int(value)
        elif key == "client_retry_timeout":
            retries["retry_timeout"] = timedelta(seconds=int(value))
        else:
            config[key] = value
    return from_url(address, config=config, client_options=client, retry_config=retries or None)  # type: ignore[call-overload, no-any-return]
