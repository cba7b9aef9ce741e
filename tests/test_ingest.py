"""Ingest with the real encoder, renderer and database: nothing lost, doubled or stopped."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import lancedb
import pytest
from click.testing import CliRunner
from PIL import Image

import colret.ingest
from colret.encoders import Encoder
from colret.encoders.text import TextEncoder, load_embedded
from colret.errors import ModelError, StoreError
from colret.folders import find_documents
from colret.ingest import ingest
from colret.reading import open_document
from colret.report import IngestReport, Progress
from colret.search import rank
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import EncodedPage, EncoderInfo, Page, PageEmbedding, PageRef, QueryEmbedding
from colret_cli.main import cli
from tests.checkpoints import tiny_encoder
from tests.conftest import TOPICS, write_pdf
from tests.pdfs import PdfSpec, build_pdf, text
from tests.test_store import codes

HARD = Path(__file__).parent / "data" / "hard-pdfs"


def contents(store: PageStore) -> dict[str, bytes]:
    """Return each visible page's codes, by file and page number; a page in the index twice fails."""
    store.refresh()
    names = {record.doc_id: Path(record.files[0].path).name for record in store.documents() if record.files}
    pages = store.candidates()
    found = {f"{names[page.ref.doc_id]}:{page.ref.number}": codes(store, place) for place, page in enumerate(pages)}
    assert len(found) == len(pages)
    return found


def n_rows(store: PageStore) -> int:
    """Return the number of page rows, visible or not."""
    rows: int = lancedb.connect(str(store.path)).open_table("pages").count_rows()
    return rows


def test_a_folder_becomes_ranked_pages(folder: Path, store: PageStore, embedded: TextEncoder) -> None:
    report = ingest([folder], store, embedded)
    assert (report.n_added, report.n_pages, report.skipped) == (3, 3, [])
    [ranking] = rank(store, embedded.encode_queries(["bread with salt"]), k=3)
    best = store.paths([ranking.hits[0].ref.doc_id])[ranking.hits[0].ref.doc_id]
    assert best == [str(folder / "sourdough.pdf")]


def test_ingest_again_adds_nothing(folder: Path, store: PageStore, embedded: TextEncoder) -> None:
    ingest([folder], store, embedded)
    before = contents(store)
    report = ingest([folder], store, embedded)
    assert dataclasses.asdict(report) == dataclasses.asdict(IngestReport(n_unchanged=3))
    assert contents(store) == before
    assert n_rows(store) == 3


def test_a_copy_adds_a_path_and_no_page(folder: Path, store: PageStore, embedded: TextEncoder) -> None:
    ingest([folder], store, embedded)
    shutil.copy(folder / "heron.pdf", folder / "again.pdf")
    report = ingest([folder], store, embedded)
    assert (report.n_added, report.n_moved, n_rows(store)) == (0, 1, 3)
    held = [record.files for record in store.documents() if len(record.files) == 2]
    assert [Path(file.path).name for file in held[0]] == ["again.pdf", "heron.pdf"]


def test_a_changed_file_leaves_no_stale_page(folder: Path, store: PageStore, embedded: TextEncoder) -> None:
    ingest([folder], store, embedded)
    write_pdf(folder / "heron.pdf", TOPICS["orbit"], TOPICS["violin"])
    report = ingest([folder], store, embedded)
    assert (report.n_added, report.n_replaced, report.n_pages) == (1, 1, 2)
    assert sorted(contents(store)) == ["heron.pdf:1", "heron.pdf:2", "revenue.pdf:1", "sourdough.pdf:1"]
    assert n_rows(store) == 4


def test_blank_pages_are_counted_and_not_indexed(tmp_path: Path, store: PageStore, embedded: TextEncoder) -> None:
    path = write_pdf(tmp_path / "a.pdf", TOPICS["orbit"], "", TOPICS["violin"])
    report = ingest([path], store, embedded)
    assert (report.n_pages, report.n_blank, report.skipped) == (2, 1, [])
    assert sorted(contents(store)) == ["a.pdf:1", "a.pdf:3"]


