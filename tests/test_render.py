"""Pages of PDFs as images: both renderers agree, and broken files say why."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pdf2image
import pytest
from numpy.typing import NDArray
from pdf2image import exceptions
from PIL import Image

from colret import render
from colret.errors import DocumentError
from colret.pixels import target_size
from colret.poppler import poppler_available
from colret.render import PdfFile
from tests.pdfs import Box, PdfSpec, build_pdf, rectangle, text

HARD = Path(__file__).parent / "data" / "hard-pdfs"
RED, BLUE = (1, 0, 0), (0, 0, 1)

needs_poppler = pytest.mark.skipif(not poppler_available(), reason="poppler is not installed")


@pytest.fixture(params=["poppler", "pdfium"])
def renderer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with each renderer, and see to it that this one draws."""
    name: str = request.param
    if name == "pdfium":
        monkeypatch.setattr(render, "poppler_available", lambda: False)
    elif not poppler_available():
        pytest.skip("poppler is not installed")
    else:
        monkeypatch.setattr(render.PdfPage, "_draw", lambda *_: pytest.fail("PDFium drew in poppler's place"))
    return name


def pdf_file(tmp_path: Path, *pages: PdfSpec) -> Path:
    path = tmp_path / "a.pdf"
    path.write_bytes(build_pdf(pages))
    return path


def image_of(path: Path, number: int = 1, max_pixels: int = 120_000) -> Image.Image:
    with PdfFile(path, path.name) as pdf, pdf.page(number) as page:
        return page.render(max_pixels)


def colored(image: Image.Image, channel: int) -> tuple[float, ...]:
    """Return the bounds of what has one colour: left, top, right, bottom as shares of the sides."""
    pixels = np.asarray(image).astype(int)
    others = [other for other in range(3) if other != channel]
    found: NDArray[np.bool_] = (pixels[..., channel] > 150) & (pixels[..., others].max(axis=-1) < 100)
    rows, columns = np.nonzero(found)
    bounds = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    return tuple(bounds / [image.width, image.height, image.width, image.height])


MEDIA: Box = (-50, 20, 450, 420)
CROP: Box = (0, 100, 400, 400)  # 400 x 300
SQUARE: Box = (40, 130, 120, 190)  # within CROP from the left .1 to .3, from the bottom .1 to .3
DISPLAYED = {
    0: (0.1, 0.7, 0.3, 0.9),  # lower left
    90: (0.1, 0.1, 0.3, 0.3),  # upper left
    180: (0.7, 0.1, 0.9, 0.3),  # upper right
    270: (0.7, 0.7, 0.9, 0.9),  # lower right
}


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_what_is_drawn_is_where_it_is_displayed(tmp_path: Path, renderer: str, rotate: int) -> None:
    frame = rectangle(CROP, BLUE)  # the displayed page is blue to its edges, and nothing else of it shows
    path = pdf_file(tmp_path, PdfSpec(frame + rectangle(SQUARE, RED), MEDIA, CROP, rotate))
    image = image_of(path)
    assert image.mode == "RGB"
    assert image.size == ((400, 300) if rotate in (0, 180) else (300, 400))
    assert colored(image, 0) == pytest.approx(DISPLAYED[rotate], abs=1.5 / 300)
    assert colored(image, 2) == pytest.approx((0, 0, 1, 1), abs=1.5 / 300)


def test_a_crop_box_beyond_the_page_is_cut_to_it(tmp_path: Path) -> None:  # poppler's page is larger
    path = pdf_file(tmp_path, PdfSpec(rectangle((50, 50, 100, 100), RED), (0, 0, 200, 100), (50, -500, 900, 900)))
    image = image_of(path)
    assert image.width / image.height == pytest.approx(1.5, abs=0.02)
    assert colored(image, 0) == pytest.approx((0, 0, 1 / 3, 0.5), abs=0.01)


@pytest.mark.parametrize("rotate", [0, 90])
@pytest.mark.parametrize("media", [(0, 0, 612, 792), (0, 0, 841.89, 595.276), (0, 0, 1, 1), (0, 0, 7800, 7801)])
def test_sizes_are_exact_and_the_same_for_both(tmp_path: Path, renderer: str, media: Box, rotate: int) -> None:
    path = pdf_file(tmp_path, PdfSpec(media=media, rotate=rotate))
    sides = media[2:] if rotate == 0 else media[2:][::-1]
    for max_pixels in (1_000, 54_321, 1_000_000):
        with PdfFile(path, "a") as pdf, pdf.page(1) as page:
            assert (page.width, page.height) == pytest.approx(sides)
            assert page.render(max_pixels).size == target_size(*sides, max_pixels)


@pytest.mark.parametrize(
    "media",
    [(0, 0, 2_147_483_648, 2_147_483_648), (0, 0, 2_147_483_648, 1), (0, 0, 1, 3e7), (0, 0, 14400, 3)],
)
def test_no_page_box_makes_an_image_exceed_its_budget(tmp_path: Path, media: Box) -> None:
    path = pdf_file(tmp_path, PdfSpec(media=media))
    with PdfFile(path, "a") as pdf, pdf.page(1) as page:
        image = page.render(10_000)
        assert image.width * image.height <= 10_000
        assert max(image.size) <= 400
        assert page.image_hash() == 0


