"""What a document's file is: its kind, its identity, its name as text.

The identity of a document is its content, not its place: see ``document_id``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from colret.addresses import Address, Place
from colret.errors import DocumentError

PDF_SUFFIXES = frozenset({".pdf"})
IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"})
# No spreadsheets: printed, they fall apart into pages that nobody would recognise.
OFFICE_SUFFIXES = frozenset(
    [".doc", ".docx", ".docm", ".rtf", ".odt", ".ppt", ".pptx", ".pptm", ".odp", ".html", ".htm", ".xhtml"],
)
SUPPORTED_SUFFIXES = PDF_SUFFIXES | IMAGE_SUFFIXES | OFFICE_SUFFIXES
ARCHIVE_SUFFIXES = frozenset([".zip", ".7z", ".rar", ".tar", ".gz", ".tgz", ".bz2", ".xz"])

_ID_DIGITS = 32  # 128 bits of the sha256: collisions stay out of reach, keys stay short
_CHUNK_BYTES = 1 << 20

EARLIEST_NS, LATEST_NS = 1 - (1 << 63), (1 << 63) - 1  # and one less, which ``lasting_time`` may record
"""Of the times of files, which an index holds as int64: from 1677-09-21 to 2262-04-11."""

_HEAD_BYTES = 1024  # readers accept a PDF whose header comes that late
_PDF_MARK = b"%PDF-"
_IMAGE_MARKS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"RIFF")

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\ud[89a-f][0-9a-f]{2}")
_ESCAPED = re.compile(r"\\\\|\\u(d[89a-f][0-9a-f]{2})")


class SourceFile(NamedTuple):
    """A document's file or object as it is listed: enough to tell whether it changed."""

    path: Place  # absolute, symbolic links not resolved
    size: int  # bytes
    mtime_ns: int  # from EARLIEST_NS to LATEST_NS

    @property
    def file(self) -> Path:
        """The path of what is known to be a file.

        Raises:
            TypeError: It is an object.
        """
        if isinstance(self.path, Address):
            raise TypeError(f"{self.path} is no file")
        return self.path


def is_supported(path: Place) -> bool:
    """Return whether the name of ``path`` is that of a document that can be read."""
    return path.suffix.lower() in SUPPORTED_SUFFIXES


def is_archive(path: Place) -> bool:
    """Return whether the name of ``path`` is that of an archive, which may hold documents but is not read."""
    return path.suffix.lower() in ARCHIVE_SUFFIXES


def is_office(path: Path) -> bool:
    """Return whether ``path`` is to be converted to a PDF first: by its name, where its first bytes say nothing.

    Raises:
        DocumentError: It cannot be read.
    """
    return path.suffix.lower() in OFFICE_SUFFIXES and not _has_mark(_head(path))


def is_pdf(path: Path) -> bool:
    """Return whether ``path`` is to be read as a PDF, by its first bytes; its name decides where they say nothing.

    A document's identity is its content, so its kind must not change with its name.

    Raises:
        DocumentError: It cannot be read.
    """
    head = _head(path)
    return _PDF_MARK in head or (path.suffix.lower() in PDF_SUFFIXES and not _has_mark(head))