def test_a_scan_is_read_by_ocr(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.ingest, "COMMIT_SECONDS", 0.0)  # as where the first page takes longer than that
    told: list[Progress] = []
    write_pdf(tmp_path / "text.pdf", TOPICS["violin"])
    with open_document(tmp_path / "text.pdf") as document:
        scan = document.read_page(1, ref=PageRef("x", 1), pixels=1_000_000, ocr=False).image
    assert scan is not None
    (tmp_path / "scans").mkdir()
    scan.save(tmp_path / "scans" / "page.png", dpi=(110, 110))
    assert ingest([tmp_path / "scans"], store, embedded, on_progress=told.append).n_pages == 1
    assert told[-1].n_ocr == 1
    assert all(max(progress.n_ocr, progress.n_pages_in) <= progress.n_pages for progress in told)
    [page] = store.details([store.candidates()[0].row_id])
    assert "old violin before the concert" in page.words.text


def test_images_of_many_frames_are_many_pages(tmp_path: Path) -> None:
    encoder = tiny_encoder("colpali")
    frames = [Image.new("RGB", (80, 60), color) for color in ("white", "red", "blue")]
    frames[0].save(tmp_path / "frames.tiff", save_all=True, append_images=frames[1:])
    frames[1].save(tmp_path / "one.webp")
    store = PageStore.create(tmp_path / "index", settings_for(encoder.info))
    report = ingest([tmp_path / "frames.tiff", tmp_path / "one.webp"], store, encoder)
    assert (report.n_added, report.n_pages, report.skipped) == (2, 4, [])
    assert sorted(contents(store)) == ["frames.tiff:1", "frames.tiff:2", "frames.tiff:3", "one.webp:1"]


# Bad input


def test_one_broken_file_never_stops_a_folder(folder: Path, store: PageStore, embedded: TextEncoder) -> None:
    (folder / "a-empty.pdf").write_bytes(b"")
    (folder / "b-torn.pdf").write_bytes((folder / "heron.pdf").read_bytes()[:200])
    (folder / "c-nopages.pdf").write_bytes(build_pdf([]))
    shutil.copy(HARD / "password_required--encrypted_hello_world_r2.pdf", folder / "d-locked.pdf")
    (folder / "e-text.pdf").write_text("this is not a PDF")
    (folder / "f-image.png").write_bytes(b"\x89PNG\r\n\x1a\n torn")
    report = ingest([folder], store, embedded)
    assert {Path(item.path).name: item.reason for item in report.skipped} == {
        "a-empty.pdf": "empty_file",
        "b-torn.pdf": "not_a_pdf",
        "c-nopages.pdf": "no_pages",
        "d-locked.pdf": "password_required",
        "e-text.pdf": "not_a_pdf",
        "f-image.png": "not_an_image",
    }
    assert all(item.message and "\n" not in item.message for item in report.skipped)
    assert sorted(contents(store)) == ["heron.pdf:1", "revenue.pdf:1", "sourdough.pdf:1"]
    again = ingest([folder], store, embedded)
    assert sorted(again.skipped) == sorted(report.skipped)
    assert again.n_added == 0


def test_a_page_that_cannot_be_read_costs_that_page(tmp_path: Path, store: PageStore, embedded: TextEncoder) -> None:
    pages = [PdfSpec(text(TOPICS[topic], 40, 700, 14)) for topic in ("orbit", "heron", "violin")]
    content = build_pdf(pages)
    # The second page's object is no longer a page.
    torn = content.replace(b"/Type /Page ", b"/Type /Rage ", 2).replace(b"/Type /Rage ", b"/Type /Page ", 1)
    assert torn != content
    (tmp_path / "a.pdf").write_bytes(torn)
    report = ingest([tmp_path / "a.pdf"], store, embedded)
    assert [(item.page, item.reason) for item in report.skipped] == [(2, "page_unreadable")]
    assert sorted(contents(store)) == ["a.pdf:1", "a.pdf:3"]
    assert [page.number for page in store.documents()[0].skipped] == [2]


class _Failing:
    """The real encoder, which fails on one page as a model would."""

    def __init__(self, encoder: Encoder, number: int) -> None:
        self.info: EncoderInfo = encoder.info
        self._encoder = encoder
        self._number = number

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        if any(page.ref.number == self._number for page in pages):
            raise ModelError("page", "gave no direction for a token", "try --dtype float32")
        return self._encoder.encode_pages(pages)

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        return self._encoder.encode_queries(texts)


