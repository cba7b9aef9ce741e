"""Files that break tools, ingested in one run: each ends as pages, or as the reason why not.

What is expected was found by looking at the files: with poppler's programs (its count of pages,
its text, its drawings) and at their bytes, not by asking colret.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from colret.conversion import libreoffice
from colret.encoders import load_encoder
from colret.encoders.text import load_embedded
from colret.ingest import ingest
from colret.report import IngestReport
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import DocumentRecord
from tests.office import WRITERS
from tests.pdfs import PdfSpec, build_pdf, rectangle, text
from tests.text_checkpoints import tiny_text_checkpoint

HARD = Path(__file__).parent / "data" / "hard-pdfs"
PASSWORDS = ("wrong", "hôtel")  # PDFium's own test files: the user's password
HUGE = 2_147_483_648
OFFICE = "" if libreoffice() else "needs_libreoffice"


class Outcome(NamedTuple):
    """What becomes of a file."""

    n_pages: int = 0
    n_blank: int = 0  # nothing to read on them, not even by OCR
    reason: str = ""  # of the document
    pages: tuple[tuple[int, str], ...] = ()  # which cannot be read, and why


def failed(reason: str) -> Outcome:
    return Outcome(reason=reason)


BLANK = Outcome(1, 1)
PAGE = Outcome(1)
UNREADABLE = Outcome(1, reason="page_unreadable", pages=((1, "page_unreadable"),))

OUTCOMES: dict[str, Outcome] = {
    "acroform--344775293.pdf": BLANK,
    "acroform--bug_1042956.pdf": BLANK,
    "acroform--bug_1302455.pdf": PAGE,  # two bars drawn by a field: "=" to OCR
    "bad_format--T04_008_trailer-no-trailer-keyword.pdf": failed("not_a_pdf"),
    "bad_format--T04_010_trailer-no-closing-brackets.pdf": failed("not_a_pdf"),  # poppler repairs it, PDFium does not
    "bad_format--bad1.pdf": failed("not_a_pdf"),
    "encrypted_but_opens_without_password--diff-data-enc.pdf": PAGE,
    "encrypted_but_opens_without_password--enc1.pdf": PAGE,
    "encrypted_but_opens_without_password--enc2.pdf": PAGE,
    "filter_ccitt--bug_1087.pdf": PAGE,
    "filter_ccitt--ccitt4-cib-test.pdf": PAGE,  # handwriting
    "filter_ccitt--multitiff.pdf": Outcome(3, 3),  # one hand-drawn digit a page, which OCR does not see
    "filter_jbig2--bug_552046.pdf": BLANK,
    "filter_jbig2--bug_674771.pdf": BLANK,  # a black box
    "filter_jbig2--bug_867501.pdf": BLANK,  # a black box
    "filter_jpx--bug_304.pdf": BLANK,  # red all over
    "filter_jpx--jpx_lzw.pdf": BLANK,  # red all over
    "filter_jpx--veraPDF_test_suite_6-2-8-3-t01-pass-b.pdf": BLANK,  # a photograph of a lake
    "header_not_at_0--T01_004_header_invalid-syntax-no-dash.pdf": PAGE,
    "header_not_at_0--T02-05-01_013_stream-keyword-missing.pdf": BLANK,  # its content has no beginning
    "header_not_at_0--T02-05-01_014_endstream-keyword-missing.pdf": PAGE,
    "huge_page_box_gt_3000pt--Unifont-JPMedium_SIP.pdf": PAGE,
    "huge_page_box_gt_3000pt--UnifontUpperMedium_SSP.pdf": PAGE,
    "huge_page_box_gt_3000pt--balloon_a1b_jp2k.pdf": PAGE,
    "load_fails_with_success_code--bug_1042915.pdf": failed("no_pages"),
    "load_fails_with_success_code--filter-on-write.pdf": failed("no_pages"),
    "load_fails_with_success_code--repeat_viewer_ref.pdf": failed("no_pages"),
    "page_load_error_but_doc_opens--T02-02_003_page-tree-different-kids.pdf": Outcome(
        3, 1, pages=((3, "page_unreadable"),)
    ),
    "page_load_error_but_doc_opens--T02-02_005_page-tree-no-kids.pdf": UNREADABLE,
    "page_load_error_but_doc_opens--bad34.pdf": UNREADABLE,  # poppler repairs it, PDFium does not
    "password_required--encrypted_hello_world_r2.pdf": PAGE,
    "password_required--encrypted_hello_world_r3_bad_okey.pdf": failed("password_required"),  # no password is right
    "password_required--encrypted_hello_world_r5.pdf": PAGE,
    "portfolio--testPDFPackage.pdf": PAGE,  # its cover
    "portfolio--unsupported_feature.pdf": Outcome(3, 1, pages=((2, "page_unreadable"), (3, "page_unreadable"))),
    "rotated--bug_713197.pdf": BLANK,
    "rotated--inherited-rotate.pdf": PAGE,
    "rotated--rot270.pdf": PAGE,
    "script_arabic--UserFont_Arabic.pdf": PAGE,
    "script_arabic--UserFont_Persian.pdf": PAGE,
    "script_arabic--UserFont_Urdu.pdf": PAGE,
    "script_cjk--UserFont_HumanRights.pdf": PAGE,
    "script_cjk--readAndUpdatePage.pdf": Outcome(3),
    "script_cjk--standard_symbols.pdf": Outcome(2),
    "script_cyrillic--readFormAndUpdateFormUserFont.pdf": Outcome(2),
    "script_cyrillic--russian.pdf": Outcome(2),
    "script_cyrillic--ukrainian.pdf": Outcome(2),
    "script_greek--427669.pdf": Outcome(24),
    "script_greek--Roboto-Regular_BMP.pdf": PAGE,
    "script_greek--testPDF_bad_page_303226.pdf": Outcome(19),
    "script_hebrew--UserFont_Hebrew.pdf": PAGE,
    "script_hebrew--tableRTL.pdf": PAGE,
    "script_thai--F001u_3_7j.pdf": PAGE,
    "tiny_page_lt_10pt--dr-with-indirect-item-out.pdf": BLANK,
    "tiny_page_lt_10pt--veraPDF_test_suite_6-1-13-t09-fail-e.pdf": BLANK,
    "tiny_page_lt_10pt--veraPDF_test_suite_6-1-13-t09-pass-a.pdf": BLANK,
    "xfa--bug_1238_2.pdf": BLANK,
    "xfa--testPDF_malformedXFA.pdf": BLANK,
    "xfa--xfa_image_edit.pdf": BLANK,  # its form is in XFA alone
}

HELLO = PdfSpec(text("The grey heron waits", 100, 100, 20))
BUILT: dict[str, tuple[bytes, Outcome]] = {
    "tiny--1pt.pdf": (build_pdf([PdfSpec(rectangle((0, 0, 1, 1), (1, 0, 0)), media=(0, 0, 1, 1))]), BLANK),
    "huge--2147483648pt.pdf": (build_pdf([PdfSpec(HELLO.content, media=(0, 0, HUGE, HUGE))]), PAGE),
    "huge--2147483648pt-wide.pdf": (build_pdf([PdfSpec(HELLO.content, media=(0, 0, HUGE, 800))]), PAGE),
    "crop--larger-than-media.pdf": (build_pdf([PdfSpec(HELLO.content, crop=(-9999, -9999, 9999, 9999))]), PAGE),
    "crop--nothing.pdf": (build_pdf([PdfSpec(HELLO.content, crop=(50, 50, 50, 50))]), PAGE),  # the media box counts
    "crop--blank-corner.pdf": (build_pdf([PdfSpec(HELLO.content, crop=(0, 700, 90, 790))]), BLANK),
    "rotated--every-way.pdf": (
        build_pdf([PdfSpec(HELLO.content, rotate=angle) for angle in (90, 180, 270, 45)]),
        Outcome(4),
    ),
    "font--missing.pdf": (build_pdf([HELLO]).replace(b"/BaseFont /Helvetica", b"/BaseFont /Nonesuch "), PAGE),
    "pages--none.pdf": (build_pdf([]), failed("no_pages")),
    "pages--count-is-a-lie.pdf": (
        build_pdf([HELLO]).replace(b"/Count 1", b"/Count 9"),
        Outcome(9, pages=tuple((number, "page_unreadable") for number in range(2, 10))),
    ),
    "torn--in-the-middle.pdf": (build_pdf([HELLO])[:300], failed("not_a_pdf")),
    "torn--empty.pdf": (b"", failed("empty_file")),
    "renamed--text.pdf": (b"no PDF at all", failed("not_a_pdf")),
    "renamed--zip.pdf": (b"PK\x03\x04 and so on", failed("not_a_pdf")),
    "renamed--html.pdf": (b"<!DOCTYPE html><p>The grey heron waits", failed("not_a_pdf")),
    "renamed--pdf.docx": (build_pdf([HELLO, HELLO]), Outcome(2)),
    "renamed--pdf.png": (build_pdf([HELLO, HELLO, HELLO]), Outcome(3)),
    "renamed--text.docx": (b"no Word document at all", failed(OFFICE or "conversion_failed")),
    "torn--image.png": (b"\x89PNG\r\n\x1a\n and no more", failed("not_an_image")),
    "archive.zip": (b"PK\x03\x04", failed("unsupported_archive")),
}


def _outcome(record: DocumentRecord) -> Outcome:
    pages = tuple((page.number, page.reason) for page in record.skipped)
    return Outcome(record.n_pages, record.n_blank, record.reason, pages)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory, proving: bool) -> tuple[IngestReport, dict[str, DocumentRecord]]:
    """The report on one run over all hard files, and each one's record; with the real encoder when proving."""
    folder = tmp_path_factory.mktemp("hard")
    for path in HARD.glob("*.pdf"):
        (folder / path.name).symlink_to(path)
    for name, (content, _) in BUILT.items():
        (folder / name).write_bytes(content)
    for suffix, write in WRITERS.items():
        write(folder / f"office--heron{suffix}", "The grey heron waits", ())
    encoder = (
        load_embedded(device="cpu", dtype="float32")
        if proving
        else load_encoder(str(tiny_text_checkpoint("bert")), device="cpu", dtype="float32")
    )
    store = PageStore.create(tmp_path_factory.mktemp("index") / "index", settings_for(encoder.info))
    report = ingest([folder], store, encoder, passwords=PASSWORDS)
    store.refresh()
    return report, {Path(record.files[0].path).name: record for record in store.documents()}


