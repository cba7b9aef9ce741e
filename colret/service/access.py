"""Who may ask: keys, and the names that the service answers to."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import cookie_parser

from colret.errors import ColretError

COOKIE: Final = "colret_session"
"""What a browser shows instead of a key, which pictures on a page cannot."""

SHORTEST_KEY: Final = 16
"""Characters: what is shorter can be tried out."""

_PUBLIC = frozenset(["/", "/healthz", "/readyz", "/favicon.ico"])
_SESSION = b"colret session"


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask.

    Args:
        keys: Any of them opens everything; without one, all is open.
        hosts: Names besides numbers and localhost that a request may call the service by; None: any.
            Without this a page elsewhere could have a browser ask a service of its own machine, under
            a name that resolves to it.
    """

    keys: tuple[str, ...] = ()
    hosts: frozenset[str] | None = None

    def knows_host(self, host: str) -> bool:
        """Tell whether a request may call the service by the name of its Host header."""
        if self.hosts is None:
            return True
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
        name = name.strip("[]").lower()
        return name == "localhost" or name in self.hosts or _is_number(name)

    def allows(self, path: str, headers: Mapping[str, str]) -> bool:
        """Tell whether a request shows a key, or needs none."""
        if not self.keys or path in _PUBLIC or path.startswith("/static/"):
            return True
        return _is_any(_shown(headers), self.keys) or self._has_session(headers)

    def session(self, headers: Mapping[str, str]) -> str | None:
        """Return what a browser is given for the key in its headers; None if that is none.

        It is no key itself, the same from every replica, and good as long as the key is.
        """
        shown = _shown(headers)
        return _session(shown) if _is_any(shown, self.keys) else None

    def _has_session(self, headers: Mapping[str, str]) -> bool:
        # Python's own parser drops all cookies for one that it does not like, as others on this host may set.
        shown = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return _is_any(shown, tuple(map(_session, self.keys)))


def read_keys(file: Path) -> tuple[str, ...]:
    """Return the keys of a file, one a line.

    Raises:
        ColretError: If it cannot be read, holds none, or one that is too short.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "not UTF-8"
        raise ColretError(file, f"cannot be read ({cause})", "name a file with a key on a line") from error
    return checked_keys([line.strip() for line in text.splitlines() if line.strip()], str(file))


def checked_keys(keys: list[str], where: str) -> tuple[str, ...]:
    """Return keys.

    Raises:
        ColretError: If there is none, or one that can be tried out or that no header can carry.
    """
    remedy = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
    if not keys:
        raise ColretError(where, "holds no key", remedy)
    if any(len(key) < SHORTEST_KEY or not (key.isascii() and key.isprintable()) or " " in key for key in keys):
        raise ColretError(where, f"a key has at least {SHORTEST_KEY} printable ASCII characters, no spaces", remedy)
    return tuple(keys)


def _shown(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _session(key: str) -> str:
    return hmac.new(key.encode(), _SESSION, hashlib.sha256).hexdigest()


def _is_any(shown: str, known: tuple[str, ...]) -> bool:
    """Compare in a time that tells nothing of where they differ."""
    equal = [hmac.compare_digest(shown.encode(), each.encode()) for each in known]
    return any(equal)


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