@pytest.mark.parametrize("media", [(0, 0, 0, 0), (5, 5, 5, 5), (0, 0, 1e39, 1e39), (-3e38, -3e38, 3e38, 3e38)])
def test_a_page_box_without_a_size_is_an_error_or_a_page_of_bounded_size(tmp_path: Path, media: Box) -> None:
    path = pdf_file(tmp_path, PdfSpec(media=media))
    with PdfFile(path, "a") as pdf:
        reasons = []
        try:
            with pdf.page(1) as page:
                image = page.render(10_000)
                assert image.width * image.height <= 10_000
        except DocumentError as error:
            reasons.append(error.reason)
        assert reasons in ([], ["page_unreadable"])


def test_pages_can_be_read_in_any_order_each_with_its_own_size(tmp_path: Path, renderer: str) -> None:
    colors = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    path = pdf_file(
        tmp_path,
        *(PdfSpec(rectangle((0, 0, 99, 99), color), (0, 0, 50 + 10 * i, 50)) for i, color in enumerate(colors)),
    )
    with PdfFile(path, "a") as pdf:
        assert pdf.n_pages == 3
        for number in (2, 3, 1, 1):
            with pdf.page(number) as page:
                assert page.width == 40 + 10 * number
                assert page.render(400).getpixel((5, 5)) == tuple(255 * c for c in colors[number - 1])
        for number in (0, 4):
            with pytest.raises(IndexError), pdf.page(number):
                pass


@needs_poppler
def test_the_hash_does_not_depend_on_the_renderer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pdf_file(tmp_path, PdfSpec(text("Perceptual", 50, 700, 90) + rectangle((50, 50, 300, 600), RED)))
    with PdfFile(path, "a") as pdf, pdf.page(1) as page:
        with_poppler = page.image_hash()
    monkeypatch.setattr(render, "poppler_available", lambda: False)
    with PdfFile(path, "a") as pdf, pdf.page(1) as page:
        assert page.image_hash() == with_poppler != 0


@needs_poppler
@pytest.mark.parametrize(
    "failure",
    [
        exceptions.PDFPopplerTimeoutError("slow"),
        exceptions.PDFPageCountError("bad"),
        exceptions.PDFSyntaxError("bad"),
        exceptions.PDFInfoNotInstalledError("gone"),
        OSError("cut off"),
        ValueError("no PPM"),
        "nothing",
        "wrong size",
    ],
    ids=str,
)
def test_where_poppler_fails_pdfium_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception | str
) -> None:
    path = pdf_file(tmp_path, PdfSpec(rectangle((0, 0, 99, 99), RED), (0, 0, 50, 50)))
    calls = []

    def fail(*_: Any, **__: Any) -> list[Image.Image]:
        calls.append(failure)
        if isinstance(failure, Exception):
            raise failure
        return [] if failure == "nothing" else [Image.new("RGB", (19, 20))]

    monkeypatch.setattr(pdf2image, "convert_from_path", fail)
    with PdfFile(path, "a") as pdf, pdf.page(1) as page:
        for _ in range(2):
            image = page.render(400)
            assert (image.size, image.getpixel((5, 5))) == ((20, 20), (255, 0, 0))
    # After a time-out the document is poppler's no more: each page would wait as long.
    assert len(calls) == (1 if isinstance(failure, exceptions.PDFPopplerTimeoutError) else 2)


@needs_poppler
@pytest.mark.parametrize("info", [{"Pages": 2}, {"Pages": 1}, {"Pages": 1, "Page    1 size": "50 x 60 pts"}])
def test_where_poppler_sees_another_page_pdfium_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, info: dict[str, object]
) -> None:
    path = pdf_file(tmp_path, PdfSpec(rectangle((0, 0, 99, 99), RED), (0, 0, 50, 50)))
    monkeypatch.setattr(pdf2image, "pdfinfo_from_path", lambda *_, **__: info)
    monkeypatch.setattr(pdf2image, "convert_from_path", lambda *_, **__: pytest.fail("poppler was asked"))
    assert image_of(path, max_pixels=400).getpixel((5, 5)) == (255, 0, 0)


