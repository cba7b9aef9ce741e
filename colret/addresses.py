"""Addresses of objects, such as ``s3://bucket/reports/q3.pdf``: what paths are to files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

_NO_OPTIONS: Mapping[str, str] = {}
_LAST_CONTROL = " "  # characters before it, and DEL


@dataclass(frozen=True, order=True)
class Address:
    """An object, or all objects whose keys begin alike, named by the words that a path has.

    Two are the same if they read the same. The options come along, so that whoever has an address
    can use it: a pickle holds them, what is printed does not.
    """

    root: str  # scheme and bucket: "s3://bucket"
    key: str  # "" is the bucket itself; without a slash at either end, nor two in a row
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)  # see ``object_storage``

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    @property
    def name(self) -> str:
        """What follows the last slash of the key."""
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return PurePosixPath(self.key).stem

    @property
    def suffix(self) -> str:
        """The end of the name, from its last dot on."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> Address:
        """What holds it; of a bucket, itself."""
        return Address(self.root, self.key.rpartition("/")[0], self.options)

    @property
    def parents(self) -> tuple[Address, ...]:
        """What holds it, the nearest first, the bucket last."""
        found = []
        place = self
        while place.key:
            place = place.parent
            found.append(place)
        return tuple(found)

    def at(self, key: str) -> Address:
        """Return the address of another object of the bucket."""
        return Address(self.root, key, self.options)

    def as_uri(self) -> str:
        """Return it as text."""
        return str(self)


Place = Path | Address
"""Where a document lies: in a file, or in an object."""


def parse_address(text: str, options: Mapping[str, str] = _NO_OPTIONS) -> Address:
    """Return the address that ``text`` is. Its key is taken as it is: ``%2F`` is three characters.

    Args:
        text: ``SCHEME://BUCKET``, or that with a key; slashes at its end make no difference.
        options: What opens the bucket.

    Raises:
        ValueError: It names no bucket, holds a password, or its key has a part that is empty,
            ``.``, ``..`` or holds control characters: clients for object storage refuse these.
    """
    scheme, _, rest = text.partition("://")
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise ValueError("names no bucket")
    if "@" in bucket and not scheme.lower().startswith("abfs"):  # there it is CONTAINER@ACCOUNT
        raise ValueError("has a user or a password in it, which belong in --storage-option or the environment")
    key = key.rstrip("/")
    for part in key.split("/") if key else ():
        if part in ("", ".", "..") or any(c < _LAST_CONTROL or c == "\x7f" for c in part):
            raise ValueError("its key has a part that is empty, made of dots, or no text")
    return Address(f"{scheme.lower()}://{bucket}", key, options)
