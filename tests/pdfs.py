"""Small PDFs built from bytes, with everything at a known place.

Coordinates are those of PDF: points, the origin at the lower left, y upwards.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

Box = tuple[float, float, float, float]
"""left, bottom, right, top in points."""

LETTER: Box = (0, 0, 612, 792)


@dataclass(frozen=True)
class PdfSpec:
    """One page: what is drawn on it and how it is shown."""

    content: str = ""
    media: Box = LETTER
    crop: Box | None = None
    rotate: int = 0
    image: Image.Image | None = None  # fills the media box, as in a scan
    image_in_form: bool = False  # as some scanners wrap it


def text(words: str, x: float, y: float, size: float = 24) -> str:
    """Return operators that draw black ``words`` in Helvetica with the baseline at (x, y)."""
    escaped = words.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"0 0 0 rg BT /F1 {size} Tf {x} {y} Td ({escaped}) Tj ET\n"


def rectangle(box: Box, color: tuple[float, float, float]) -> str:
    """Return operators that fill ``box`` with an RGB ``color`` of 0..1."""
    left, bottom, right, top = box
    red, green, blue = color
    return f"{red} {green} {blue} rg {left} {bottom} {right - left} {top - bottom} re f\n"


def build_pdf(pages: Sequence[PdfSpec]) -> bytes:
    """Return a PDF of ``pages``."""
    font = 3
    objects: dict[int, bytes] = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        font: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    }
    kids = []
    for page in pages:
        number = len(objects) + 2
        kids.append(number)
        content, resources = page.content, f"/Font << /F1 {font} 0 R >>"
        if page.image is not None:
            left, bottom, right, top = page.media
            content = f"q {right - left} 0 0 {top - bottom} {left} {bottom} cm /Im1 Do Q\n" + content
            resources += f" /XObject << /Im1 {number + 2} 0 R >>"
            objects[number + 2] = _image(page.image)
            if page.image_in_form:
                objects[number + 3] = objects[number + 2]
                objects[number + 2] = _form_around(number + 3)
        crop = "" if page.crop is None else f"/CropBox [{_numbers(page.crop)}]"
        objects[number] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [{_numbers(page.media)}] {crop} /Rotate {page.rotate}"
            f" /Resources << {resources} >> /Contents {number + 1} 0 R >>"
        ).encode()
        objects[number + 1] = _stream("", content.encode("cp1252"))
    references = " ".join(f"{kid} 0 R" for kid in kids)
    objects[2] = f"<< /Type /Pages /Kids [{references}] /Count {len(kids)} >>".encode()
    return _file(objects)


def _image(image: Image.Image) -> bytes:
    """Return an image object: grey or RGB, JPEG as scanners write it."""
    data = io.BytesIO()
    image.save(data, "JPEG", quality=90)
    space = "/DeviceGray" if image.mode == "L" else "/DeviceRGB"
    entries = (
        f"/Type /XObject /Subtype /Image /Width {image.width} /Height {image.height}"
        f" /ColorSpace {space} /BitsPerComponent 8 /Filter /DCTDecode"
    )
    return _stream(entries, data.getvalue())


def _form_around(image: int) -> bytes:
    """Return a form that draws the image object of that number."""
    resources = f"/Resources << /XObject << /Im1 {image} 0 R >> >>"
    return _stream(f"/Type /XObject /Subtype /Form /BBox [0 0 1 1] {resources}", b"/Im1 Do")


def _stream(entries: str, data: bytes) -> bytes:
    return f"<< {entries} /Length {len(data)} >>\nstream\n".encode() + data + b"\nendstream"


def _numbers(box: Box) -> str:
    return " ".join(f"{value:f}" for value in box)


def _file(objects: dict[int, bytes]) -> bytes:
    """Return header, objects, cross-reference table and trailer."""
    out = bytearray(b"%PDF-1.7\n")
    offsets = {}
    for number in sorted(objects):
        offsets[number] = len(out)
        out += f"{number} 0 obj\n".encode() + objects[number] + b"\nendobj\n"
    start = len(out)
    size = max(objects) + 1
    out += f"xref\n0 {size}\n0000000000 65535 f \n".encode()
    for number in range(1, size):
        out += f"{offsets[number]:010d} 00000 n \n".encode()
    out += f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)
