"""Where documents lie, as people and programs name it and as the index writes it: paths and addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from colret.addresses import Address, Place, parse_address
from colret.documents import absolute_path, path_on_disk, undisplayed
from colret.errors import DocumentError
from colret.object_storage import SCHEMES, is_remote, scheme

_NO_OPTIONS: Mapping[str, str] = {}


def absolute_place(place: str | Place, options: Mapping[str, str] = _NO_OPTIONS) -> Place:
    """Return what ``given_place`` does, a path from the root."""
    given = given_place(place, options)
    return given if isinstance(given, Address) else absolute_path(given)


def given_place(place: str | Place, options: Mapping[str, str] = _NO_OPTIONS) -> Place:
    """Return what a user or a program names: the address of an object, or else a path.

    Args:
        place: A path, or the address of an object.
        options: What opens the bucket of an address: see ``object_storage``.

    Raises:
        DocumentError: It is an address, but not one of an object that can be had.
    """
    if not isinstance(place, str):
        return place
    if scheme(place) is None:
        return Path(place)
    if not is_remote(place):
        known = " ".join(f"{each}://" for each in SCHEMES)
        problem = "documents are not read from there"
        raise DocumentError(place, problem, f"give a path, or one of {known}", reason="missing")
    try:
        return parse_address(place, options)
    except ValueError as error:
        shown = re.sub("//[^/]*@", "//", place)
        raise DocumentError(shown, str(error), "give SCHEME://BUCKET/KEY", reason="missing") from error


def place_of(text: str, options: Mapping[str, str] = _NO_OPTIONS) -> Place:
    """Return the path or address that ``display_path`` wrote as ``text``; ``options`` as for ``absolute_place``."""
    if not is_remote(text):
        return path_on_disk(text)
    return parse_address(undisplayed(text), options)