@needs_poppler
def test_poppler_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pdf_file(tmp_path, PdfSpec(rectangle((0, 0, 99, 99), RED), (0, 0, 50, 50)))
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in ("pdfinfo", "pdftoppm"):
        (programs / program).write_text("#!/bin/sh\nexec sleep 30\n")
        (programs / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with PdfFile(path, "a", seconds=0.2) as pdf, pdf.page(1) as page:
        assert page.render(400).getpixel((5, 5)) == (255, 0, 0)


def test_no_temporary_files_and_no_output(
    tmp_path: Path, renderer: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    image_of(pdf_file(tmp_path, PdfSpec(text("Hello", 100, 100))))
    assert not list(folder.iterdir())
    assert capfd.readouterr() == ("", "")


def test_broken_files_and_xfa_forms_print_and_log_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("xfa--xfa_image_edit.pdf", "filter_ccitt--bug_1087.pdf", "filter_jbig2--bug_552046.pdf"):
        image_of(HARD / name)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_a_page_that_poppler_draws_in_part_is_drawn_by_pdfium() -> None:
    image = image_of(HARD / "filter_jbig2--bug_867501.pdf")
    assert image.getpixel((image.width // 2, image.height // 2)) == (0, 0, 0)  # poppler: a white page


def test_a_page_is_freed_after_its_use(tmp_path: Path) -> None:
    with PdfFile(pdf_file(tmp_path, PdfSpec()), "a") as pdf:
        with pdf.page(1) as page:
            handle = page.handle
            assert handle.raw
        assert not handle.raw


def test_the_contents_of_form_fields_are_drawn(renderer: str) -> None:
    image = image_of(HARD / "acroform--bug_1302455.pdf")
    assert np.asarray(image).min() < 50  # drawn by the form's fields alone


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not_a_pdf"),
        (b"just text", "not_a_pdf"),
        (b"%PDF-1.7\n%%EOF", "not_a_pdf"),
        (build_pdf([PdfSpec()])[:150], "not_a_pdf"),
        (build_pdf([]), "no_pages"),
    ],
)
def test_a_file_without_pages_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(content)
    with pytest.raises(DocumentError) as caught:
        PdfFile(path, "a.pdf")
    assert caught.value.reason == reason
    assert caught.value.subject == "a.pdf"


def test_a_count_of_pages_beyond_belief_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(build_pdf([PdfSpec()]).replace(b"/Count 1", b"/Count 1000000"))
    with PdfFile(path, "a.pdf") as pdf:
        assert 1 <= pdf.n_pages < 1000
        with pdf.page(1) as page:
            assert page.width == 612
        with pytest.raises(DocumentError, match="page 2"), pdf.page(2):
            pass


def test_a_missing_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        PdfFile(tmp_path / "missing.pdf", "missing.pdf")
    assert caught.value.reason == "unreadable"


def test_encryption_that_is_not_supported_has_its_own_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    handler = b"/Encrypt << /Filter /Vendor.Own /V 9 /R 9 >> /ID [<00> <00>]"
    path.write_bytes(build_pdf([PdfSpec()]).replace(b"/Root 1 0 R", b"/Root 1 0 R " + handler))
    with pytest.raises(DocumentError) as caught:
        PdfFile(path, "a.pdf")
    assert caught.value.reason == "unsupported_encryption"


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_not_utf8_opens(tmp_path: Path, renderer: str) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.pdf")
    try:
        path.write_bytes(build_pdf([PdfSpec(rectangle((0, 0, 99, 99), RED), (0, 0, 50, 50))]))
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    assert image_of(path, max_pixels=400).getpixel((5, 5)) == (255, 0, 0)


LOCKED = HARD / "password_required--encrypted_hello_world_r2.pdf"


@pytest.mark.parametrize("passwords", [["h\xf4tel"], ["wrong", "", "\xe2ge"]])
def test_one_of_the_passwords_opens_a_file_and_poppler_is_not_told(
    monkeypatch: pytest.MonkeyPatch, passwords: list[str]
) -> None:
    monkeypatch.setattr(pdf2image, "pdfinfo_from_path", lambda *_, **__: pytest.fail("poppler was asked"))
    monkeypatch.setattr(pdf2image, "convert_from_path", lambda *_, **__: pytest.fail("poppler was asked"))
    with PdfFile(LOCKED, "a.pdf", passwords=passwords) as pdf, pdf.page(1) as page:
        assert np.asarray(page.render(100_000)).min() < 50


@pytest.mark.parametrize("passwords", [[], ["secret", "\udce9"]])
def test_without_the_password_the_remedy_is_to_give_it(passwords: list[str]) -> None:
    with pytest.raises(DocumentError, match="--password-file") as caught:
        PdfFile(LOCKED, "a.pdf", passwords=passwords)
    assert caught.value.reason == "password_required"
    assert ("another password" in caught.value.problem) == bool(passwords)
    assert "secret" not in str(caught.value)


@needs_poppler
def test_a_long_document_is_measured_only_as_far_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pdf_file(tmp_path, *[PdfSpec(media=(0, 0, 30, 40))] * 70)
    measure, measured = pdf2image.pdfinfo_from_path, []

    def recorded(name: str, *, first_page: int, last_page: int, timeout: float) -> Any:
        measured.append((first_page, last_page))
        return measure(name, first_page=first_page, last_page=last_page, timeout=timeout)

    monkeypatch.setattr(pdf2image, "pdfinfo_from_path", recorded)
    monkeypatch.setattr(render.PdfPage, "_draw", lambda *_: pytest.fail("PDFium drew in poppler's place"))
    with PdfFile(path, "a") as pdf:
        for number in (2, 3, 64, 70):
            with pdf.page(number) as page:
                assert page.render(1200).size == (30, 40)
    assert measured == [(1, 64), (65, 70)]
