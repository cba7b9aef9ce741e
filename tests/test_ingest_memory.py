"""Memory of an ingest does not grow with pages, documents or the length of one document."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.pdfs import PdfSpec, build_pdf, text
from tests.processes import environment

WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima")


class Peak(NamedTuple):
    """The most bytes that were resident."""

    own: int
    together: int  # with the processes that read


def page(number: int) -> PdfSpec:
    """Return a page of a few words, so many that lengths differ."""
    words = [WORDS[(number * 31 + i * i) % len(WORDS)] for i in range(3 + number * 7919 % 40)] + [str(number)]
    lines = [" ".join(words[i : i + 8]) for i in range(0, len(words), 8)]
    return PdfSpec("".join(text(line, 40, 700 - 20 * i, 12) for i, line in enumerate(lines)))


def one_document(folder: Path, n_pages: int) -> Path:
    folder.mkdir()
    (folder / "long.pdf").write_bytes(build_pdf([page(number) for number in range(n_pages)]))
    return folder


def many_documents(folder: Path, n_pages: int) -> Path:
    folder.mkdir()
    for number in range(n_pages):
        (folder / f"{number}.pdf").write_bytes(build_pdf([page(number)]))
    return folder


def peak(folder: Path, n_pages: int) -> Peak:
    """Ingest a folder in a process of its own and return the most memory that took."""
    command = [sys.executable, "-m", "tests.ingest_memory", str(folder), f"{folder}.index"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    found = json.loads(run.stdout)
    assert found["n_pages"] == n_pages
    return Peak(found["own"], found["together"])


@pytest.mark.prove
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the resident memory is counted otherwise")
def test_memory_is_flat(tmp_path: Path, proving: bool) -> None:
    """The long form: 10,000 pages in one document and in as many, within 20 % of 100 pages."""
    few, many, most = (100, 10_000, 1.2) if proving else (40, 160, 1.25)
    small = peak(one_document(tmp_path / "few", few), few)
    for name, make in {"one": one_document, "many": many_documents}.items():
        large = peak(make(tmp_path / name, many), many)
        print(f"{name}: {large} bytes, against {small}")
        assert large.own <= most * small.own
        assert large.together <= most * small.together
