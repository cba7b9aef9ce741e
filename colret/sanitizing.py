"""Copies of Office and HTML documents that lead nowhere: no links to follow, no programs to run.

LibreOffice follows what a document links to, be it on the network or on this machine, and its
settings stop only part of that. So it is given copies: HTML reduced to its text, tables, lists
and embedded pictures; packages (.docx, .pptx, .odt, .odp) without external references, embedded
packages and macros. The older formats (.doc, .ppt, .rtf) lose the fields that include pictures
where these are written plainly; beyond that they rest on the settings.
"""

from __future__ import annotations

import lzma
import mmap
import re
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, Final, Literal
from xml.sax import SAXException

from colret.documents import display_path
from colret.errors import DocumentError, Reason
from colret.html_cleaning import clean_html
from colret.xml_cleaning import EncryptedError, clean_xml

Kind = Literal["html", "package", "ole", "rtf"]

MAX_HTML_BYTES: Final = 64 << 20
MAX_PACKAGE_BYTES: Final = 1 << 30  # of all parts, unpacked

_HEAD_BYTES = 1024
_PACKAGE_MARK = b"PK\x03\x04"
_OLE_MARK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_ENCRYPTED = tuple(f"{name}\0".encode("utf-16-le") for name in ("EncryptedPackage", "EncryptedSummary"))
_OLE_ENTRY_BYTES = 128  # of the directory, each starting with a name
_WORD_MARK = b"\xec\xa5\xc1\0"  # of the header of a Word 97 document, at the start of a sector
_WORD_SECTOR_BYTES = 512
_WORD_FLAGS = 11  # byte of that header
_WORD_ENCRYPTED = 0x01
_HTML = re.compile(rb"<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_HTML_SUFFIXES = frozenset([".html", ".htm", ".xhtml"])
_SUFFIXES: Final[dict[Kind, str]] = {"html": ".html", "package": ".docx", "ole": ".doc", "rtf": ".rtf"}

_INCLUDING = b"INCLUDEPICTURE"  # the one field whose file LibreOffice 7.4 reads against its settings
_IGNORED = b"IGNOREDPICTURE"

_ZIP_ENCRYPTED = 0x1
_COMPRESSED_MARK = b"\x1f\x8b"  # an SVG may hide in it
_PROGRAMS = re.compile(r"(^|/)(Basic|Scripts|embeddings|Configurations2)/|(^|/)vbaProject\.bin$")
_MARKUP = re.compile(rb"(\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\0\s]*<")
_STRICT_SUFFIXES = (".xml", ".rels")  # a package is damaged where these cannot be understood

_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,  # NotImplementedError too: a way of compressing that Python lacks
    SAXException,
    ValueError,
)


def sanitized(path: Path, folder: Path) -> Path:
    """Write a copy of ``path`` that leads nowhere into ``folder``, under a plain name; return its path.

    What kind of document it is, its first bytes say: a .doc may hold anything.

    Raises:
        DocumentError: It cannot be read (``unreadable``), needs a password, is too large, is
            damaged, or is nothing that LibreOffice should be given (``conversion_failed``).
    """
    try:
        with path.open("rb") as file:
            kind = _kind(file.read(_HEAD_BYTES), path)
            file.seek(0)
            suffix = path.suffix.lower()
            if kind == "html" or suffix in _HTML_SUFFIXES:
                suffix = _SUFFIXES[kind]
            copy = folder / f"document{suffix}"
            _write(file, kind, copy, path)
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise _refusal(path, problem, "check its permissions and the room for temporary files", "unreadable") from error
    return copy


def _kind(head: bytes, path: Path) -> Kind:
    if head.startswith(_PACKAGE_MARK):
        return "package"
    if head.startswith(_OLE_MARK):
        return "ole"
    if head.lstrip().startswith(b"{\\rtf"):
        return "rtf"
    if b"MIME-Version:" in head:
        raise _refusal(path, "is a web archive", "save it as PDF")
    if path.suffix.lower() in _HTML_SUFFIXES or _HTML.search(head):
        return "html"
    raise _refusal(path, "does not hold what its name says", "open it in its program and save it as PDF")