def document_id(path: Path) -> str:
    """Return 32 hex digits of the sha256 of the content of ``path``.

    Raises:
        DocumentError: The file is missing, cannot be read, is empty, or is no ordinary file.
    """
    digest = hashlib.sha256()
    empty = True
    check_file(path)
    try:
        with _open(path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                empty = False
    except OSError as error:
        raise unusable(path, error) from error
    if empty:
        raise empty_file(path)
    return id_of_digest(digest.hexdigest())


def id_of_digest(digest: str) -> str:
    """Return the identity of the content whose sha256 is ``digest``, in hex."""
    return digest[:_ID_DIGITS]


def id_without_content(path: str) -> str:
    """Return the identity of a file whose content cannot be had: 32 hex digits made of its path as text."""
    return hashlib.sha256(f"path:{path}".encode()).hexdigest()[:_ID_DIGITS]


def check_file(path: Path) -> os.stat_result:
    """Refuse what must not be opened as a document, without opening it; return its status.

    Raises:
        DocumentError: ``path`` is missing, no ordinary file (opening a FIFO would wait for
            ever), empty, or of a type that is not read.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise unusable(path, error) from error
    check_name(path)
    if not stat.S_ISREG(status.st_mode):
        problem = "is no ordinary file, so it is not opened"
        raise DocumentError(display_path(path), problem, "replace or remove it", reason="unsupported_type")
    if status.st_size == 0:
        raise empty_file(path)
    return status


def check_name(path: Place) -> None:
    """Refuse what has not the name of a document that can be read.

    Raises:
        DocumentError: It has not.
    """
    if is_archive(path):
        raise DocumentError(display_path(path), "is an archive", "unpack it", reason="unsupported_archive")
    if not is_supported(path):
        raise unsupported(path)


def check_unchanged(source: SourceFile) -> None:
    """Refuse a file that is not what it was when it was listed: what was read of it may be of either state.

    What is read of an object is a copy of one state of it, known to be the one that was listed.

    Raises:
        DocumentError: Its size or time differs (``changed_while_read``), or it is gone.
    """
    if isinstance(source.path, Address):
        return
    try:
        status = source.path.stat()
    except OSError as error:
        raise unusable(source.path, error) from error
    if (status.st_size, modified_ns(status)) != (source.size, source.mtime_ns):
        raise changed_while_read(source.path)


def modified_ns(status: os.stat_result) -> int:
    """Return when a file was modified, or the nearest time that an index can hold."""
    return min(max(status.st_mtime_ns, EARLIEST_NS), LATEST_NS)


def absolute_path(path: str | Path) -> Path:
    """Return ``path`` from the root, without dots; no link is resolved.

    POSIX lets two slashes at the beginning mean another root, and Python keeps them. No system that
    is in use does: they would be a second name for each file.
    """
    text = os.path.abspath(path)
    return Path("/" + text.lstrip("/") if os.name == "posix" else text)


def display_path(path: Place) -> str:
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


def path_on_disk(text: str) -> Path:
    """Return the path that ``display_path`` wrote as ``text``."""
    return Path(undisplayed(text))


def undisplayed(text: str) -> str:
    """Return what ``display_path`` wrote as ``text``."""
    if not _ESCAPED_SURROGATE.search(text):
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", text)


def unusable(path: Path, error: OSError | ValueError) -> DocumentError:
    """Return the error that tells of an operating system's refusal; ValueError: a null byte in the path."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return DocumentError(display_path(path), "no such file", "check the path", reason="missing")
    cause = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return DocumentError(display_path(path), f"cannot be read ({cause})", "check its permissions", reason="unreadable")


def unsupported(path: Place) -> DocumentError:
    """Return the error that tells of a file of another type."""
    kinds = " ".join(sorted(SUPPORTED_SUFFIXES))
    return DocumentError(
        display_path(path),
        "not a document that can be read",
        f"give a {kinds} file",
        reason="unsupported_type",
    )


def changed_while_read(path: Place) -> DocumentError:
    """Return the error that tells of a file or object that is not what was listed any more."""
    return DocumentError(display_path(path), "changed while it was read", "ingest again", reason="changed_while_read")


def empty_file(path: Place) -> DocumentError:
    """Return the error that tells of a document without content."""
    return DocumentError(display_path(path), "the file is empty", "replace or remove it", reason="empty_file")


def _head(path: Path) -> bytes:
    try:
        with _open(path) as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise unusable(path, error) from error


def _open(path: Path) -> BinaryIO:
    """Open without waiting: a FIFO that has taken the file's place since it was looked at would block for ever.

    Raises:
        OSError: It cannot be opened, or is no ordinary file.
    """
    without_waiting = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | without_waiting))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no ordinary file")
    return file


def _has_mark(head: bytes) -> bool:
    return _PDF_MARK in head or head.startswith(_IMAGE_MARKS)
