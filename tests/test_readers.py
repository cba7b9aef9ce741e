"""Documents read in other processes: what hangs, swells or dies there costs its page, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from colret import scratch
from colret.conversion import libreoffice
from colret.documents import SourceFile, document_id
from colret.errors import ColretError
from colret.readers import Event, Finished, Limits, Opened, PageFailed, PageRead, Readers
from colret.reading import open_document
from colret.sync import NewDocument
from colret.types import DocumentFile, PageRef
from tests.conftest import write_pdf
from tests.hostile import HANGING, HELLO, NESTED, SWELLING, hostile_pdf
from tests.test_reading import HARD, UNREADABLE

LIMITS = Limits(seconds=2, bytes=1 << 30)


def document(path: Path) -> NewDocument:
    status = path.stat()
    source = SourceFile(path, status.st_size, status.st_mtime_ns)
    return NewDocument(document_id(path), source, (DocumentFile(str(path), status.st_mtime_ns),))


def told(events: Iterable[Event]) -> dict[str, object]:
    """Return, by the name of each file, the reason why not, or for each page its words or a reason."""
    result: dict[str, object] = {}
    pages: dict[int, str] = {}
    for event in events:
        name = event.document.source.file.name
        match event:
            case Opened():
                pages = {}
            case PageRead(_, page):
                pages[page.ref.number] = page.words.text
            case PageFailed(_, number, error):
                pages[number] = error.reason
            case Finished(_, error):
                result[name] = error.reason if error else pages
    return result


def read(*paths: Path, limits: Limits = LIMITS, n_workers: int = 2, pixels: int = 0) -> dict[str, object]:
    with Readers(n_workers=n_workers, limits=limits) as readers:
        return told(readers.read(map(document, paths), pixels=pixels, ocr=False))


def hostile(folder: Path, *pages: tuple[str, bytes], name: str = "hostile.pdf") -> Path:
    path = folder / name
    path.write_bytes(hostile_pdf(pages))
    return path


def processes() -> list[psutil.Process]:
    """Return the processes that this one started and that live."""
    return [each for each in psutil.Process().children(recursive=True) if each.status() != psutil.STATUS_ZOMBIE]


def readers_at_work() -> list[psutil.Process]:
    return [each for each in processes() if "colret.readers.child" in each.cmdline()]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """See to it that each test leaves no process and no temporary file, but for the lock of a folder of them."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(scratch, "_folders", {})
    before = processes()
    yield
    assert [each for each in processes() if each not in before] == []
    assert {path.name for path in folder.glob("*/*")} <= {"lock"}


def test_events_are_those_of_reading_here_in_order(tmp_path: Path) -> None:
    paths = [
        write_pdf(tmp_path / f"{i}.pdf", *(f"page {k} of {i}" for k in range(1, 12 * i % 17 + 2))) for i in range(9)
    ]
    expected: list[tuple[str, object]] = []
    for each in map(document, paths):
        with open_document(each.source.file) as here:
            expected.append((each.doc_id, here.n_pages))
            for number in range(1, here.n_pages + 1):
                ref = PageRef(each.doc_id, number)
                expected.append((each.doc_id, here.read_page(number, ref=ref, pixels=0, ocr=False).words.text))
            expected.append((each.doc_id, ("finished", None, here.n_pages)))
    with Readers(n_workers=3) as readers:
        for _ in range(2):  # processes serve again
            events: list[tuple[str, object]] = []
            for event in readers.read(map(document, paths), pixels=0, ocr=False):
                match event:
                    case Opened(new, n_pages):
                        events.append((new.doc_id, n_pages))
                    case PageRead(new, page, ocr_seconds):
                        assert (page.ref.doc_id, page.image, ocr_seconds) == (new.doc_id, None, 0.0)
                        events.append((new.doc_id, page.words.text))
                    case Finished(new, error, n_pages):
                        events.append((new.doc_id, ("finished", error, n_pages)))
            assert events == expected
        assert 1 <= len(readers_at_work()) <= 3


