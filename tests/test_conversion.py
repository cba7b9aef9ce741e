"""Office and HTML documents become PDFs: with LibreOffice as it is, as it fails, and without it."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pypdfium2 as pdfium
import pytest
from PIL import Image

from colret import conversion, scratch
from colret.conversion import converted, libreoffice
from colret.errors import DocumentError
from colret.scratch import delete_abandoned, scratch_folder
from tests.office import WRITERS, write_html, write_odt, write_rtf

SECONDS = 120
LOCAL_SIZE = (57, 43)  # pixels of a picture beside the documents; LibreOffice's own signs have other sizes
ODD_NAME = "-odd\n name \udcff%20"

needs_office = pytest.mark.skipif(libreoffice() is None, reason="LibreOffice is not installed")
needs_scripts = pytest.mark.skipif(os.name == "nt", reason="the stand-in for LibreOffice is a shell script")


def texts(pdf: Path) -> list[str]:
    """Return the text of each page."""
    with pdfium.PdfDocument(pdf) as document:
        return [" ".join(page.get_textpage().get_text_range().split()) for page in document]


def picture_sizes(pdf: Path) -> set[tuple[int, int]]:
    """Return the size in pixels of each picture."""
    kinds = [pdfium.raw.FPDF_PAGEOBJ_IMAGE]
    with pdfium.PdfDocument(pdf) as document:
        return {tuple(each.get_px_size()) for page in document for each in page.get_objects(filter=kinds)}


def unprotected(path: Path, suffix: str) -> Path:
    """Convert ``path`` with LibreOffice as it comes, beside it."""
    program = libreoffice()
    assert program is not None
    profile = f"-env:UserInstallation={(path.parent / 'profile').as_uri()}"
    command = [program, profile, "--headless", "--convert-to", suffix, "--outdir", str(path.parent), str(path)]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=True)
    return path.with_suffix(f".{suffix}")


@pytest.fixture
def requests() -> Iterator[tuple[str, list[str]]]:
    """The address of a server on this machine, and the requests that it gets."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            seen.append(self.rfile.readline(1000).decode(errors="replace"))
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/x.png", seen
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def links(tmp_path: Path, requests: tuple[str, list[str]]) -> tuple[str, ...]:
    """A link to the server, and links to a picture and to a text on this machine."""
    picture, text = tmp_path / "local.png", tmp_path / "local.txt"
    Image.new("RGB", LOCAL_SIZE, "red").save(picture)
    text.write_text("SECRETWORD")
    return requests[0], picture.as_uri(), text.as_uri()


# With LibreOffice


@needs_office
@pytest.mark.parametrize("suffix", WRITERS)
def test_a_document_becomes_pages_and_reaches_nothing(
    suffix: str, tmp_path: Path, links: tuple[str, ...], requests: tuple[str, list[str]]
) -> None:
    path = WRITERS[suffix](tmp_path / f"{ODD_NAME}{suffix}", "The grey heron waits", links)
    with converted(path, seconds=SECONDS) as pdf:
        pages = texts(pdf)
        sizes = picture_sizes(pdf)
    assert not pdf.parent.exists()
    assert "The grey heron waits" in pages[0]
    assert "SECRETWORD" not in " ".join(pages)
    assert LOCAL_SIZE not in sizes
    assert requests[1] == []


@needs_office
def test_the_links_of_these_documents_would_be_followed(
    tmp_path: Path, links: tuple[str, ...], requests: tuple[str, list[str]]
) -> None:
    unprotected(write_odt(tmp_path / "a.odt", "The grey heron waits", links), "pdf")
    assert LOCAL_SIZE in picture_sizes(tmp_path / "a.pdf")
    assert requests[1] != []


@needs_office
def test_a_word_97_document_reaches_nothing(
    tmp_path: Path, links: tuple[str, ...], requests: tuple[str, list[str]]
) -> None:
    path = unprotected(write_odt(tmp_path / "a.odt", "The grey heron waits", links), "doc")
    assert path.read_bytes().startswith(b"\xd0\xcf\x11\xe0")
    assert links[1].encode("utf-16-le") in path.read_bytes()
    requests[1].clear()
    with converted(path, seconds=SECONDS) as pdf:
        assert "The grey heron waits" in texts(pdf)[0]
        assert LOCAL_SIZE not in picture_sizes(pdf)
    assert requests[1] == []


@needs_office
def test_a_page_keeps_its_structure_and_its_embedded_pictures(tmp_path: Path) -> None:
    sections = "".join(f"<section>part{i}</section>" for i in range(3))
    picture = tmp_path / "p.png"
    Image.new("RGB", LOCAL_SIZE, "red").save(picture)
    embedded = f'<img src="data:image/png;base64,{_base64(picture)}">'
    # Named as Word would name it: its content decides.
    path = write_html(tmp_path / "a.doc", f"Ünïcödé שלום {sections}<table><tr><td>left<td>right</table>{embedded}")
    with converted(path, seconds=SECONDS) as pdf:
        [page] = texts(pdf)
        assert picture_sizes(pdf) == {LOCAL_SIZE}
    assert page.split() == ["Ünïcödé", "שלום", "part0", "part1", "part2", "left", "right"]