def _write(file: BinaryIO, kind: Kind, copy: Path, path: Path) -> None:
    if kind == "package":
        _write_package(file, copy, path)
    elif kind == "html":
        data = file.read(MAX_HTML_BYTES + 1)
        if len(data) > MAX_HTML_BYTES:
            raise _too_large(path, MAX_HTML_BYTES)
        copy.write_text(clean_html(data), encoding="utf-8")
    else:
        with copy.open("wb") as target:
            shutil.copyfileobj(file, target)
        _ignore_fields(copy)
        if kind == "ole" and _ole_encrypted(copy):
            raise _encrypted(path)


def _write_package(file: BinaryIO, copy: Path, path: Path) -> None:
    try:
        with zipfile.ZipFile(file) as source, zipfile.ZipFile(copy, "w", compresslevel=1) as target:
            parts = {part.filename: part for part in source.infolist() if not part.is_dir()}
            if sum(part.file_size for part in parts.values()) > MAX_PACKAGE_BYTES:
                raise _too_large(path, MAX_PACKAGE_BYTES)
            for part in parts.values():
                if not _PROGRAMS.search(part.filename):
                    _copy_part(source, part, target)
    except EncryptedError as error:
        raise _encrypted(path) from error
    except _DAMAGES as error:
        raise _refusal(path, f"is damaged ({error})", "open it in its program and save it as PDF") from error


def _copy_part(source: zipfile.ZipFile, part: zipfile.ZipInfo, target: zipfile.ZipFile) -> None:
    """Copy one part of a package, cleaned; leave out one that could hide markup."""
    if part.flag_bits & _ZIP_ENCRYPTED:
        raise EncryptedError
    copied = zipfile.ZipInfo(part.filename)
    copied.compress_type = zipfile.ZIP_STORED if part.compress_type == zipfile.ZIP_STORED else zipfile.ZIP_DEFLATED
    with source.open(part) as stream:
        head = stream.read(_HEAD_BYTES)
    strict = part.filename.lower().endswith(_STRICT_SUFFIXES)
    if head.startswith(_COMPRESSED_MARK):
        return
    with source.open(part) as stream:
        if not strict and not _MARKUP.match(head):
            with target.open(copied, "w") as out:
                shutil.copyfileobj(stream, out)
            return
        try:
            cleaned = clean_xml(stream, part.filename)
        except SAXException:
            if strict:
                raise
            return
    target.writestr(copied, cleaned)


def _ignore_fields(copy: Path) -> None:
    """Rename fields that include pictures, in place: an unknown field shows what it last showed."""
    forms = [(_INCLUDING, _IGNORED), (_wide(_INCLUDING), _wide(_IGNORED))]
    with copy.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        for form, ignored in forms:
            places = [found.start() for found in re.finditer(re.escape(form), data, re.IGNORECASE)]
            for at in places:
                data[at : at + len(form)] = ignored


def _wide(name: bytes) -> bytes:
    return name.decode().encode("utf-16-le")


def _ole_encrypted(copy: Path) -> bool:
    """Return whether an OLE file says that its document is encrypted."""
    with copy.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if any(_find_aligned(data, name, _OLE_ENTRY_BYTES) >= 0 for name in _OLE_ENCRYPTED):
            return True
        header = _find_aligned(data, _WORD_MARK, _WORD_SECTOR_BYTES)
        flags = data[header + _WORD_FLAGS : header + _WORD_FLAGS + 1] if header >= 0 else b""
        return bool(flags) and bool(flags[0] & _WORD_ENCRYPTED)


def _find_aligned(data: mmap.mmap, mark: bytes, step: int) -> int:
    """Return where ``mark`` is first found at a multiple of ``step`` bytes, or -1."""
    at = data.find(mark)
    while at >= 0 and at % step:
        at = data.find(mark, at + 1)
    return at


def _encrypted(path: Path) -> DocumentError:
    return _refusal(path, "needs a password", "save a copy without one, or as PDF", "password_required")


def _too_large(path: Path, limit: int) -> DocumentError:
    return _refusal(path, f"holds more than {limit >> 20} MB", "split it, or save it as PDF", "too_large")


def _refusal(path: Path, problem: str, remedy: str, reason: Reason = "conversion_failed") -> DocumentError:
    return DocumentError(display_path(path), problem, remedy, reason=reason)
