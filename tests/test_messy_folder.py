"""A folder as people have them: whatever lies in it, the documents get in and everything else has its reason."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from colret.documents import display_path
from colret.ingest import ingest
from colret.settings import settings_for
from colret.store import PageStore
from tests.folders import contents, numpy_encoder, pdf, sentence
from tests.processes import cli, environment

SOME_SKIPPED = 3  # exit code
GOOD = [b"good.pdf", b"line\nbreak.pdf", b"not-utf8-\xe9.pdf", b"folder.pdf/inner.pdf", "näïve 文書.PDF".encode()]
REASONS = {
    "empty.pdf": "empty_file",
    "no.pdf": "not_a_pdf",
    "zip.pdf": "not_a_pdf",
    "archive.zip": "unsupported_archive",
    "pipe.pdf": "unsupported_type",
    "socket.pdf": "unsupported_type",
    "dangling.pdf": "missing",
    "ouroboros.pdf": "unreadable",
    "locked.pdf": "unreadable",
}
AS_OTHERS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]  # root without the right to read everything


def make_mess(folder: Path) -> None:
    """Fill a folder with documents, and with what only looks like one."""
    rng = random.Random(0)
    for name in GOOD:
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pdf(sentence(rng), sentence(rng)))
    (folder / "empty.pdf").touch()
    (folder / "no.pdf").write_text("no PDF")
    for archive_name in ("archive.zip", "zip.pdf"):
        with zipfile.ZipFile(folder / archive_name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(folder / "good.pdf", "good.pdf")
    os.mkfifo(folder / "pipe.pdf")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "socket.pdf"))  # a socket's name must be short
    (folder / "dangling.pdf").symlink_to("nothing.pdf")
    (folder / "ouroboros.pdf").symlink_to("ouroboros.pdf")
    (folder / "here").symlink_to(".")
    (folder / "folder.pdf" / "up").symlink_to("..")
    (folder / "locked.pdf").write_bytes(pdf(sentence(rng)))
    (folder / "locked.pdf").chmod(0)
    (folder / "notes.txt").write_text("nobody asked for these")


def run_on_mess(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*(AS_OTHERS if os.geteuid() == 0 else []), *cli(*arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse some of these names")
@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root reads every file")
def test_a_messy_folder_is_ingested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, index = tmp_path / "documents", tmp_path / "index"
    folder.mkdir()
    monkeypatch.chdir(folder)
    make_mess(folder)
    expected = {str(folder / name): reason for name, reason in REASONS.items()}
    for n_added in (len(GOOD), 0):  # the second time, everything is known
        done = run_on_mess("ingest", folder, "--index", index, "--model", "embedded", "--json")
        assert done.returncode == SOME_SKIPPED, done.stderr
        report = json.loads(done.stdout)
        assert {item["path"]: item["reason"] for item in report["skipped"]} == expected
        assert (report["n_added"], report["index"]["n_pages"]) == (n_added, 2 * len(GOOD))
    records = list(map(json.loads, run_on_mess("list", "--index", index, "--json").stdout.splitlines()))
    good = {display_path(folder / os.fsdecode(name)) for name in GOOD}
    assert {file["path"] for record in records if record["status"] == "done" for file in record["files"]} == good
    failed = {file["path"]: record["reason"] for record in records if record["reason"] for file in record["files"]}
    assert failed == expected
    answer = run_on_mess("query", "grey heron", "--index", index, "-k", "99", "--json").stdout
    assert {hit["file"] for hit in json.loads(answer)["hits"]} == good


@contextmanager
def meanwhile(disturb: Callable[[int], None]) -> Iterator[None]:
    """Call ``disturb`` with 0, 1, 2 and so on, every few milliseconds of the block."""
    ended = threading.Event()

    def run() -> None:
        count = 0
        while not ended.wait(0.002):
            disturb(count)
            count += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of ten documents, of which nobody disturbs nine."""
    rng = random.Random(0)
    path = tmp_path / "documents"
    path.mkdir()
    for number in range(10):
        (path / f"{number}.pdf").write_bytes(pdf(*[sentence(rng) for _ in range(3)]))
    return path


def test_a_file_that_keeps_changing_waits_for_its_time(folder: Path, tmp_path: Path) -> None:
    restless = folder / "4.pdf"
    content = restless.read_bytes()
    place = content.index(b" Tj") - 2  # the last letter of a word

    def rewrite(count: int) -> None:
        with restless.open("r+b") as file:
            file.seek(place)
            file.write(b"xyz"[count % 3 : count % 3 + 1])

    store = PageStore.create(tmp_path / "index", settings_for(numpy_encoder().info))
    with meanwhile(rewrite):
        report = ingest([folder], store, numpy_encoder())
    assert [(Path(item.path).name, item.reason) for item in report.skipped] == [("4.pdf", "changed_while_read")]
    assert (report.n_added, report.n_pages) == (9, 27)
    check_settled(folder, store, tmp_path)


def test_a_file_that_comes_and_goes_stops_nobody(folder: Path, tmp_path: Path) -> None:
    flickering, away = folder / "4.pdf", tmp_path / "away.pdf"

    def flicker(count: int) -> None:
        old, new = (flickering, away) if count % 2 == 0 else (away, flickering)
        old.rename(new)

    store = PageStore.create(tmp_path / "index", settings_for(numpy_encoder().info))
    with meanwhile(flicker):
        for prune in (False, True, False, True):
            report = ingest([folder], store, numpy_encoder(), prune=prune)
            assert {item.reason for item in report.skipped} <= {"missing"}
            found = contents(store)
            assert all(document.is_whole for document in found.values())
            # That it is missing may be listed beside its pages.
            assert sum(document.status == "done" for document in found.values()) in (9, 10)
    if away.exists():
        away.rename(flickering)
    check_settled(folder, store, tmp_path)


def check_settled(folder: Path, store: PageStore, place: Path) -> None:
    """Now that nothing changes any more, an ingest has nothing to complain of, and equals a fresh one."""
    assert ingest([folder], store, numpy_encoder(), prune=True).skipped == []
    fresh = PageStore.create(place / "fresh", settings_for(numpy_encoder().info))
    ingest([folder], fresh, numpy_encoder())
    assert contents(store) == contents(fresh)
    assert sum(len(document.pages) for document in contents(store).values()) == 30
