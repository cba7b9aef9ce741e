"""Where an index is: a folder, or a prefix in an object store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from colret.errors import StoreError
from colret.object_storage import SCHEMES, scheme

INDEX_SCHEMES: Final = ("s3", "gs", "az", "abfss")
"""Of the object stores that LanceDB opens."""

StrPath = str | os.PathLike[str]

_CLOUD = "db"  # LanceDB Cloud and Enterprise
_KNOWN = ", ".join(f"{each}://" for each in INDEX_SCHEMES)
_ONE_SLASH = re.compile(rf"({'|'.join(SCHEMES)}):/(?!/)", re.IGNORECASE)  # which would be a folder named "s3:"


@dataclass(frozen=True, slots=True)
class Location:
    """A folder by its path, or a prefix in an object store by its address.

    Args:
        address: A path, or such as ``s3://BUCKET/PREFIX``.
        options: For object stores: see ``object_storage``. They may hold secrets, so nothing prints
            them, and no index keeps them.

    Raises:
        StoreError: If it is an address that no index can be at.
    """

    address: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        kind = scheme(self.address)
        if kind is None:
            if found := _ONE_SLASH.match(self.address):
                meant = _without_secrets(f"{found[0]}/{self.address[found.end() :]}")
                raise StoreError(meant.replace("//", "/", 1), "an address has two slashes", f"write {meant}")
            return
        if kind == _CLOUD:
            problem = (
                "LanceDB Cloud and Enterprise refuse calls that an index needs (to_arrow, optimize, stable row ids)"
            )
            remedy = "name one in object storage (s3://...), or copy there what colret export --format lancedb writes"
            raise StoreError(_without_secrets(self.address), problem, remedy)
        if kind not in INDEX_SCHEMES:
            raise StoreError(
                _without_secrets(self.address), f"no index can be at {kind}://", f"name a folder, or {_KNOWN}"
            )
        bucket, _, prefix = self.address.partition("://")[2].partition("/")
        parts = prefix.split("/") if prefix else []
        # Characters that URLs use otherwise, and a bucket's user and password.
        if not bucket or set("?#%") & set(self.address) or (kind != "abfss" and "@" in bucket):
            remedy = "give credentials by --storage-option or the environment, and no ?, # or %"
            raise StoreError(_without_secrets(self.address), "is not SCHEME://BUCKET/PREFIX", remedy)
        if {"", ".", ".."} & set(parts):
            raise StoreError(
                _without_secrets(self.address), "its prefix has an empty part, or one of dots", "name another"
            )

    @classmethod
    def of(cls, place: Location | StrPath, options: Mapping[str, str] | None = None) -> Location:
        """Return the location that a path or an address names; options are added to what it has.

        Raises:
            StoreError: If it is an address that no index can be at.
        """
        if isinstance(place, Location):
            return place if not options else cls(place.address, {**place.options, **options})
        address = os.fspath(place)
        if scheme(address):
            kind, _, rest = address.partition("://")
            address = f"{kind.lower()}://{rest.rstrip('/')}"
        return cls(address, dict(options or {}))

    def __str__(self) -> str:
        """Return the path or the address."""
        return self.address

    @property
    def folder(self) -> Path | None:
        """The folder; None if it is in an object store."""
        return None if scheme(self.address) else Path(self.address)

    def below(self, name: str) -> Location:
        """Return the location of that name in this one."""
        folder = self.folder
        return Location(f"{self.address}/{name}" if folder is None else str(folder / name), self.options)


def _without_secrets(address: str) -> str:
    """Return an address without what may be a password or a signature in it."""
    kind, _, rest = address.partition("?")[0].partition("://")
    bucket, slash, prefix = rest.partition("/")
    return f"{kind}://{bucket.rpartition('@')[2]}{slash}{prefix}"
