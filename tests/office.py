"""Small Office and HTML documents built from bytes, whose pages try to fetch what they link to."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns"
_ODF_NAMES = " ".join(
    [
        *(
            f'xmlns:{name}="{_OPEN_DOCUMENT}:{kind}:1.0"'
            for name, kind in (
                ("office", "office"),
                ("text", "text"),
                ("style", "style"),
                ("draw", "drawing"),
                ("svg", "svg-compatible"),
            )
        ),
        'xmlns:xlink="http://www.w3.org/1999/xlink"',
    ]
)
_MAIN = "http://schemas.openxmlformats.org/drawingml/2006/main"


def write_package(path: Path, parts: Mapping[str, str | bytes]) -> Path:
    """Write a zip of ``parts``, by name; OpenDocument wants its mimetype first, as it is."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED)
    return path


def write_docx(path: Path, text: str, links: tuple[str, ...] = ()) -> Path:
    """Write a Word document of one paragraph, with pictures and fields that are ``links``."""
    names = (
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
        ' xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
        f' xmlns:r="{_RELATIONS}" xmlns:a="{_MAIN}"'
        ' xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
    )
    pictures = "".join(
        '<w:p><w:r><w:drawing><wp:inline><wp:extent cx="914400" cy="914400"/><wp:docPr id="1" name="p"/>'
        '<a:graphic><a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/picture">'
        '<pic:pic><pic:nvPicPr><pic:cNvPr id="1" name="p"/><pic:cNvPicPr/></pic:nvPicPr>'
        f'<pic:blipFill><a:blip r:link="rId{i}"/><a:stretch><a:fillRect/></a:stretch></pic:blipFill>'
        '<pic:spPr><a:xfrm><a:off x="0" y="0"/><a:ext cx="914400" cy="914400"/></a:xfrm>'
        '<a:prstGeom prst="rect"/></pic:spPr></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>'
        f"""<w:p><w:fldSimple w:instr='INCLUDETEXT "{link}"'><w:r><w:t>field</w:t></w:r></w:fldSimple></w:p>"""
        for i, link in enumerate(links)
    )
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    return write_package(
        path,
        {
            "[Content_Types].xml": _content_types({"/word/document.xml": word}),
            "_rels/.rels": _relations([("rId1", "officeDocument", "word/document.xml")]),
            "word/document.xml": f"<w:document {names}><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p>{pictures}"
            "</w:body></w:document>",
            "word/_rels/document.xml.rels": _relations((f"rId{i}", "image", link) for i, link in enumerate(links)),
        },
    )


def write_odt(path: Path, text: str, links: tuple[str, ...] = ()) -> Path:
    """Write an OpenDocument text, with a background, pictures and linked sections that are ``links``."""
    styles = "".join(
        f'<style:style style:name="P{i}" style:family="paragraph"><style:paragraph-properties>'
        f'<style:background-image xlink:href="{link}"/></style:paragraph-properties></style:style>'
        for i, link in enumerate(links)
    )
    sections = "".join(
        f'<text:p text:style-name="P{i}">{_frame("image", link)}{_frame("object", link)}</text:p><text:section'
        f' text:name="s{i}"><text:section-source xlink:href="{link}"/><text:p>section</text:p></text:section>'
        for i, link in enumerate(links)
    )
    body = f"<office:text><text:p>{text}</text:p>{sections}</office:text>"
    return _write_open_document(path, "application/vnd.oasis.opendocument.text", body, styles)


def write_odp(path: Path, text: str, links: tuple[str, ...] = ()) -> Path:
    """Write an OpenDocument presentation of one slide, with pictures and objects that are ``links``."""
    words = f"<draw:text-box><text:p>{text}</text:p></draw:text-box>"
    box = f'<draw:frame svg:width="10cm" svg:height="2cm">{words}</draw:frame>'
    frames = "".join(_frame("image", link) + _frame("object", link) for link in links)
    page = f'<draw:page draw:name="page1" draw:master-page-name="Default">{box}{frames}</draw:page>'
    kind = "application/vnd.oasis.opendocument.presentation"
    return _write_open_document(path, kind, f"<office:presentation>{page}</office:presentation>", "")