def test_a_page_arrives_whole(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", "Net revenue by segment")
    with open_document(path) as here:
        expected = here.read_page(1, ref=PageRef(document(path).doc_id, 1), pixels=30_000, ocr=False)
    with Readers(n_workers=1) as readers:
        events = list(readers.read([document(path)], pixels=30_000, ocr=False))
    (page,) = [event.page for event in events if isinstance(event, PageRead)]
    assert (page.ref, page.width, page.height) == (expected.ref, expected.width, expected.height)
    assert (page.words.texts, page.image_hash, page.ocr) == (expected.words.texts, expected.image_hash, False)
    np.testing.assert_array_equal(page.words.boxes, expected.words.boxes)
    assert isinstance(page.image, Image.Image)
    np.testing.assert_array_equal(np.asarray(page.image), np.asarray(expected.image))


def test_each_hard_file_becomes_pages_or_the_right_reason() -> None:
    """One run over all of them, as of a folder: each of the 58 files with each of its pages."""
    paths = sorted(HARD.glob("*.pdf"))
    found = read(*paths, pixels=100_000, limits=Limits(seconds=60))
    assert list(found) == [path.name for path in paths]
    failures: dict[str, object] = {}
    reasons = {
        reason for each in UNREADABLE.values() for reason in ([each] if isinstance(each, str) else each.values())
    }
    for name, outcome in found.items():
        failed = outcome
        if isinstance(outcome, dict):
            failed = {number: text for number, text in outcome.items() if text in reasons}
        if failed:
            failures[name] = failed
    assert failures == UNREADABLE


@pytest.mark.parametrize(
    ("bomb", "limits", "reason"),
    [
        (HANGING, LIMITS, "render_timeout"),
        (SWELLING, Limits(bytes=200 << 20), "render_memory"),
        (NESTED, LIMITS._replace(seconds=1), "render_timeout"),
        (NESTED, Limits(bytes=200 << 20), "render_memory"),
    ],
    ids=["hanging", "swelling", "nested, time", "nested, memory"],
)
def test_a_page_beyond_its_limits_costs_that_page(
    tmp_path: Path, bomb: tuple[str, bytes], limits: Limits, reason: str
) -> None:
    path = hostile(tmp_path, HELLO, bomb, HELLO, HELLO, HELLO, HELLO)
    after = write_pdf(tmp_path / "later.pdf", "later")
    found = read(path, after, limits=limits)
    pages = found["hostile.pdf"]
    assert isinstance(pages, dict)
    assert pages == dict.fromkeys((1, 3, 4, 5, 6), "Hello") | {2: reason}
    assert found["later.pdf"] == {1: "later"}


def test_what_is_said_of_such_a_page_names_the_limit_and_the_remedy(tmp_path: Path) -> None:
    path = hostile(tmp_path, HANGING)
    with Readers(n_workers=1, limits=LIMITS._replace(seconds=1.5)) as readers:
        _, failed, finished = readers.read([document(path)], pixels=0, ocr=False)
    assert isinstance(failed, PageFailed)
    assert str(failed.error) == (
        f"{path} page 1: took more than 1.5 s of processor time to read; allow --page-seconds more, or go without it"
    )
    assert finished == Finished(document(path), None, 1)


def test_after_some_pages_that_kill_the_rest_is_not_tried(tmp_path: Path) -> None:
    path = hostile(tmp_path, HELLO, *[HANGING] * 9)
    with Readers(n_workers=2, limits=LIMITS._replace(seconds=1)) as readers:
        events = list(readers.read([document(path), document(write_pdf(tmp_path / "b.pdf", "b"))], pixels=0, ocr=False))
        failed = [event for event in events if isinstance(event, PageFailed)]
        assert [event.number for event in failed] == [2, 3, 4]
        assert ["last 6 pages are not tried" in event.error.problem for event in failed] == [False, False, True]
        ends = [event.n_pages for event in events if isinstance(event, Finished)]
        assert ends == [4, 1]


def test_a_false_count_of_pages_is_soon_given_up(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(write_pdf(tmp_path / "one.pdf", "one").read_bytes().replace(b"/Count 1", b"/Count 900"))
    with Readers(n_workers=2) as readers:
        events = list(readers.read([document(path)], pixels=0, ocr=False))
    assert isinstance(events[0], Opened)
    assert events[0].n_pages > 100
    assert [event.number for event in events if isinstance(event, PageFailed)] == list(range(2, 22))
    assert events[-1] == Finished(document(path), None, 21)


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_dies_costs_the_page_it_was_at(tmp_path: Path, number: signal.Signals) -> None:
    path = hostile(tmp_path, HELLO, HANGING, HELLO)
    with Readers(n_workers=1, limits=Limits(seconds=60)) as readers:
        events = readers.read([document(path)], pixels=0, ocr=False)
        assert isinstance(next(events), Opened)
        assert isinstance(next(events), PageRead)
        (process,) = readers_at_work()
        process.send_signal(number)
        failed, last, finished = events
    assert isinstance(failed, PageFailed)
    assert (failed.number, failed.error.reason) == (2, "reader_crashed")
    assert f"signal {int(number)}" in str(failed.error)
    assert isinstance(last, PageRead)
    assert isinstance(finished, Finished)
    assert (finished.error, finished.n_pages) == (None, 3)


def test_a_process_that_dies_between_documents_costs_nothing(tmp_path: Path) -> None:
    paths = [write_pdf(tmp_path / f"{name}.pdf", name) for name in "abc"]
    with Readers(n_workers=1) as readers:
        for path in paths:
            assert told(readers.read([document(path)], pixels=0, ocr=False)) == {path.name: {1: path.stem}}
            for process in readers_at_work():
                process.kill()
                process.wait()


def test_a_document_that_cannot_be_opened_in_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    with path.open("wb") as file:
        file.write(b"%PDF-1.7\n")
        file.truncate(4 << 30)  # a hole on disk: PDFium searches it for objects
    slow = NewDocument("0" * 32, SourceFile(path, 4 << 30, path.stat().st_mtime_ns), (DocumentFile(str(path), 0),))
    quick = document(write_pdf(tmp_path / "b.pdf", "later"))
    with Readers(n_workers=1, limits=Limits(seconds=2)) as readers:
        first, *others = readers.read([slow, quick], pixels=0, ocr=False)
    assert isinstance(first, Finished)
    assert first.error is not None
    assert (first.error.reason, first.error.subject, first.n_pages) == ("render_timeout", str(path), 0)
    assert told(others) == {"b.pdf": {1: "later"}}


def test_bytes_that_are_no_pdf_cost_that_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 40)
    assert read(path, write_pdf(tmp_path / "b.pdf", "later")) == {"a.pdf": "not_a_pdf", "b.pdf": {1: "later"}}


def test_a_file_that_changes_while_it_is_read_says_so(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", "one", "two")
    with Readers(n_workers=1) as readers:
        events = []
        for event in readers.read([document(path)], pixels=0, ocr=False):
            if isinstance(event, PageRead) and event.page.ref.number == 1:
                write_pdf(path, "another")
            events.append(event)
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.error is not None
    assert finished.error.reason == "changed_while_read"


def test_a_reading_left_off_frees_the_processes(tmp_path: Path) -> None:
    path = hostile(tmp_path, HELLO, HANGING)
    with Readers(n_workers=1, limits=Limits(seconds=600)) as readers:
        events = readers.read([document(path)], pixels=0, ocr=False)
        next(events)
        events.close()
        assert told(readers.read([document(write_pdf(tmp_path / "b.pdf", "b"))], pixels=0, ocr=False)) == {
            "b.pdf": {1: "b"}
        }


def test_closing_ends_what_is_read(tmp_path: Path) -> None:
    path = hostile(tmp_path, HELLO, HANGING)
    readers = Readers(n_workers=2, limits=Limits(seconds=600))
    events = readers.read([document(path)], pixels=0, ocr=False)
    next(events)
    next(events)
    closer = threading.Timer(0.2, readers.close)
    closer.start()
    with pytest.raises(ValueError, match="closed"):
        next(events)
    closer.join()
    assert readers_at_work() == []
    readers.close()
    with pytest.raises(ValueError, match="closed"):
        next(readers.read([], pixels=0, ocr=False))


def test_reading_ahead_is_bounded(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", *(f"page {number}" for number in range(3)))
    taken = 0

    def documents() -> Iterator[NewDocument]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield document(path)

    with Readers(n_workers=1) as readers:
        for pixels, bound in ((0, 64), (10_000_000, 3)):
            taken = 0
            events = readers.read(documents(), pixels=pixels, ocr=False)
            next(events)
            assert 1 < taken <= bound
            events.close()


def test_pages_stay_right_where_a_long_document_is_opened_again(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", *(f"page {number}" for number in range(1, 431)))
    assert read(path, n_workers=1) == {"a.pdf": {number: f"page {number}" for number in range(1, 431)}}


@pytest.mark.prove
def test_a_long_document_takes_no_more_memory_than_a_short_one(tmp_path: Path, proving: bool) -> None:
    """Peak of the process that reads, sampled at every tenth page: 100 pages against 400, or 10,000."""
    peaks = []
    for n_pages in (100, 10_000 if proving else 400):
        path = write_pdf(tmp_path / "a.pdf", *(f"{number} " + "grey herons fish " * 60 for number in range(n_pages)))
        resident = [0]
        with Readers(n_workers=1) as readers:
            for event in readers.read([document(path)], pixels=0, ocr=False):
                if isinstance(event, PageRead) and event.page.ref.number % 10 == 0:
                    resident += [each.memory_info().rss for each in readers_at_work()]
        peaks.append(max(resident))
    assert 0 < peaks[1] < 1.2 * peaks[0]


PASSWORDS = {
    "password_required--encrypted_hello_world_r2.pdf": "h\xf4tel",
    "password_required--encrypted_hello_world_r5.pdf": "\xe2ge",
}


def test_passwords_open_what_needs_one_and_are_told_to_nobody(tmp_path: Path) -> None:
    seen = set()
    with Readers(n_workers=1, passwords=["wrong", *PASSWORDS.values()]) as readers:
        events = []
        for event in readers.read([document(HARD / name) for name in PASSWORDS], pixels=10_000, ocr=False):
            events.append(event)
            for process in processes():
                seen |= {*process.cmdline(), *process.environ().values()}
    assert [event.error for event in events if isinstance(event, Finished)] == [None, None]
    assert all("Hello" in event.page.words.text for event in events if isinstance(event, PageRead))
    assert seen
    assert not any(password in text for password in PASSWORDS.values() for text in seen)


def test_passwords_that_do_not_fit_are_not_in_the_message() -> None:
    path = HARD / next(iter(PASSWORDS))
    with Readers(n_workers=1, passwords=["secret-1", "secret-2"]) as readers:
        (finished,) = readers.read([document(path)], pixels=0, ocr=False)
    assert isinstance(finished, Finished)
    assert finished.error is not None
    assert finished.error.reason == "password_required"
    assert "secret" not in str(finished.error)
    assert "--password-file" in finished.error.remedy


@pytest.mark.skipif(libreoffice() is None, reason="LibreOffice is not installed")
def test_a_document_that_is_converted_is_so_once_for_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("".join(f"<p>word{number}</p>" for number in range(900)))
    pages = read(path, n_workers=3, limits=Limits())["a.html"]
    assert isinstance(pages, dict)
    assert len(pages) > 8  # more than two chunks
    assert " ".join(pages.values()) == " ".join(f"word{number}" for number in range(900))


def test_a_process_that_does_not_start_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_pdf(tmp_path / "a.pdf", "a")
    for program in (shutil.which("false"), str(tmp_path / "missing")):
        assert program is not None
        monkeypatch.setattr(sys, "executable", program)
        with Readers(n_workers=1) as readers, pytest.raises(ColretError, match="does not start"):
            next(readers.read([document(path)], pixels=0, ocr=False))


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_a_process_that_is_killed_as_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pdf(tmp_path / "a.pdf", "a")
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nmkdir "{tmp_path}/once" && kill -9 $$\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert read(path, n_workers=1) == {"a.pdf": {1: "a"}}
    assert (tmp_path / "once").exists()


def test_no_limit_of_memory_is_too_large(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", "a")
    assert read(path, n_workers=1, limits=LIMITS._replace(bytes=10**20)) == {"a.pdf": {1: "a"}}


def test_without_room_for_temporary_files_it_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with Readers() as readers, pytest.raises(ColretError, match="TMPDIR"):
        next(readers.read([], pixels=0, ocr=False))


PROGRAM = """
    import sys
    from pathlib import Path
    from colret.documents import SourceFile
    from colret.readers import Limits, Readers
    from colret.sync import NewDocument

    path = Path(sys.argv[1])
    new = NewDocument("0" * 32, SourceFile(path, 0, 0), ())
    with Readers(n_workers=2, limits=Limits(seconds=600)) as readers:
        for event in readers.read([new], pixels=int(sys.argv[2]), ocr=False):
            print(type(event).__name__, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("pixels", [0, 100_000], ids=["in PDFium", "in poppler"])
def test_processes_end_with_the_one_that_reads(tmp_path: Path, number: signal.Signals, pixels: int) -> None:
    path = hostile(tmp_path, HANGING)
    root = Path(__file__).parent.parent
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(path), str(pixels)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root), "TMPDIR": tempfile.gettempdir()},
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"Opened\n"
    time.sleep(0.5)  # for it to be at the page, and poppler to have been started
    children = psutil.Process(owner.pid).children(recursive=True)
    assert children
    owner.send_signal(number)
    _, complaints = owner.communicate(timeout=30)
    assert (b"KeyboardInterrupt" in complaints) == (number == signal.SIGINT)
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
