"""Documents in object storage, found by listing. None is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colret.addresses import Address, Place
from colret.documents import SourceFile, check_name, display_path, is_archive, is_supported, unsupported
from colret.errors import DocumentError
from colret.objects import bucket_of, check_size, explained, source_of, state_of

if TYPE_CHECKING:
    from obstore import ObjectMeta

_BATCH_OBJECTS = 1000  # taken from a listing together
_HIDDEN = (".", "~$")


class Listing:
    """What there is below an address, and what was not to be seen.

    Attributes:
        sources: Documents, by address.
        unusable: What has a document's name, and prefixes, that cannot be read, by address as text.
        existing: All that has a document's name, hidden or not.
        listed: Prefixes whose objects were all told.
        problems: What is to be told beside.
    """

    def __init__(self) -> None:
        self.sources: dict[Place, SourceFile] = {}
        self.unusable: dict[str, DocumentError] = {}
        self.existing: set[Place] = set()
        self.listed: set[Place] = set()
        self.problems: list[DocumentError] = []


def list_documents(root: Address) -> Listing:
    """Return the documents below ``root``, or the one that it is; none is read.

    As in folders, what is hidden (a leading dot or ``~$`` in any part of the key below ``root``) is left out.

    Raises:
        DocumentError: It cannot be listed, or is an object that is no document.
    """
    listing = Listing()
    if root.key and (is_supported(root) or is_archive(root)) and _take_named(root, listing):
        return listing
    n_objects = _list_all(root, listing)
    if not n_objects and root.key and state_of(root) is not None:
        raise unsupported(root)
    if not n_objects:
        error = DocumentError(root, "no object there, nor below it", "check the address", reason="missing")
        listing.problems.append(error)
    return listing


def _take_named(address: Address, listing: Listing) -> bool:
    """Take an object that was given by its name; return whether there is one."""
    source = state_of(address)
    if source is not None:
        _take(source, listing)
    return source is not None


def _take(source: SourceFile, listing: Listing) -> None:
    address = source.path
    assert isinstance(address, Address)
    listing.existing.add(address)
    try:
        check_name(address)
        check_size(source)
    except DocumentError as error:
        listing.unusable[display_path(address)] = error
    else:
        listing.sources[address] = source


def _list_all(root: Address, listing: Listing) -> int:
    """List in as few requests as can be, or prefix by prefix where that fails: one odd key spoils an answer.

    Returns:
        The number of objects, documents or not.
    """
    import obstore
    from obstore.exceptions import InvalidPathError

    found, n_objects = Listing(), 0
    try:
        with explained(root, but=InvalidPathError):
            for batch in obstore.list(bucket_of(root), root.key or None, chunk_size=_BATCH_OBJECTS):
                n_objects += len(batch)
                for meta in batch:
                    _see(root, meta, found)
    except InvalidPathError:
        return _list_by_prefix(root, listing)
    found.listed.add(root)
    for address in found.existing:
        place = address.parent
        while place not in found.listed:
            found.listed.add(place)
            place = place.parent
    vars(listing).update(vars(found))
    return n_objects


def _list_by_prefix(root: Address, listing: Listing) -> int:
    import obstore
    from obstore.exceptions import InvalidPathError

    pending, n_objects = [root], 0
    while pending:
        place = pending.pop()
        try:
            with explained(place, but=InvalidPathError):
                found = obstore.list_with_delimiter(bucket_of(place), place.key or None)
        except InvalidPathError:
            problem = "holds an object whose key has a part that is empty, made of dots, or no text"
            error = DocumentError(place, problem, "give that object another key", reason="unreadable")
            listing.unusable[display_path(place)] = error
            n_objects += 1
            continue
        listing.listed.add(place)
        n_objects += len(found["objects"])
        for meta in found["objects"]:
            _see(root, meta, listing)
        pending += (root.at(key) for key in found["common_prefixes"])
    return n_objects


def _see(root: Address, meta: ObjectMeta, listing: Listing) -> None:
    """Note an object of a listing, if it may be a document."""
    address = root.at(meta["path"])
    if not (is_supported(address) or is_archive(address)):
        return
    listing.existing.add(address)
    if not _is_hidden(address.key[len(root.key) :]):
        _take(source_of(address, meta), listing)


def _is_hidden(key: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in key.split("/"))