def write_pptx(path: Path, text: str, links: tuple[str, ...] = ()) -> Path:
    """Write a PowerPoint presentation of one slide, with pictures that are ``links``."""
    names = (
        f'xmlns:a="{_MAIN}" xmlns:r="{_RELATIONS}" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    )
    tree = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
    place = '<a:xfrm><a:off x="457200" y="457200"/><a:ext cx="8000000" cy="900000"/></a:xfrm><a:prstGeom prst="rect"/>'
    box = (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="t"/><p:cNvSpPr txBox="1"/><p:nvPr/></p:nvSpPr><p:spPr>{place}</p:spPr>'
        f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )
    pictures = "".join(
        f'<p:pic><p:nvPicPr><p:cNvPr id="{i + 9}" name="x"/><p:cNvPicPr/><p:nvPr/></p:nvPicPr><p:blipFill>'
        f'<a:blip r:link="link{i}"/><a:stretch/></p:blipFill><p:spPr>{place}</p:spPr></p:pic>'
        for i, _ in enumerate(links)
    )
    kinds = {
        "presentation.xml": "presentation.main",
        "slide.xml": "slide",
        "layout.xml": "slideLayout",
        "master.xml": "slideMaster",
    }
    types = {
        f"/ppt/{name}": f"application/vnd.openxmlformats-officedocument.presentationml.{kind}+xml"
        for name, kind in kinds.items()
    }
    return write_package(
        path,
        {
            "[Content_Types].xml": _content_types(types),
            "_rels/.rels": _relations([("rId1", "officeDocument", "ppt/presentation.xml")]),
            "ppt/presentation.xml": f'<p:presentation {names}><p:sldMasterIdLst><p:sldMasterId id="2147483648"'
            ' r:id="rId1"/></p:sldMasterIdLst><p:sldIdLst><p:sldId id="256" r:id="rId2"/></p:sldIdLst>'
            '<p:sldSz cx="9144000" cy="6858000"/><p:notesSz cx="6858000" cy="9144000"/></p:presentation>',
            "ppt/_rels/presentation.xml.rels": _relations(
                [("rId1", "slideMaster", "master.xml"), ("rId2", "slide", "slide.xml")]
            ),
            "ppt/master.xml": f"<p:sldMaster {names}><p:cSld><p:spTree>{tree}</p:spTree></p:cSld></p:sldMaster>",
            "ppt/_rels/master.xml.rels": _relations([("rId1", "slideLayout", "layout.xml")]),
            "ppt/layout.xml": f"<p:sldLayout {names}><p:cSld><p:spTree>{tree}</p:spTree></p:cSld></p:sldLayout>",
            "ppt/_rels/layout.xml.rels": _relations([("rId1", "slideMaster", "master.xml")]),
            "ppt/slide.xml": f"<p:sld {names}><p:cSld><p:spTree>{tree}{box}{pictures}</p:spTree></p:cSld></p:sld>",
            "ppt/_rels/slide.xml.rels": _relations(
                [("rId1", "slideLayout", "layout.xml"), *((f"link{i}", "image", x) for i, x in enumerate(links))]
            ),
        },
    )


def write_rtf(path: Path, text: str, links: tuple[str, ...] = ()) -> Path:
    """Write a rich text file, with fields that include ``links``."""
    fields = "".join(
        rf'{{\field{{\*\fldinst {kind} "{link}"}}{{\fldrslt field}}}}\par'
        for link in links
        for kind in ("INCLUDEPICTURE", "INCLUDETEXT")
    )
    path.write_text(rf"{{\rtf1\ansi {text}\par {fields}}}")
    return path


def write_html(path: Path, text: str, links: tuple[str, ...] = ()) -> Path:
    """Write a page that uses ``links`` in every way that a page can."""
    uses = "".join(
        f'<img src="{link}"><iframe src="{link}"></iframe><object data="{link}"></object><embed src="{link}">'
        f'<table background="{link}"><tr><td>cell</td></tr></table><p style="background: url({link})">styled</p>'
        f'<script src="{link}"></script><video src="{link}" poster="{link}"></video>'
        for link in links
    )
    head = "".join(
        f'<link rel="stylesheet" href="{link}"><base href="{link}"><style>@import url("{link}");</style>'
        f'<meta http-equiv="refresh" content="0; url={link}">'
        for link in links
    )
    body = f'<body background="{links[0]}">' if links else "<body>"
    path.write_text(f"<!DOCTYPE html><html><head>{head}</head>{body}<p>{text}</p>{uses}</body></html>", "utf-8")
    return path


WRITERS: dict[str, Callable[[Path, str, tuple[str, ...]], Path]] = {
    ".docx": write_docx,
    ".odt": write_odt,
    ".pptx": write_pptx,
    ".odp": write_odp,
    ".rtf": write_rtf,
    ".html": write_html,
}
"""How to write a document, by the suffix of its name."""


def _write_open_document(path: Path, kind: str, body: str, styles: str) -> Path:
    manifest = (
        f'<manifest:manifest xmlns:manifest="{_OPEN_DOCUMENT}:manifest:1.0" manifest:version="1.2">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
        '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/></manifest:manifest>'
    )
    content = (
        f'<office:document-content {_ODF_NAMES} office:version="1.2"><office:automatic-styles>{styles}'
        f"</office:automatic-styles><office:body>{body}</office:body></office:document-content>"
    )
    return write_package(path, {"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": manifest})


def _frame(element: str, link: str) -> str:
    return (
        '<draw:frame text:anchor-type="paragraph" svg:width="3cm" svg:height="3cm">'
        f'<draw:{element} xlink:href="{link}" xlink:type="simple" xlink:actuate="onLoad"/></draw:frame>'
    )


def _content_types(types: Mapping[str, str]) -> str:
    overrides = "".join(f'<Override PartName="{name}" ContentType="{kind}"/>' for name, kind in types.items())
    return (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/><Default'
        f' Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{overrides}</Types>'
    )


def _relations(items: Iterable[tuple[str, str, str]]) -> str:
    external = ' TargetMode="External"'
    relations = "".join(
        f'<Relationship Id="{name}" Type="{_RELATIONS}/{kind}" Target="{target}"{external if "://" in target else ""}/>'
        for name, kind, target in items
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}</Relationships>'
