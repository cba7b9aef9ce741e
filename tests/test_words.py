"""Words of the text layer, and where they are on the displayed page."""
# ruff: noqa: RUF001 - letters of other scripts are the point

from __future__ import annotations

import ctypes
import re
import unicodedata
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from colret.errors import DocumentError
from colret.render import PdfFile
from colret.types import Words
from colret.word_boxes import display_boxes
from colret.words import split_words, text_layer_words
from tests.pdfs import Box, PdfSpec, build_pdf, rectangle, text

HARD = Path(__file__).parent / "data" / "hard-pdfs"
SCRIPTS = Path(__file__).parent / "data" / "scripts"


def words_of(path: Path, number: int = 1) -> Words:
    with PdfFile(path, path.name) as pdf, pdf.page(number) as page:
        return text_layer_words(page.handle, name=path.name)


def pdf_file(tmp_path: Path, *pages: PdfSpec) -> Path:
    path = tmp_path / "a.pdf"
    path.write_bytes(build_pdf(pages))
    return path


def units(string: str) -> str:
    """Return ``string`` with one character for each UTF-16 unit, as PDFium counts."""
    data = string.encode("utf-16-le", "surrogatepass")
    return "".join(chr(int.from_bytes(data[i : i + 2], "little")) for i in range(0, len(data), 2))


def test_words_come_in_reading_order_with_their_boxes(tmp_path: Path) -> None:
    content = text("Net revenue", 72, 700) + text("by segment: 2,023", 72, 650)
    words = words_of(pdf_file(tmp_path, PdfSpec(content)))
    assert words.texts == ("Net", "revenue", "by", "segment:", "2,023")
    assert words.boxes.dtype == np.uint16
    left, top, right, bottom = words.boxes.astype(float).T / 65535
    assert (left < right).all()
    assert (top < bottom).all()
    assert left[[0, 2]] * 612 == pytest.approx([72, 72], abs=3)
    # Helvetica: "N" is .718 em high, on the baseline.
    assert (1 - bottom[0]) * 792 == pytest.approx(700, abs=1)
    assert (1 - top[0]) * 792 == pytest.approx(700 + 0.718 * 24, abs=1)
    assert left[1] > right[0]
    assert top[2] > bottom[0]


@pytest.mark.parametrize("method", ["get_textpage", "get_bbox", "get_rotation"])
def test_a_failure_of_pdfium_names_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    def fail(_: object) -> None:
        raise pdfium.PdfiumError("failed")

    path = pdf_file(tmp_path, PdfSpec(text("x", 72, 72)))
    with PdfFile(path, "a") as pdf, pdf.page(1) as page:
        monkeypatch.setattr(pdfium.PdfPage, method, fail)
        with pytest.raises(DocumentError, match="a page 1") as caught:
            text_layer_words(page.handle, name="a page 1")
    assert caught.value.reason == "page_unreadable"


MEDIA: Box = (-50, 20, 450, 420)
CROP: Box = (0, 100, 400, 400)


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("crop", [None, CROP])
def test_a_box_holds_the_ink_of_its_word(tmp_path: Path, rotate: int, crop: Box | None) -> None:
    content = rectangle(MEDIA, (1, 1, 1)) + text("Habitat", 220, 150, 30)
    path = pdf_file(tmp_path, PdfSpec(content, MEDIA, crop, rotate))
    with PdfFile(path, "a") as pdf, pdf.page(1) as page:
        words = text_layer_words(page.handle, name="a")
        ink = np.asarray(page._draw((800, 800)).convert("L")) < 128
    rows, columns = np.nonzero(ink)
    drawn = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) / 800
    assert words.texts == ("Habitat",)
    assert words.boxes[0] / 65535 == pytest.approx(drawn, abs=2.5 / 800)


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_boxes_are_where_pdfium_places_them(tmp_path: Path, rotate: int) -> None:
    path = pdf_file(tmp_path, PdfSpec(text("Habitat", 220, 150, 30), MEDIA, CROP, rotate))
    with PdfFile(path, "a") as pdf, pdf.page(1) as page:
        textpage = page.handle.get_textpage()
        left, bottom, right, top = textpage.get_rect(0) if textpage.count_rects() == 1 else pytest.fail("one rectangle")
        textpage.close()
        corners = []
        for x, y in ((left, bottom), (right, top)):
            across, down = ctypes.c_int(), ctypes.c_int()
            pdfium_c.FPDF_PageToDevice(page.handle, 0, 0, 65535, 65535, 0, x, y, across, down)
            corners.append((across.value, down.value))
        (box,) = text_layer_words(page.handle, name="a").boxes.astype(int)
    (x1, y1), (x2, y2) = corners
    assert np.abs(box - [min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)]).max() <= 1


