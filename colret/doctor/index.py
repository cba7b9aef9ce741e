"""Checks of an index: whether it can be read, is the model's, and can be written."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from colret.doctor.checks import Check, failed
from colret.errors import StoreError
from colret.location import Location, StrPath
from colret.remote_folder import RemoteFolder
from colret.store import PageStore
from colret.text_lane import check_text_index
from colret.types import EncoderInfo

_FULL, _LOW = 100e6, 1e9  # bytes left: of no use, and enough for some thousand pages


def open_index(place: Location) -> tuple[PageStore | None, Check]:
    """Open the index at a place if there is one, and say what it is."""
    try:
        if not PageStore.exists(place):
            return None, Check("index", "ok", f"none at {place} yet")
        store = PageStore.open(place)
        info = store.info()
    except StoreError as error:
        return None, failed("index", error)
    settings = store.settings
    found = f"{place}: format {settings.format_version}, {info.n_pages:,} pages of {settings.model}, {settings.codec}"
    return store, Check("index", "ok", found)


def check_text(store: PageStore) -> Check:
    """Look a word up in the full-text index."""
    try:
        check_text_index(store)
    except StoreError as error:
        return failed("text index", error)
    return Check("text index", "ok", "finds a word" if "terms" in store.column_indexes() else "none yet")


def check_match(store: PageStore, encoder: EncoderInfo, opened: Check) -> Check:
    """Tell whether the index is that of a loaded model; ``opened`` is its line if it is."""
    try:
        store.check_encoder(encoder)
    except StoreError as error:
        return failed("index", error)
    return opened._replace(found=f"{opened.found}; made by this very model")


def check_folder(place: Location | StrPath) -> Check:
    """Write into the folders of the index, or where it will be made, and see how much room there is."""
    location = Location.of(place)
    if location.folder is None:
        return _check_objects(location)
    folders = _folders(location.folder)
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            remedy = "choose another --index, or make it writable for you"
            return Check("folder", "error", f"{folder}: cannot be written: {error.strerror}", remedy)
    free = shutil.disk_usage(folders[0]).free
    found = f"{folders[0]}: writable, {free / 1e9:.1f} GB free"
    if free < _LOW:
        return Check(
            "folder", "error" if free < _FULL else "warning", found, "free some space, or choose another --index"
        )
    return Check("folder", "ok", found)


def _check_objects(place: Location) -> Check:
    """Write an object where the index is, or will be."""
    try:
        RemoteFolder(place).check_writable()
    except StoreError as error:
        return failed("folder", error)
    return Check("folder", "ok", f"{place}: writable")


def _folders(path: Path) -> list[Path]:
    """Return where an ingest would write: the index and its tables, or the nearest thing above it."""
    if path.is_dir():
        return [path, *sorted(table / "data" for table in path.glob("*.lance") if (table / "data").is_dir())]
    above = path.absolute().parent
    while not above.exists():
        above = above.parent
    return [path.absolute() if path.exists() else above]