def test_a_page_that_the_model_fails_on_costs_that_page(
    tmp_path: Path, store: PageStore, embedded: TextEncoder
) -> None:
    path = write_pdf(tmp_path / "a.pdf", *TOPICS.values())
    report = ingest([path], store, _Failing(embedded, 3))
    assert [(item.page, item.reason) for item in report.skipped] == [(3, "encoding_failed")]
    assert sorted(contents(store)) == [f"a.pdf:{number}" for number in (1, 2, 4, 5)]


def test_another_models_index_is_refused(folder: Path, store: PageStore) -> None:
    with pytest.raises(StoreError, match=r"was made by embedded .* leave --model out"):
        ingest([folder], store, tiny_encoder("colpali"))


def test_a_missing_path_is_told_and_the_rest_ingested(folder: Path, store: PageStore, embedded: TextEncoder) -> None:
    report = ingest([folder / "none.pdf", folder], store, embedded)
    assert [item.reason for item in report.skipped] == ["missing"]
    assert report.n_added == 3


# Batches, commits and interruptions


@pytest.mark.parametrize("kind", ["embedded", "colpali"])
def test_a_ranking_does_not_depend_on_the_batch(
    kind: str, tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder: Encoder = embedded if kind == "embedded" else tiny_encoder("colpali")
    sentences = [f"{a} {b}" for a in TOPICS.values() for b in ("again and again", "", "at night " * 9)]
    paths = [write_pdf(tmp_path / f"{i}.pdf", *sentences[i * 5 : i * 5 + 5]) for i in range(3)]
    queries = encoder.encode_queries(["night orbit", "salt", "concert in the third quarter"])
    rankings, codes = [], []
    for size in (1, 3, 8):
        monkeypatch.setattr(colret.ingest, "ENCODE_PAGES", size)
        monkeypatch.setattr(encoder, "batch_size", size, raising=False)
        store = PageStore.create(tmp_path / f"index{size}", settings_for(encoder.info))
        ingest(paths, store, encoder)
        found = rank(store, queries, k=15)
        rankings.append([[hit.ref for hit in ranking.hits] for ranking in found])
        codes.append(contents(store))
    assert len(rankings[0][0]) == 15
    assert rankings[0] == rankings[1] == rankings[2]
    if kind == "embedded":  # to the last bit
        assert codes[0] == codes[1] == codes[2]


@pytest.mark.parametrize("commit_pages", [1, 2, 3, 100])
def test_documents_are_whole_whatever_the_commits(
    commit_pages: int, tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.ingest, "COMMIT_PAGES", commit_pages)
    monkeypatch.setattr(colret.ingest, "ENCODE_PAGES", 2)
    for name, n_pages in {"a": 3, "b": 1, "c": 5}.items():
        write_pdf(tmp_path / f"{name}.pdf", *list(TOPICS.values())[:n_pages])
    seen = set()

    def look(progress: Progress) -> None:
        reader = PageStore.open(store.path)
        counts = {record.doc_id: record.n_pages for record in reader.documents()}
        visible = [page.ref.doc_id for page in reader.candidates()]
        assert all(visible.count(doc_id) == n for doc_id, n in counts.items())
        seen.add(len(visible))

    ingest([tmp_path], store, embedded, on_progress=look)
    assert len(contents(store)) == n_rows(store) == 9
    assert len(seen) > 1 or commit_pages == 100


@pytest.mark.parametrize(("option", "commits"), [([], [9]), (["--commit-pages", "4"], [4, 4, 1])])
def test_commit_pages_says_how_many_are_written_together(
    option: list[str], commits: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.ingest, "ENCODE_PAGES", 2)
    for name, n_pages in {"a": 3, "b": 1, "c": 5}.items():
        write_pdf(tmp_path / f"{name}.pdf", *list(TOPICS.values())[:n_pages])
    written: list[int] = []
    add_pages = PageStore.add_pages

    def add_and_count(store: PageStore, pages: Sequence[EncodedPage]) -> None:
        written.append(len(pages))
        add_pages(store, pages)

    monkeypatch.setattr(PageStore, "add_pages", add_and_count)
    arguments = ["ingest", str(tmp_path), "--index", str(tmp_path / "index"), "--model", "embedded", *option]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    assert [n for n in written if n] == commits
    assert len(contents(PageStore.open(tmp_path / "index"))) == 9


def test_progress_reaches_the_end(tmp_path: Path, store: PageStore, embedded: TextEncoder) -> None:
    write_pdf(tmp_path / "a.pdf", *TOPICS.values())
    write_pdf(tmp_path / "b.pdf", TOPICS["heron"])
    fractions = []
    ingest([tmp_path], store, embedded, on_progress=lambda progress: fractions.append(progress.fraction))
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)
    assert len(fractions) == 6 + 2 + 1  # pages, documents, and the commit