def test_a_page_without_text_has_no_words(tmp_path: Path) -> None:
    words = words_of(pdf_file(tmp_path, PdfSpec(), PdfSpec(text("second", 72, 72))))
    assert words.texts == ()
    assert words.boxes.shape == (0, 4)
    assert words_of(tmp_path / "a.pdf", 2).texts == ("second",)


def test_words_outside_the_displayed_page_are_left_out_and_those_across_its_edge_clipped(
    tmp_path: Path,
) -> None:
    content = text("outside", 10, 300) + text("inside", 150, 300) + text("across", 270, 150)
    words = words_of(pdf_file(tmp_path, PdfSpec(content, crop=(100, 100, 300, 400))))
    assert words.texts == ("inside", "across")
    assert words.boxes[1, 2] == 65535
    assert words.boxes[1, 0] == pytest.approx((270 - 100) / 200 * 65535, abs=800)


def test_characters_of_next_to_no_width_have_a_place(tmp_path: Path) -> None:
    squeezed = "BT /F1 20 Tf 0.1 Tz 306 396 Td (thin) Tj ET"
    words = words_of(pdf_file(tmp_path, PdfSpec(squeezed)))
    assert words.texts == ("thin",)
    assert words.boxes[0] / 65535 == pytest.approx([0.5, 0.5, 0.5, 0.5], abs=0.04)


def test_a_word_divided_at_the_end_of_a_line_is_whole_and_in_its_first_place(tmp_path: Path) -> None:
    lines = "0 0 0 rg BT /F1 20 Tf 24 TL 72 700 Td (He gave an exam-) Tj T* (ple of it.) Tj ET"
    words = words_of(pdf_file(tmp_path, PdfSpec(lines)))
    assert words.texts == ("He", "gave", "an", "example", "of", "it.")
    left, top, right, bottom = words.boxes.T
    assert left[3] > right[2]
    assert abs(int(top[3]) - int(top[2])) < 300  # on the first line
    assert top[4] > bottom[3]


@pytest.mark.parametrize(
    ("run", "word"),
    [
        ("exam\ufffeple", "example"),
        ("Anglo\ufffeAmerican", "Anglo-American"),
        ("1990\ufffe1995", "1990-1995"),
        ("COVID\ufffe19", "COVID-19"),
        ("a\ufffeb\ufffec", "abc"),
        ("trailing\ufffe", "trailing-"),
        ("Übe\uffferäle", "Überäle"),
    ],
)
def test_hyphens_at_the_end_of_a_line(run: str, word: str) -> None:
    texts, spans = split_words(f"x {run} y")
    assert texts == ["x", word, "y"]
    assert spans[1] == (2, run.index("\ufffe"))


@pytest.mark.parametrize(
    ("string", "words"),
    [
        ("a\u2028b\x1cc\u00a0d\x85e\u3000f\r\ng\u200bh", list("abcdefgh")),
        ("\x00nul\x07 \x01\x02 so\u00adft \ufeffbom", ["nul", "soft", "bom"]),
        ("\uf0b7 bullet \ue02e\U000f0000 \ufffd\uffff\ufdd0", ["bullet"]),
        ("𠀋 😀!", ["𠀋", "😀!"]),
        ("\ud840 x\udc0by \udc0b\ud840", ["xy"]),
        ("می\u200cخواهم \u200d\u200c", ["می\u200cخواهم"]),
        ("\u202bעברית\u202c \u200fx", ["עברית", "x"]),
        ("cafe\u0301 नमस्ते", ["café", "नमस्ते"]),
        ("o\ufb03ce \ufee3\ufead\ufea3\ufe92\ufe8e", ["office", "مرحبا"]),
        ("", []),
    ],
)
def test_what_is_a_word(string: str, words: list[str]) -> None:
    assert split_words(units(string))[0] == words


