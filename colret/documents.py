"""Find documents and say which they are: walk folders, hash contents, name paths.

The identity of a document is its content, not its place: see ``document_id``.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from colret.errors import DocumentError

PDF_SUFFIXES = frozenset({".pdf"})
IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"})
SUPPORTED_SUFFIXES = PDF_SUFFIXES | IMAGE_SUFFIXES

_ID_DIGITS = 32  # 128 bits of the sha256: collisions stay out of reach, keys stay short
_CHUNK_BYTES = 1 << 20

_HEAD_BYTES = 1024  # readers accept a PDF whose header comes that late
_PDF_MARK = b"%PDF-"
_IMAGE_MARKS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"RIFF")

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\ud[89a-f][0-9a-f]{2}")


class SourceFile(NamedTuple):
    """A document's file as the folder lists it: enough to tell whether it changed."""

    path: Path  # absolute, symbolic links not resolved
    size: int  # bytes
    mtime_ns: int


def find_documents(paths: Sequence[Path]) -> tuple[list[SourceFile], list[DocumentError]]:
    """Return the PDFs and images under ``paths``, each once and sorted by path, and what went wrong.

    Folders are searched to any depth. Hidden entries (a leading dot) and folders that are
    symbolic links are left out of the search, so that it ends; a path given by name is taken
    whatever it is called. No file is opened.

    Args:
        paths: Files and folders, overlapping or not.

    Returns:
        The files, and one error for each path that is missing, is neither a PDF nor an image,
        or cannot be listed.
    """
    found: dict[Path, SourceFile] = {}
    errors: list[DocumentError] = []
    seen_folders: set[Path] = set()
    for path in paths:
        root = Path(os.path.abspath(path))
        try:
            status = root.stat()
        except (OSError, ValueError) as error:  # ValueError: a null byte in the path
            errors.append(_unusable(root, error))
            continue
        if stat.S_ISDIR(status.st_mode):
            _walk(root, found, errors, seen_folders)
        elif stat.S_ISREG(status.st_mode) and is_supported(root):
            found[root] = SourceFile(root, status.st_size, status.st_mtime_ns)
        else:
            errors.append(_unsupported(root))
    return [found[path] for path in sorted(found, key=os.fsencode)], errors


def is_supported(path: Path) -> bool:
    """Return whether the name of ``path`` is that of a PDF or of an image that can be read."""
    return path.suffix.lower() in SUPPORTED_SUFFIXES


def is_pdf(path: Path) -> bool:
    """Return whether ``path`` is to be read as a PDF, by its first bytes; its name decides where they say nothing.

    A document's identity is its content, so its kind must not change with its name.

    Raises:
        DocumentError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise _unusable(path, error) from error
    if _PDF_MARK in head:
        return True
    return path.suffix.lower() in PDF_SUFFIXES and not head.startswith(_IMAGE_MARKS)


def document_id(path: Path) -> str:
    """Return 32 hex digits of the sha256 of the content of ``path``.

    Raises:
        DocumentError: The file is missing, cannot be read, is empty, or is no ordinary file.
    """
    digest = hashlib.sha256()
    empty = True
    try:
        check_file(path)
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                empty = False
    except OSError as error:
        raise _unusable(path, error) from error
    if empty:
        raise _empty(path)
    return digest.hexdigest()[:_ID_DIGITS]


def check_file(path: Path) -> None:
    """Refuse what must not be opened as a document, without opening it.

    Raises:
        DocumentError: ``path`` is missing, no ordinary file (opening a FIFO would wait for
            ever), empty, or of a type that is not read.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from error
    if not stat.S_ISREG(status.st_mode) or not is_supported(path):
        raise _unsupported(path)
    if status.st_size == 0:
        raise _empty(path)


def check_unchanged(source: SourceFile) -> None:
    """Refuse a file that is not what it was when it was listed: what was read of it may be of either state.

    Raises:
        DocumentError: Its size or time differs (``changed_while_read``), or it is gone.
    """
    try:
        status = source.path.stat()
    except OSError as error:
        raise _unusable(source.path, error) from error
    if (status.st_size, status.st_mtime_ns) != (source.size, source.mtime_ns):
        problem = "changed while it was read"
        raise DocumentError(display_path(source.path), problem, "ingest again", reason="changed_while_read")


def display_path(path: Path) -> str:
    r"""Return ``path`` as valid UTF-8 text: the same for the same path, another for any other.

    A byte of a name that is not UTF-8, which Python holds as a lone surrogate, is written
    ``\udcNN``. In such a path, and in one whose name has those very characters, backslashes
    are doubled; all other paths are as they are.
    """
    text = str(path)
    if text.isascii() and "\\" not in text:
        return text
    if _SURROGATE.search(text) or _ESCAPED_SURROGATE.search(text):
        return text.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode()
    return text


def _walk(folder: Path, found: dict[Path, SourceFile], errors: list[DocumentError], seen_folders: set[Path]) -> None:
    """Add the documents under ``folder`` to ``found``, and the folders it cannot list to ``errors``."""
    pending = [folder]
    while pending:
        folder = pending.pop()
        if folder in seen_folders:
            continue
        seen_folders.add(folder)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    _visit(entry, pending, found, errors)
        except OSError as error:
            errors.append(_unusable(folder, error))


def _visit(
    entry: os.DirEntry[str], pending: list[Path], found: dict[Path, SourceFile], errors: list[DocumentError]
) -> None:
    """Note one entry of a folder: a document, a folder to search, or neither."""
    path = Path(entry.path)
    if entry.name.startswith("."):
        return
    try:
        if entry.is_dir(follow_symlinks=False):
            pending.append(path)
        elif is_supported(path) and entry.is_file():
            status = entry.stat()
            found[path] = SourceFile(path, status.st_size, status.st_mtime_ns)
        elif is_supported(path) and not os.path.exists(path):  # a link to nothing
            errors.append(_unusable(path, FileNotFoundError()))
    except OSError as error:
        errors.append(_unusable(path, error))


def _unusable(path: Path, error: OSError | ValueError) -> DocumentError:
    """Return the error that tells of an operating system's refusal."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return DocumentError(display_path(path), "no such file", "check the path", reason="missing")
    cause = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return DocumentError(display_path(path), f"cannot be read ({cause})", "check its permissions", reason="unreadable")


def _unsupported(path: Path) -> DocumentError:
    kinds = " ".join(sorted(SUPPORTED_SUFFIXES))
    return DocumentError(
        display_path(path),
        "not a document that can be read",
        f"give a {kinds} file",
        reason="unsupported_type",
    )


def _empty(path: Path) -> DocumentError:
    return DocumentError(display_path(path), "the file is empty", "replace or remove it", reason="empty_file")
