"""HTML reduced to what can be shown from the file alone: text, tables, lists, embedded pictures."""

from __future__ import annotations

import codecs
import re

import nh3

_STYLES = {"background-color", "color", "font-size", "font-style", "font-weight", "text-align", "text-decoration"}
_ATTRIBUTES = {
    "*": {"align", "dir", "lang", "style", "valign"},
    "col": {"span", "width"},
    "colgroup": {"span", "width"},
    "font": {"color", "face", "size"},
    "img": {"height", "src", "width"},
    "li": {"value"},
    "ol": {"start", "type"},
    "table": {"bgcolor", "border", "cellpadding", "cellspacing", "width"},
    "td": {"bgcolor", "colspan", "rowspan", "width"},
    "th": {"bgcolor", "colspan", "rowspan", "width"},
    "tr": {"bgcolor"},
}
# LibreOffice runs the text of elements that it does not know together.
_BLOCKS = {
    "article", "aside", "details", "dialog", "fieldset", "figcaption", "figure", "footer",
    "header", "hgroup", "legend", "main", "nav", "option", "section", "summary",
}  # fmt: skip
_TAGS = nh3.ALLOWED_TAGS | _BLOCKS | {"address", "big", "font"}
_DROPPED = {"applet", "audio", "canvas", "embed", "iframe", "noscript", "object", "script", "style", "svg", "template",
            "title", "video"}  # fmt: skip
_BLOCK_TAG = re.compile(rf"<(/?)(?:{'|'.join(sorted(_BLOCKS))})\b")
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp|bmp);", re.IGNORECASE)

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_CHARSET = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
_CHARSET_BYTES = 4096
_RIGHT_TO_LEFT = re.compile(r"<(?:html|body)\b[^<>]*\bdir\s*=\s*[\"']?rtl\b", re.IGNORECASE)


def clean_html(data: bytes) -> str:
    """Return an HTML page with the text, structure and embedded pictures of ``data``, and no reference."""
    text = _decode(data)
    cleaned = nh3.clean(
        text,
        tags=_TAGS,
        clean_content_tags=_DROPPED,
        attributes=_ATTRIBUTES,
        attribute_filter=_attribute,
        link_rel=None,
        url_schemes={"data"},
        url_relative="deny",
        filter_style_properties=_STYLES,
    )
    body = _BLOCK_TAG.sub(r"<\1div", cleaned)
    direction = ' dir="rtl"' if _RIGHT_TO_LEFT.search(text) else ""
    return f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head><body{direction}>{body}</body></html>\n'


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "src":
        return value if _PICTURE.match(value) else None
    if name == "style":
        return None if re.search(r"url|[\\@]", value, re.IGNORECASE) else value
    return value


def _decode(data: bytes) -> str:
    """Return the text of an HTML file: by its byte order mark, what it declares, UTF-8, or else Windows-1252."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    declared = _CHARSET.search(data[:_CHARSET_BYTES])
    for encoding in (declared[1].decode() if declared else "utf-8", "utf-8"):
        try:
            return data.decode(encoding)
        except (LookupError, ValueError):  # another name, or other bytes, than it says
            continue
    return data.decode("cp1252", "replace")