TEXT = st.text(st.characters() | st.sampled_from("\ufffe \r\n\xa0\ud840\udc0b\x02\u2028-aZ9"), max_size=40)


@given(string=TEXT)
@example("\U0001fffe")
@example("a\ufffe\ufffeb")
@example("\ufffe")
def test_words_are_valid_text_without_white_space_each_in_its_place(string: str) -> None:
    page = units(string)
    texts, spans = split_words(page)
    end = 0
    for word, (start, length) in zip(texts, spans, strict=True):
        assert word.split() == [word]
        assert word.encode().decode() == word
        assert start >= end
        assert length >= 1
        end = start + length
        assert not re.search(r"\s", page[start:end])
    assert end <= len(page)


@given(words=st.lists(st.text(st.characters(categories=["L", "N", "P"]), min_size=1), max_size=8))
def test_ordinary_words_are_left_alone(words: list[str]) -> None:
    words = [word for word in words if word == unicodedata.normalize("NFKC", word)]
    texts, spans = split_words(units(" ".join(words)))
    assert texts == words
    assert [length for _, length in spans] == [len(units(word)) for word in words]


NUMBERS = st.floats(width=32) | st.floats(-1000, 1000)


@given(
    rects=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=5),
    box=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    rotation=st.sampled_from([0, 90, 180, 270]),
)
def test_boxes_are_ordered_and_on_the_page_whatever_the_numbers(rects: list[Box], box: Box, rotation: int) -> None:
    boxes, inside = display_boxes(np.array(rects, np.float64).reshape(-1, 4), box, rotation)
    assert boxes.shape == (len(rects), 4)
    assert boxes.dtype == np.uint16
    assert inside.shape == (len(rects),)
    assert (boxes[:, 0] <= boxes[:, 2]).all()
    assert (boxes[:, 1] <= boxes[:, 3]).all()


def test_boxes_by_hand() -> None:
    rects = np.array([[10, 20, 30, 60.0], [-5, 90, 5, 110], [200, 0, 210, 10], [np.nan] * 4])
    boxes, inside = display_boxes(rects, (0, 0, 100, 100), 0)
    shares = boxes / 65535
    assert shares[0] == pytest.approx([0.1, 0.4, 0.3, 0.8], abs=1e-5)
    assert shares[1] == pytest.approx([0, 0, 0.05, 0.1], abs=1e-5)  # clipped to the corner
    assert inside.tolist() == [True, True, False, False]
    turned, _ = display_boxes(rects[:1], (0, 0, 100, 100), 90)
    assert turned[0] / 65535 == pytest.approx([0.2, 0.1, 0.6, 0.3], abs=1e-5)


@pytest.mark.parametrize("name", ["script_greek--427669.pdf", "huge_page_box_gt_3000pt--Unifont-JPMedium_SIP.pdf"])
def test_boxes_are_those_of_a_loop_over_the_characters(name: str) -> None:
    with PdfFile(HARD / name, name) as pdf, pdf.page(1) as page:
        words = text_layer_words(page.handle, name=name)
        textpage = page.handle.get_textpage()
        n_chars = textpage.count_chars()
        string = "".join(chr(pdfium_c.FPDFText_GetUnicode(textpage, i)) for i in range(n_chars))
        rects = []
        for match in re.finditer(r"\S+", string):
            span = range(match.start(), match.start() + len(match.group().partition("\x02")[0]))
            chars = np.array([textpage.get_charbox(index) for index in span])
            rects.append([*chars[:, :2].min(axis=0), *chars[:, 2:].max(axis=0)])
        textpage.close()
        expected, _ = display_boxes(np.array(rects), page.handle.get_bbox(), page.handle.get_rotation())
    visible = re.compile("[^\ue000-\uf8ff]")  # not of a symbol font alone
    kept = [index for index, run in enumerate(re.findall(r"\S+", string)) if visible.search(run)]
    assert len(words.texts) == len(kept) > 500
    assert np.abs(words.boxes.astype(int) - expected[kept]).max() <= 1