def test_ctrl_c_leaves_a_consistent_index_and_the_next_run_finishes(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.ingest, "COMMIT_PAGES", 2)
    monkeypatch.setattr(colret.ingest, "ENCODE_PAGES", 1)
    for name in ("a", "b"):
        write_pdf(tmp_path / f"{name}.pdf", *[f"{name} {topic}" for topic in TOPICS.values()])

    def interrupt(progress: Progress) -> None:
        if progress.n_pages == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest([tmp_path], store, embedded, on_progress=interrupt)
    assert sorted(contents(store)) == [f"a.pdf:{number}" for number in range(1, 6)]
    assert n_rows(store) > 5  # pages of b.pdf, which nobody sees
    ingest([tmp_path], store, embedded)
    assert len(contents(store)) == n_rows(store) == 10


def _ingest_and_die(folder: Path, index: Path, n_pages: int) -> None:
    encoder = load_embedded(device="cpu", dtype="float32")
    colret.ingest.COMMIT_PAGES = 2  # type: ignore[misc]
    colret.ingest.ENCODE_PAGES = 1  # type: ignore[misc]

    def die(progress: Progress) -> None:
        if progress.n_pages == n_pages:
            os.kill(os.getpid(), signal.SIGKILL)

    ingest([folder], PageStore.open(index), encoder, on_progress=die)


def test_kill_9_loses_and_doubles_nothing(tmp_path: Path, embedded: TextEncoder) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for name in ("a", "b", "c"):
        write_pdf(folder / f"{name}.pdf", *[f"{name} {topic}" for topic in TOPICS.values()])
    undisturbed = PageStore.create(tmp_path / "undisturbed", settings_for(embedded.info))
    ingest([folder], undisturbed, embedded)
    killed = PageStore.create(tmp_path / "killed", settings_for(embedded.info))
    context = multiprocessing.get_context("spawn")
    for n_pages in (4, 7):
        process = context.Process(target=_ingest_and_die, args=(folder, killed.path, n_pages))
        process.start()
        process.join(timeout=120)
        assert process.exitcode == -signal.SIGKILL
        pages = list(contents(PageStore.open(killed.path)))
        sizes = [sum(page.startswith(name) for page in pages) for name in ("a.pdf", "b.pdf", "c.pdf")]
        assert all(size in (0, 5) for size in sizes)
        assert n_rows(PageStore.open(killed.path)) > 0
    store = PageStore.open(killed.path)
    ingest([folder], store, embedded)
    assert contents(store) == contents(undisturbed)
    assert n_rows(store) == 15


def test_a_copy_that_is_unsettled_keeps_the_pages_of_what_it_was(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.ingest, "COMMIT_PAGES", 1)
    for name in ("a", "b"):
        write_pdf(tmp_path / f"{name}.pdf", TOPICS["heron"])
    ingest([tmp_path], store, embedded)
    write_pdf(tmp_path / "a.pdf", TOPICS["orbit"])
    write_pdf(tmp_path / "b.pdf", *TOPICS.values())
    found = find_documents([tmp_path])
    (tmp_path / "b.pdf").touch()
    report = ingest(found, store, embedded)
    assert [item.reason for item in report.skipped if item.path.endswith("b.pdf")] == ["changed_while_read"]
    held = {file.path[-5:]: record.n_pages for record in store.documents() for file in record.files}
    assert held == {"a.pdf": 1, "b.pdf": 1}
    assert n_rows(store) == 2
    ingest([tmp_path], store, embedded)
    assert n_rows(store) == 6


def test_waiting_long_commits_what_there_is(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pdf(tmp_path / "a.pdf", *TOPICS.values())
    monkeypatch.setattr(colret.ingest, "COMMIT_SECONDS", 0.0)
    rows = []
    ingest([path], store, embedded, on_progress=lambda _: rows.append(n_rows(store)))
    assert rows[-1] > 0
