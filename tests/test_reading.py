"""Documents page by page, whatever they are: above all, those that break tools."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from colret import ocr, reading, render
from colret.conversion import libreoffice
from colret.errors import DocumentError, ModelError
from colret.reading import open_document
from colret.types import Page, PageRef, Words
from tests.pdfs import PdfSpec, build_pdf, rectangle, text

HARD = Path(__file__).parent / "data" / "hard-pdfs"

# The files of which something cannot be read: a reason for the document, or one by page.
# All pages of the other files can be read.
UNREADABLE: dict[str, str | dict[int, str]] = {
    "bad_format--T04_008_trailer-no-trailer-keyword.pdf": "not_a_pdf",
    "bad_format--T04_010_trailer-no-closing-brackets.pdf": "not_a_pdf",
    "bad_format--bad1.pdf": "not_a_pdf",
    "load_fails_with_success_code--bug_1042915.pdf": "no_pages",
    "load_fails_with_success_code--filter-on-write.pdf": "no_pages",
    "load_fails_with_success_code--repeat_viewer_ref.pdf": "no_pages",
    "page_load_error_but_doc_opens--T02-02_003_page-tree-different-kids.pdf": {3: "page_unreadable"},
    "page_load_error_but_doc_opens--T02-02_005_page-tree-no-kids.pdf": {1: "page_unreadable"},
    "page_load_error_but_doc_opens--bad34.pdf": {1: "page_unreadable"},
    "password_required--encrypted_hello_world_r2.pdf": "password_required",
    "password_required--encrypted_hello_world_r3_bad_okey.pdf": "password_required",
    "password_required--encrypted_hello_world_r5.pdf": "password_required",
    "portfolio--unsupported_feature.pdf": {2: "page_unreadable", 3: "page_unreadable"},
}


def read(path: Path, number: int = 1, *, pixels: int = 0, ocr: bool = False) -> Page:
    with open_document(path) as document:
        return document.read_page(number, ref=PageRef("doc", number), pixels=pixels, ocr=ocr)


def saved(tmp_path: Path, *pages: PdfSpec) -> Path:
    path = tmp_path / "a.pdf"
    path.write_bytes(build_pdf(pages))
    return path


@pytest.mark.parametrize("path", sorted(HARD.glob("*.pdf")), ids=lambda path: path.stem)
def test_a_hard_file_is_read_or_says_why_not(path: Path) -> None:
    failures: dict[int, str] = {}
    expected = UNREADABLE.get(path.name, {})
    if isinstance(expected, str):
        with pytest.raises(DocumentError) as caught:
            open_document(path)
        assert caught.value.reason == expected
        assert caught.value.subject == str(path)
        return
    with open_document(path) as document:
        for number in range(1, document.n_pages + 1):
            try:
                page = document.read_page(number, ref=PageRef("doc", number), pixels=100_000, ocr=False)
            except DocumentError as error:
                failures[number] = error.reason
                continue
            assert page.image is not None
            assert page.image.width * page.image.height <= 100_000
            assert page.width > 0 < page.height
    assert failures == expected


def test_the_table_of_hard_files_names_files_that_exist() -> None:
    assert set(UNREADABLE) <= {path.name for path in HARD.glob("*.pdf")}


def test_a_page_has_all_its_parts(tmp_path: Path) -> None:
    path = saved(tmp_path, PdfSpec(text("Net revenue", 100, 700) + rectangle((0, 0, 306, 500), (1, 0, 0))))
    page = read(path, pixels=40_000)
    assert page.ref == PageRef("doc", 1)
    assert (page.width, page.height) == (612, 792)
    assert page.words.texts == ("Net", "revenue")
    assert page.image is not None
    assert page.image.mode == "RGB"
    assert 0.9 * 40_000 < page.image.width * page.image.height <= 40_000
    assert page.image.getpixel((20, 200)) == (255, 0, 0)
    without = read(path)
    assert without.image is None
    assert without.image_hash == page.image_hash != 0
    assert without.words.texts == page.words.texts


def test_ocr_is_asked_only_where_the_text_layer_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ocr_words(image: Image.Image, *, name: str) -> Words:
        asked.append((image.size, name))
        return Words(("read",), np.zeros((1, 4), np.uint16))

    monkeypatch.setattr(reading, "ocr_words", ocr_words)
    path = saved(tmp_path, PdfSpec(text("born digital", 72, 72)), PdfSpec(rectangle((9, 9, 99, 99), (1, 0, 0))))
    assert read(path, 1, ocr=True).words.texts == ("born", "digital")
    assert read(path, 2, ocr=False).words.texts == ()
    assert asked == []
    assert read(path, 2, ocr=True).words.texts == ("read",)
    ((size, name),) = asked
    assert name == f"{path} page 2"
    assert size == pytest.approx((612 * 125 / 72, 792 * 125 / 72), abs=2)  # 125 dpi


def test_a_scan_is_read(tmp_path: Path) -> None:
    content = text("Shipping manifest", 40, 230, 26) + text("Total weight 348 kg", 40, 180, 26)
    original = saved(tmp_path, PdfSpec(content, (0, 0, 400, 300)))
    scan = read(original, pixels=480_000).image
    assert scan is not None
    pdf, picture = tmp_path / "scan.pdf", tmp_path / "scan.png"
    pdf.write_bytes(build_pdf([PdfSpec(image=scan, media=(0, 0, 400, 300)), PdfSpec()]))
    scan.save(picture, dpi=(144, 144))
    expected = read(original).words
    for path in (pdf, picture):
        page = read(path, ocr=True)
        assert (page.width, page.height) == pytest.approx((400, 300), rel=0.01)
        assert set(expected.texts) <= set(page.words.texts)
        place = dict(zip(page.words.texts, page.words.boxes.astype(float), strict=True))
        for word, box in zip(expected.texts, expected.boxes.astype(float), strict=True):
            assert np.abs(place[word] - box).max() < 0.04 * 65535
    assert read(pdf, 2, ocr=True).words.texts == ()


def test_where_ocr_is_not_installed_a_picture_of_text_says_so_and_a_blank_page_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ModelError("rapidocr", "is not installed", "pip install rapidocr onnxruntime")

    monkeypatch.setattr(ocr, "_engine", missing)
    path = saved(tmp_path, PdfSpec(rectangle((100, 100, 500, 500), (0, 0, 0))), PdfSpec(), PdfSpec(text("A", 9, 9)))
    with pytest.raises(DocumentError, match="pip install rapidocr") as caught:
        read(path, 1, ocr=True)
    assert (caught.value.reason, caught.value.subject) == ("no_text_no_ocr", f"{path} page 1")
    assert read(path, 2, ocr=True).words.texts == ()
    assert read(path, 3, ocr=True).words.texts == ("A",)


@pytest.mark.skipif(libreoffice() is None, reason="LibreOffice is not installed")
def test_what_a_document_was_converted_to_can_be_kept(tmp_path: Path) -> None:
    path, kept = tmp_path / "a.html", tmp_path / "kept.pdf"
    path.write_text("<p>Net revenue</p>")
    with open_document(path, keep_at=kept) as document:
        assert document.read_page(1, ref=PageRef("doc", 1), pixels=0, ocr=False).words.texts == ("Net", "revenue")
    assert kept.read_bytes().startswith(b"%PDF-")
    kept.write_bytes(build_pdf([PdfSpec(text("converted before", 72, 700))]))
    with open_document(path, keep_at=kept) as document:
        assert document.read_page(1, ref=PageRef("doc", 1), pixels=0, ocr=False).words.texts == ("converted", "before")


def test_the_next_page_can_be_read_after_one_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = HARD / "portfolio--unsupported_feature.pdf"
    with open_document(path) as document:
        for number in (2, 1, 3, 1):
            if number == 1:
                assert document.read_page(1, ref=PageRef("doc", 1), pixels=100, ocr=False).width == 612
                continue
            with pytest.raises(DocumentError) as caught:
                document.read_page(number, ref=PageRef("doc", number), pixels=100, ocr=False)
            assert caught.value.subject == f"{path} page {number}"


@pytest.mark.parametrize("suffix", [".pdf", ".tif"])
def test_a_page_that_is_not_there_is_the_callers_mistake(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(build_pdf([PdfSpec()]))
    if suffix == ".tif":
        Image.new("L", (9, 9)).save(path)
    for number in (0, 2):
        with pytest.raises(IndexError):
            read(path, number)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.pdf", b"", "empty_file"),
        ("a.png", b"", "empty_file"),
        ("a.pdf", b"no PDF", "not_a_pdf"),
        ("a.png", b"no image", "not_an_image"),
        ("a.png", b"%PDF-1.7", "not_a_pdf"),
        ("a.pdf", b"\x89PNG\r\n\x1a\n torn", "not_an_image"),
        ("a.txt", b"text", "unsupported_type"),
        ("a.pdf", None, "missing"),
    ],
)
def test_what_cannot_be_opened_says_why(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DocumentError) as caught:
        open_document(path)
    assert caught.value.reason == reason
    assert caught.value.subject == str(path)


def test_a_folder_and_a_fifo_are_not_opened(tmp_path: Path) -> None:
    folder, fifo = tmp_path / "folder.pdf", tmp_path / "fifo.pdf"
    folder.mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(fifo)
    for path in (folder, fifo):
        with pytest.raises(DocumentError) as caught:
            open_document(path)
        assert caught.value.reason in ("unsupported_type", "missing")


WHOLE = build_pdf([PdfSpec(text("Net revenue", 72, 700)), PdfSpec(text("by segment", 72, 700), rotate=90)])


def read_all(path: Path, content: bytes) -> None:
    """Read what can be read of ``content``, and let nothing but a DocumentError pass."""
    path.write_bytes(content)
    try:
        with open_document(path) as document:
            for number in range(1, document.n_pages + 1):
                try:
                    document.read_page(number, ref=PageRef("doc", number), pixels=500, ocr=False)
                except DocumentError as error:
                    if error.subject != f"{path} page {number}":
                        raise
    except DocumentError as error:
        if error.subject != str(path):
            raise


def test_every_truncation_is_read_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "poppler_available", lambda: False)
    for length in range(0, len(WHOLE), 61):
        read_all(tmp_path / "a.pdf", WHOLE[:length])


@settings(deadline=None, max_examples=200)
@given(changes=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=6)), min_size=1, max_size=6))
def test_every_damage_is_read_or_says_why_not(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, bytes]]
) -> None:
    content = bytearray(WHOLE)
    for place, change in changes:
        content[place : place + len(change)] = change
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "poppler_available", lambda: False)
        read_all(tmp_path_factory.getbasetemp() / "damaged.pdf", bytes(content))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_closing_frees_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "poppler_available", lambda: False)
    pdf, tiff = saved(tmp_path, PdfSpec(text("x", 9, 9)), PdfSpec()), tmp_path / "a.tif"
    Image.new("L", (9, 9)).save(tiff, save_all=True, append_images=[Image.new("L", (9, 9))])
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for path in (pdf, tiff, HARD / "bad_format--bad1.pdf", HARD / "portfolio--unsupported_feature.pdf"):
        for _ in range(3):
            try:
                for number in (1, 2):
                    read(path, number, pixels=100)
            except DocumentError:
                pass
    assert len(os.listdir("/proc/self/fd")) == before