@pytest.mark.parametrize(
    ("name", "number", "words"),
    [
        ("huge_page_box_gt_3000pt--Unifont-JPMedium_SIP.pdf", 1, ["𠀋", "𠂉"]),
        ("script_cjk--standard_symbols.pdf", 1, ["日", "期/", "时", "间", "栏"]),
        ("script_hebrew--tableRTL.pdf", 1, ["טבלת"]),
        ("script_thai--F001u_3_7j.pdf", 1, ["พลังรัก"]),
        ("script_cyrillic--russian.pdf", 1, ["Демонстрационная"]),
        ("script_greek--427669.pdf", 1, ["adequately", "monument"]),  # both divided at line ends
        ("rotated--rot270.pdf", 1, ["rotation:"]),
    ],
)
def test_words_of_other_scripts(name: str, number: int, words: list[str]) -> None:
    assert set(words) <= set(words_of(HARD / name, number).texts)


def test_words_that_only_a_gap_divides_are_two() -> None:
    """In text that TeX justified tightly PDFium takes some spaces for kerning."""
    words = words_of(Path(__file__).parent.parent / "examples" / "NIST.IR.8545.pdf", 11)
    assert "selected four candidate algorithms for the fourth round" in words.text
    assert "the other three algorithms were alternates [13]" in words.text
    first = words.texts.index("algorithms")
    assert (words.boxes[first : first + 2, 2] < words.boxes[first + 1 : first + 3, 0]).all()


@pytest.mark.parametrize("script", ["hebrew", "arabic", "mixed", "english"])
def test_words_are_those_that_were_typed(script: str) -> None:
    """Right-to-left words, numbers, brackets and addresses too, which PDFium gives in other orders."""
    typed = (SCRIPTS / f"{script}.txt").read_text("utf-8")
    assert words_of(SCRIPTS / f"{script}.pdf").text == " ".join(typed.split())


def test_words_of_a_script_without_spaces_are_its_letters() -> None:
    words = words_of(SCRIPTS / "japanese.pdf")
    assert "".join(words.texts) == "".join((SCRIPTS / "japanese.txt").read_text("utf-8").split())
    assert {"源", "る", "前", "「AB-1234」", "バッテリー", "2024", "年"} <= set(words.texts)
    widths = (words.boxes[:, 2].astype(int) - words.boxes[:, 0]) / 65535 * 160  # millimetres
    assert all(width < 12 for text, width in zip(words.texts, widths, strict=True) if len(text) == 1)


@pytest.mark.parametrize("script", ["hebrew", "arabic"])
def test_words_of_a_right_to_left_line_stand_from_the_right(script: str) -> None:
    words = words_of(SCRIPTS / f"{script}.pdf")
    boxes = words.boxes.astype(int)
    first_line = boxes[boxes[:, 1] < boxes[0, 3]]
    assert len(first_line) > 8
    assert (first_line[1:, 2] <= first_line[:-1, 0] + 100).all()  # each left of the word before it


@pytest.mark.parametrize("turn", [90, 270])
def test_turned_lines_are_read_in_the_same_order(tmp_path: Path, turn: int) -> None:
    """By turning the page's content, not the page."""
    pdf = pdfium.PdfDocument(SCRIPTS / "hebrew.pdf")
    page = pdf[0]
    matrix = pdfium.PdfMatrix().rotate(turn, ccw=True)
    for item in page.get_objects(max_depth=1):
        item.transform(matrix)
    page.gen_content()
    left, bottom, right, top = matrix.on_rect(*page.get_bbox())
    page.set_mediabox(left, bottom, right, top)
    page.set_cropbox(left, bottom, right, top)
    pdf.save(tmp_path / "turned.pdf")
    pdf.close()
    assert words_of(tmp_path / "turned.pdf").text == words_of(SCRIPTS / "hebrew.pdf").text