EXPECTED = (
    OUTCOMES
    | {name: outcome for name, (_, outcome) in BUILT.items()}
    | {f"office--heron{suffix}": failed(OFFICE) if OFFICE else PAGE for suffix in WRITERS}
)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_hard_file_ends_as_pages_or_as_its_reason(
    name: str, ingested: tuple[IngestReport, dict[str, DocumentRecord]]
) -> None:
    record = ingested[1][name]
    assert _outcome(record) == EXPECTED[name]
    assert record.status == ("failed" if EXPECTED[name].reason else "done")
    assert bool(record.message) == bool(record.reason)
    for message in (record.message, *(page.message for page in record.skipped)):
        assert "\n" not in message
        assert not any(password in message for password in PASSWORDS)


def test_every_hard_file_is_in_the_table(ingested: tuple[IngestReport, dict[str, DocumentRecord]]) -> None:
    assert {path.name for path in HARD.glob("*.pdf")} == set(OUTCOMES)
    assert set(ingested[1]) == set(EXPECTED)


def test_the_report_counts_what_the_records_say(ingested: tuple[IngestReport, dict[str, DocumentRecord]]) -> None:
    report = ingested[0]
    outcomes = EXPECTED.values()
    assert report.n_added == sum(not outcome.reason for outcome in outcomes)
    assert report.n_blank == sum(outcome.n_blank for outcome in outcomes)
    n_read = sum(outcome.n_pages - len(outcome.pages) for outcome in outcomes)
    assert report.n_pages == n_read - report.n_blank
