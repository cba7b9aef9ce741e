"""Parts of Office packages without references that lead out of the package."""

from __future__ import annotations

import io
import posixpath
import re
from typing import IO
from urllib.parse import unquote
from xml import sax
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

NOWHERE = "about:blank"

_REFERENCES = frozenset({"href", "src", "image-data", "Target"})  # names of attributes, without prefix
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[/\\]{2}|\\")


class EncryptedError(Exception):
    """The package says that its parts are encrypted."""


def clean_xml(stream: IO[bytes], part: str) -> bytes:
    """Return the XML of a part in UTF-8, its references that lead out of the package replaced.

    Args:
        stream: The part as it is.
        part: Its path in the package, against which relative references count.

    Raises:
        EncryptedError: It is the manifest of an encrypted OpenDocument file.
        sax.SAXException: It is not well-formed.
    """
    out = io.BytesIO()
    parser = sax.make_parser()  # expat: opens no external entity, and stops entities that grow
    parser.setContentHandler(_Cleaner(out, part))
    parser.parse(stream)
    return out.getvalue()


class _Cleaner(XMLGenerator):
    """Writes what it reads, references replaced and processing instructions left out."""

    def __init__(self, out: io.BytesIO, part: str) -> None:
        super().__init__(out, "utf-8", short_empty_elements=True)
        self._folder = posixpath.dirname(part)
        self._relations = part.endswith(".rels")

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802 - SAX's name
        if name.endswith("encryption-data"):
            raise EncryptedError
        hyperlink = name.rpartition(":")[2] == "a"  # shown, never followed
        cleaned = {
            key: NOWHERE if not hyperlink and self._leads_out(key, value, attrs) else value
            for key, value in attrs.items()
        }
        super().startElement(name, AttributesImpl(cleaned))

    def processingInstruction(self, target: str, data: str) -> None:  # noqa: N802
        """Leave it out: it may name a style sheet."""

    def _leads_out(self, key: str, value: str, attrs: AttributesImpl) -> bool:
        if key.rpartition(":")[2] not in _REFERENCES:
            return False
        target = unquote(value).strip()
        if _SCHEME.match(target) and not target.startswith("data:"):
            return True
        if self._relations:  # a leading slash is the package itself
            return attrs.get("TargetMode") == "External"
        return target.startswith("/") or posixpath.normpath(posixpath.join(self._folder, target)).startswith("..")
