"""When the text layer of a page is not what can be read on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from colret.legibility import is_garbled, is_stamped_scan, legible_words
from colret.reading import open_document
from colret.render import PdfFile
from colret.types import PageRef, Words
from colret.words import TextLayer, read_text_layer
from tests.pdfs import PdfSpec, build_pdf, text

TESTS = Path(__file__).parent
SCRIPTS = TESTS / "data" / "scripts"
EXAMPLES = TESTS.parent / "examples"
GOOD = sorted({*EXAMPLES.glob("*.pdf"), *SCRIPTS.glob("*.pdf")} - {EXAMPLES / "scanned_plan_page.pdf"})
MEDIA = (0, 0, 612, 198)  # a quarter of a page
STAMP = text("ACME-000123 CONFIDENTIAL", 40, 170, 10)


def layer_of(characters: str, *, guessed: bool = False) -> TextLayer:
    words = Words(("word",), np.zeros((1, 4), np.uint16))
    return TextLayer(words, characters, np.full(len(characters), guessed))


def saved(tmp_path: Path, page: PdfSpec) -> Path:
    path = tmp_path / "a.pdf"
    path.write_bytes(build_pdf([page]))
    return path


def stamped(path: Path) -> bool:
    with PdfFile(path, "a") as pdf, pdf.page(1) as page:
        return is_stamped_scan(page.handle, read_text_layer(page.handle, name="a").words)


def without_mapping(tmp_path: Path, script: str) -> Path:
    """Return a PDF whose fonts no longer say which characters their glyphs are."""
    path = tmp_path / f"{script}.pdf"
    path.write_bytes((SCRIPTS / path.name).read_bytes().replace(b"/ToUnicode", b"/NoUnicode"))
    return path


@pytest.fixture(scope="module")
def scan() -> Image.Image:
    with PdfFile(EXAMPLES / "scanned_plan_page.pdf", "scan") as pdf, pdf.page(1) as page:
        image = page.render(1_400_000)
        return image.crop((0, 0, image.width, image.height // 4))


@pytest.mark.parametrize(
    ("characters", "guessed", "garbled"),
    [
        ("\ue001\ue002\ue003\ue004", False, True),
        ("\ufffd\ufffdab", False, True),
        ("\x03\x04\x05ab", False, True),
        ("\uf0b7item\uf0b7item", False, False),  # bullets
        ("plain text with an end\ufffe", False, False),
        ("soft\u00adhyphen\u200b\u200e", False, False),
        ("\u0530\u0531\u0532\u0533", True, True),  # codes taken for Armenian
        ("Արարատ", False, False),
        ("0.5 accuracy" * 20, True, False),  # a plot's font without a mapping, guessed right
        ("DQGWKHRWKHURQHV" * 20, True, True),  # shifted by 29
        ("DQGWKHRWKHURQHV" * 20, False, False),  # a list of codes, mapped
        ("DQGWKH", True, False),  # too few letters to tell
    ],
)
def test_what_is_garbled(characters: str, guessed: bool, garbled: bool) -> None:
    layer = layer_of(characters.replace(" ", ""), guessed=guessed)
    assert is_garbled(layer) is garbled
    assert legible_words(layer).texts == (() if garbled else ("word",))


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_no_page_with_a_good_text_layer_is_taken_for_a_scan(path: Path) -> None:
    with PdfFile(path, path.name) as pdf:
        for number in range(1, pdf.n_pages + 1):
            with pdf.page(number) as page:
                layer = read_text_layer(page.handle, name=path.name)
                assert not is_garbled(layer), number
                assert not is_stamped_scan(page.handle, layer.words), number


@pytest.mark.parametrize("script", ["english", "hebrew", "arabic"])
def test_fonts_without_a_mapping_are_garbled(tmp_path: Path, script: str) -> None:
    path = without_mapping(tmp_path, script)
    with PdfFile(path, "a") as pdf, pdf.page(1) as page:
        assert is_garbled(read_text_layer(page.handle, name="a"))


def test_a_garbled_page_is_read_from_its_image(tmp_path: Path) -> None:
    typed = (SCRIPTS / "english.txt").read_text("utf-8").split()
    with open_document(without_mapping(tmp_path, "english")) as document:
        page = document.read_page(1, ref=PageRef("d", 1), pixels=0, ocr=True)
        assert page.ocr
        assert len(set(typed) & set(page.words.texts)) > 0.9 * len(set(typed))
        assert not document.read_page(1, ref=PageRef("d", 1), pixels=0, ocr=False).ocr


@pytest.mark.parametrize("in_form", [False, True])
def test_a_scan_with_a_stamp(tmp_path: Path, scan: Image.Image, in_form: bool) -> None:
    assert stamped(saved(tmp_path, PdfSpec(STAMP, MEDIA, image=scan, image_in_form=in_form)))


def test_pages_that_are_no_stamped_scans(tmp_path: Path, scan: Image.Image) -> None:
    many = "".join(text("word " * 5, 40, 40 + 30 * line) for line in range(4))
    own_ocr = STAMP.replace("BT", "BT 3 Tr")  # invisible
    assert not stamped(saved(tmp_path, PdfSpec(STAMP, MEDIA)))
    assert not stamped(saved(tmp_path, PdfSpec("", MEDIA, image=scan)))
    assert not stamped(saved(tmp_path, PdfSpec(many, MEDIA, image=scan)))
    assert not stamped(saved(tmp_path, PdfSpec(own_ocr, MEDIA, image=scan)))


def test_a_stamped_scan_is_read_from_its_image(tmp_path: Path, scan: Image.Image) -> None:
    with open_document(saved(tmp_path, PdfSpec(STAMP, MEDIA, image=scan))) as document:
        page = document.read_page(1, ref=PageRef("d", 1), pixels=0, ocr=True)
    assert page.ocr
    assert {"Northwind", "understand", "quality,"} <= set(page.words.texts)
    assert any("ACME-000123" in word for word in page.words.texts)


def test_a_picture_with_a_caption_keeps_its_words(tmp_path: Path) -> None:
    """OCR is asked, as for a stamped scan, and finds no more than the caption."""
    picture = Image.effect_noise((300, 400), 80).convert("RGB")
    with open_document(saved(tmp_path, PdfSpec(text("The grey heron", 40, 20, 20), image=picture))) as document:
        page = document.read_page(1, ref=PageRef("d", 1), pixels=0, ocr=True)
    assert page.words.texts == ("The", "grey", "heron")
    assert not page.ocr