@needs_office
def test_two_processes_convert_at_once_and_agree(tmp_path: Path) -> None:
    path = write_rtf(tmp_path / "a.rtf", r"The satellite reached \b Mars\b0\page A second page")
    program = (
        "import sys; from pathlib import Path; from colret.conversion import converted\n"
        "for _ in range(2):\n"
        "    with converted(Path(sys.argv[1]), seconds=float(sys.argv[2])) as pdf:\n"
        "        from tests.test_conversion import texts; print(texts(pdf), flush=True)"
    )
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", program, str(path), str(SECONDS)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(2)]
    outputs = [process.communicate(timeout=2 * SECONDS)[0] for process in processes]
    assert outputs == ["['The satellite reached Mars', 'A second page']\n" * 2] * 2


@needs_office
def test_a_document_that_libreoffice_cannot_load_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.doc"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4000))
    with pytest.raises(DocumentError, match="LibreOffice made no PDF") as caught, converted(path, seconds=SECONDS):
        pass
    assert caught.value.reason == "conversion_failed"


# Without it, or with one that fails: a script stands in for the program, which is not under test


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have ``script`` run as LibreOffice."""
    program = tmp_path / "soffice"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("COLRET_SOFFICE", str(program))


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which this process keeps what LibreOffice needs: a fresh one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_folders", {})
    return scratch_folder(conversion._PREFIX)


def refused(path: Path, seconds: float = SECONDS) -> DocumentError:
    with pytest.raises(DocumentError) as caught, converted(path, seconds=seconds):
        pass
    assert caught.value.subject == str(path)
    return caught.value


def test_without_libreoffice_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("COLRET_SOFFICE", raising=False)
    monkeypatch.setattr(conversion, "_PLACES", ())
    assert libreoffice() is None
    error = refused(write_html(tmp_path / "a.html", "x"))
    assert error.reason == "needs_libreoffice"
    assert str(error).endswith("install LibreOffice, or save it as PDF")


@needs_scripts
def test_libreoffice_is_found_where_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "exit 0")
    assert libreoffice() == str(tmp_path / "soffice")
    monkeypatch.setenv("COLRET_SOFFICE", str(tmp_path / "none"))
    assert libreoffice() is None
    monkeypatch.delenv("COLRET_SOFFICE")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert libreoffice() == str(tmp_path / "soffice")


@needs_scripts
def test_a_hanging_libreoffice_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workplace: Path
) -> None:
    stand_in(tmp_path, monkeypatch, f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    error = refused(write_html(tmp_path / "a.html", "x"), seconds=1)
    assert error.reason == "render_timeout"
    assert "longer than 1 s" in error.problem
    child = int((tmp_path / "child").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert [path.name for path in workplace.iterdir()] == ["lock"]


@needs_scripts
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'Error: no such filter' >&2; exit 1", "(Error: no such filter)"),
        ("exit 0", "(it says nothing)"),
        ("kill -SEGV $$", "(it says nothing)"),
    ],
)
def test_a_failing_libreoffice_is_quoted(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workplace: Path
) -> None:
    stand_in(tmp_path, monkeypatch, script)
    error = refused(write_html(tmp_path / "a.html", "x"))
    assert error.reason == "conversion_failed"
    assert said in error.problem
    assert [path.name for path in workplace.iterdir()] == ["lock"]


@needs_scripts
def test_a_program_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "")
    (tmp_path / "soffice").write_bytes(b"\x7fELF no program")
    assert refused(write_html(tmp_path / "a.html", "x")).reason == "conversion_failed"


@needs_scripts
def test_what_a_killed_process_leaves_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workplace: Path
) -> None:
    stand_in(tmp_path, monkeypatch, "echo started; exec sleep 1000")
    write_html(tmp_path / "a.html", "x")
    program = "import sys; from pathlib import Path; from colret.conversion import converted\n"
    program += "with converted(Path(sys.argv[1]), seconds=1000): pass"
    command = [sys.executable, "-c", program, str(tmp_path / "a.html")]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[1], start_new_session=True)
    while not (left := [path.parents[1] for path in tmp_path.glob("colret-office-*/document-*/output")]):
        assert process.poll() is None
        time.sleep(0.05)
    [folder] = left
    delete_abandoned(tmp_path, conversion._PREFIX)  # too young
    _age(folder, workplace)
    delete_abandoned(tmp_path, conversion._PREFIX)  # in use
    assert folder.exists()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _age(folder)
    delete_abandoned(tmp_path, conversion._PREFIX)
    assert not folder.exists()
    assert workplace.exists()


@needs_scripts
def test_nothing_is_left_at_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, 'while [ "$1" != --outdir ]; do shift; done; echo pdf > "$2/document.pdf"')
    write_html(tmp_path / "a.html", "x")
    program = "import sys; from pathlib import Path; from colret.conversion import converted\n"
    program += "with converted(Path(sys.argv[1]), seconds=100) as pdf: print(pdf.read_text())"
    command = [sys.executable, "-c", program, str(tmp_path / "a.html")]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("pdf\n\n", "")
    assert list(tmp_path.glob("colret-office-*")) == []


def _age(*folders: Path) -> None:
    for folder in folders:
        os.utime(folder, (0, 0))


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
