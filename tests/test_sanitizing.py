"""Copies for LibreOffice: nothing of the text lost, nothing left that leads out, no input that is not understood."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import zipfile
from pathlib import Path
from xml import sax
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret import sanitizing
from colret.errors import DocumentError
from colret.html_cleaning import clean_html
from colret.sanitizing import sanitized
from colret.xml_cleaning import NOWHERE, clean_xml
from tests.office import WRITERS, write_docx, write_html, write_odt, write_package, write_rtf

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
LINK = "http://127.0.0.1/x.png"

# HTML


def body(html: str | bytes) -> str:
    """Return what is between the tags of the body of the cleaned ``html``."""
    cleaned = clean_html(html if isinstance(html, bytes) else html.encode())
    found = re.fullmatch(r"<!DOCTYPE html>\n<html>.*<body[^>]*>(.*)</body></html>\n", cleaned, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("html", "cleaned"),
    [
        ("<p>one<p>two", "<p>one</p><p>two</p>"),
        ("<section>one</section><section>two</section>", "<div>one</div><div>two</div>"),
        ("<title>x</title><script>x</script><style>x</style>a", "a"),
        ('<a href="http://h/">link</a>', "<a>link</a>"),
        ('<p style="color: red; float: left">a', '<p style="color:red">a</p>'),
        ('<p style="color: red; background: url(http://h/)">a', "<p>a</p>"),
        ('<p style="color: u\\72l(http://h/)">a', "<p>a</p>"),
        ("1 &lt; 2 &amp; 3", "1 &lt; 2 &amp; 3"),
        ("&lt;section&gt;", "&lt;section&gt;"),
        ('<img src="data:image/png;base64,AAAA">', '<img src="data:image/png;base64,AAAA">'),
        ("<td>lost<table><tr><td colspan=2>a", 'lost<table><tbody><tr><td colspan="2">a</td></tr></tbody></table>'),
    ],
)
def test_a_page_keeps_what_can_be_shown_from_the_file_alone(html: str, cleaned: str) -> None:
    assert body(html) == cleaned


@pytest.mark.parametrize(
    "source", ["http://h/", "//h/", "a.png", "/etc/passwd", "file:///a.png", "data:image/svg+xml,x"]
)
def test_a_picture_that_is_not_in_the_file_is_left_out(source: str) -> None:
    assert source not in body(f'<img src="{source}" srcset="{source}">')


@pytest.mark.parametrize(
    ("start", "encoding"),
    [
        ("", "utf-8"),
        ("\ufeff", "utf-8"),
        ("\ufeff", "utf-16-le"),
        ("\ufeff", "utf-16-be"),
        ('<meta charset="utf-8">', "utf-8"),
        ('<meta http-equiv=Content-Type content="text/html; charset=iso-8859-1">', "iso-8859-1"),
        ('<?xml version="1.0" encoding="iso-8859-1"?>', "iso-8859-1"),
        ("<meta charset='none-such'>", "utf-8"),
        ("<meta charset=utf-8>", "cp1252"),  # it lies
        ("", "cp1252"),
    ],
)
def test_a_page_is_read_in_its_encoding(start: str, encoding: str) -> None:
    assert "<p>Ünïcödé</p>" in body(f"{start}<p>Ünïcödé</p>".encode(encoding))


def test_a_page_from_right_to_left_stays_one() -> None:
    assert '<body dir="rtl">' in clean_html("<html lang=he dir='rtl'><body>שלום".encode())


@given(st.binary() | st.text(alphabet="<>/\"' =abdefhilmoprstuy:&#;-!").map(str.encode))
def test_any_bytes_make_a_page_that_refers_to_nothing(data: bytes) -> None:
    cleaned = clean_html(b"<img src=" + data)
    tags = re.findall(r"<[^>]*>", cleaned)
    assert not [tag for tag in tags if re.search(r"\s(href|background|data|srcset)=|url", tag)]
    assert all(re.search(r'\ssrc="data:image/', tag) for tag in tags if "src=" in tag)


# Parts of packages


def cleaned(xml: str, part: str = "content.xml") -> str:
    return clean_xml(io.BytesIO(xml.encode()), part).decode().partition("\n")[2]


@pytest.mark.parametrize(
    ("target", "leads_out"),
    [
        ("http://h/x", True),
        (" HTTP://h/x", True),
        ("//h/x", True),
        ("\\\\h\\x", True),
        ("file:///etc/passwd", True),
        ("C:\\x", True),
        ("/etc/passwd", True),
        ("../x", True),
        ("a/../../x", True),
        ("%2e%2e/x", True),
        ("vnd.sun.star.script:x", True),
        ("Pictures/x.png", False),
        ("./Object 1", False),
        ("#heading", False),
        ("", False),
        ("data:image/png;base64,AAAA", False),
    ],
)
def test_a_reference_stays_in_its_package(target: str, leads_out: bool) -> None:
    expected = NOWHERE if leads_out else target
    for name in ("xlink:href", "href", "src", "form:image-data"):
        assert cleaned(f'<x:image {name}="{target}"/>') == f'<x:image {name}="{expected}"/>'
    kept = f'<text:a xlink:href="{target}">a</text:a>'  # is not followed
    assert cleaned(kept) == kept


def test_a_reference_counts_from_its_part() -> None:
    assert cleaned('<a:b href="../Pictures/x.png"/>', "Object 1/content.xml") == '<a:b href="../Pictures/x.png"/>'


def test_relations_to_parts_stay_and_others_go() -> None:
    inner = '<Relationship Id="a" Target="/word/document.xml"/><Relationship Id="b" Target="../media/x.png"/>'
    outer = '<Relationship Id="c" Target="x.png" TargetMode="External"/>'
    written = cleaned(f"<Relationships>{inner}{outer}</Relationships>", "word/_rels/document.xml.rels")
    assert inner in written
    assert f'Target="{NOWHERE}" TargetMode="External"' in written


def test_text_is_kept_to_the_letter() -> None:
    xml = '<a xmlns:b="c:d"><b:t xml:space="preserve"> 1 &lt; 2 &amp; "é" \n</b:t><b:e f="&lt;&#10;&quot;"/></a>'
    content = _Events(xml)
    assert content == _Events(cleaned(xml))
    assert cleaned('<?xml-stylesheet href="http://h/"?><a>x</a>') == "<a>x</a>"


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30))
def test_no_value_leads_out(value: str) -> None:
    quoted = quoteattr(value)
    [(_, [(_, written)])] = [event for event in _Events(cleaned(f"<a:b href={quoted}/>")) if event[1]]
    assert written in (NOWHERE, value)
    if written != NOWHERE:
        assert not written.startswith(("/", "..", "\\", "http:", "file:"))


def test_entities_neither_grow_nor_open_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRETWORD")
    opened = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{secret.as_uri()}">]><a>&x;</a>'
    assert "SECRETWORD" not in cleaned(opened)
    levels = "".join(f'<!ENTITY x{i} "{f"&x{i - 1};" * 10}">' for i in range(1, 12))
    with pytest.raises(sax.SAXException):
        cleaned(f'<!DOCTYPE a [<!ENTITY x0 "0123456789">{levels}]><a>&x11;</a>')


class _Events(list[tuple[str, list[tuple[str, str]]]]):
    """The elements, attributes and characters of an XML text."""

    def __init__(self, xml: str) -> None:
        super().__init__()
        events = self

        class Handler(sax.ContentHandler):
            def startElement(self, name: str, attrs: sax.xmlreader.AttributesImpl) -> None:  # noqa: N802
                events.append((name, sorted(attrs.items())))

            def characters(self, content: str) -> None:
                events.append((content, []))

        sax.parseString(xml.encode(), Handler())


# Files


def refused(path: Path) -> DocumentError:
    folder = path.parent / "copies"
    folder.mkdir(exist_ok=True)
    with pytest.raises(DocumentError) as caught:
        sanitized(path, folder)
    assert caught.value.subject == str(path)
    return caught.value


@pytest.mark.parametrize("suffix", [".docx", ".odt", ".pptx", ".odp"])
def test_a_package_keeps_its_parts_but_not_its_links(suffix: str, tmp_path: Path) -> None:
    path = WRITERS[suffix](tmp_path / f"a{suffix}", "heron", (LINK,))
    (tmp_path / "copies").mkdir()
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(sanitized(path, tmp_path / "copies")) as after:
        assert after.namelist() == before.namelist()
        assert any(LINK.encode() in before.read(name) for name in before.namelist())
        parts = [after.read(name) for name in after.namelist()]
    assert not [part for part in parts if b'="http://127' in part]
    assert any(b"heron" in part for part in parts)


def test_programs_and_what_could_hide_markup_are_left_out(tmp_path: Path) -> None:
    hidden = ("Basic/a.xml", "word/embeddings/a.docx", "word/vbaProject.bin", "media/a.svgz", "word/chunk.html")
    contents = dict.fromkeys(hidden, b"<p>not closed") | {
        "media/a.svgz": b"\x1f\x8b",
        "media/a.svg": b" <svg href='/x'/>",
    }
    path = write_package(tmp_path / "a.docx", contents | {"media/a.png": b"\x89PNG"})
    (tmp_path / "copies").mkdir()
    with zipfile.ZipFile(sanitized(path, tmp_path / "copies")) as after:
        assert sorted(after.namelist()) == ["media/a.png", "media/a.svg"]
        assert NOWHERE.encode() in after.read("media/a.svg")


@pytest.mark.parametrize(
    ("name", "content", "copied"),
    [
        ("a.doc", b"<!DOCTYPE HTML><p>x", "document.html"),
        ("a.xhtml", b"<p>x", "document.html"),
        ("a.doc", b"{\\rtf1 x}", "document.doc"),
        ("a.html", b"{\\rtf1 x}", "document.rtf"),
        ("a.rtf", OLE, "document.rtf"),
    ],
)
def test_its_content_says_what_a_document_is(name: str, content: bytes, copied: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "copies").mkdir()
    assert sanitized(tmp_path / name, tmp_path / "copies").name == copied


def test_fields_that_include_pictures_are_renamed(tmp_path: Path) -> None:
    path = write_rtf(tmp_path / "a.rtf", "heron IncludePicture", (LINK,))
    (tmp_path / "copies").mkdir()
    copy = sanitized(path, tmp_path / "copies").read_bytes()
    assert b"INCLUDEPICTURE" not in copy.upper()
    assert len(copy) == path.stat().st_size
    (tmp_path / "a.doc").write_bytes(OLE + "IncludePicture".encode("utf-16-le"))
    assert b"I\0g\0n\0".upper() in sanitized(tmp_path / "a.doc", tmp_path / "copies").read_bytes().upper()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.docx", b"only text", "conversion_failed"),
        ("a.doc", b"Subject: x\r\nMIME-Version: 1.0\r\n\r\n<html>", "conversion_failed"),
        ("a.docx", b"PK\x03\x04 torn", "conversion_failed"),
        ("a.docx", OLE + bytes(1016) + "EncryptedPackage\0".encode("utf-16-le") + bytes(100), "password_required"),
        ("a.doc", OLE + bytes(504) + b"\xec\xa5\xc1\0" + bytes(7) + b"\x01" + bytes(500), "password_required"),
    ],
)
def test_what_cannot_be_converted_has_its_reason(name: str, content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert refused(path).reason == reason


def test_a_document_that_only_speaks_of_encryption_is_not_encrypted(tmp_path: Path) -> None:
    path = tmp_path / "a.doc"
    path.write_bytes(OLE + bytes(504) + b"\xec\xa5\xc1\0" + bytes(512) + "The EncryptedPackage\0".encode("utf-16-le"))
    (tmp_path / "copies").mkdir()
    assert sanitized(path, tmp_path / "copies").exists()


def test_an_encrypted_package_needs_its_password(tmp_path: Path) -> None:
    entry = '<m:file-entry xmlns:m="m"><m:encryption-data/></m:file-entry>'
    path = write_package(tmp_path / "a.odt", {"META-INF/manifest.xml": entry})
    assert refused(path).reason == "password_required"
    data = bytearray(write_odt(tmp_path / "b.odt", "x").read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in [found.start() for found in re.finditer(re.escape(mark), data)]:
            data[found + flags] |= 1
    (tmp_path / "c.odt").write_bytes(data)
    assert refused(tmp_path / "c.odt").reason == "password_required"


def test_what_would_unpack_beyond_bounds_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizing, "MAX_PACKAGE_BYTES", 1 << 20)
    monkeypatch.setattr(sanitizing, "MAX_HTML_BYTES", 1 << 20)
    bomb = write_package(tmp_path / "a.docx", {"word/document.xml": bytes((1 << 20) + 1)})
    assert bomb.stat().st_size < 10_000
    assert refused(bomb).reason == "too_large"
    assert refused(write_html(tmp_path / "a.html", "x" * (1 << 20))).reason == "too_large"


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.docx").reason == "unreadable"


@given(st.integers(0, 999), st.integers(0, 255))
def test_a_damaged_package_is_copied_or_refused(per_mille: int, byte: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = write_docx(Path(name) / "a.docx", "heron", (LINK,))
        data = bytearray(path.read_bytes())
        data[len(data) * per_mille // 1000] = byte
        for damaged in (bytes(data), bytes(data[: len(data) * per_mille // 1000])):
            path.write_bytes(damaged or b"P")
            with contextlib.suppress(DocumentError):
                assert zipfile.is_zipfile(sanitized(path, Path(name)))
