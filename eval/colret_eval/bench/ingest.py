"""Ingest beside a straight loop over the same documents: pages a second and memory of both, in one run.

The loop is what one writes first: one process takes a page, has its image drawn by pdf2image and
its words read (by OCR where it has none), encodes it, goes on to the next page, and appends a
document's pages to LanceDB in one commit. Its parts are colret's own, so both make the same
pages. A model that reads words needs no image of a page with a text layer, so for such a model
there are two loops: one that draws every page all the same, and one that does not.

Each way is measured in a process of its own, in turn, several times; a model is loaded before
the clock starts.
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from PIL.Image import Image

from colret.errors import ColretError, DocumentError
from colret.folders import find_documents
from colret.reading import Document, open_document
from colret.store import PageStore
from colret.types import Page, PageRef
from colret_eval.bench.engines import last_line, worker_environment
from colret_eval.bench.ingest_worker import COLRET, DRAWING_LOOP, LOOP, Job, pages_of, write_job

SCAN_DPI: Final = 150
SCANS_A_DOCUMENT: Final = 4

_LETTER_PIXELS = int(8.5 * 11 * SCAN_DPI**2)


def measure(
    folders: Sequence[Path], models: Sequence[str], work: Path, *, n_pages: int, n_scans: int, rounds: int
) -> list[dict[str, Any]]:
    """Return the figures of each way, model and kind of document.

    Args:
        folders: Where born-digital PDFs are.
        models: Names for ``load_encoder``.
        work: A folder for copies and indexes.
        n_pages: Born-digital pages to ingest, at least, if there are so many.
        n_scans: Scanned pages to ingest, for models that read words: some of those, as pictures.
        rounds: How often each way is measured.

    Raises:
        ColretError: If no born-digital PDF is found, or a way fails.
    """
    born, scanned = work / "ingest-born-digital", work / "ingest-scanned"
    choose_born_digital(folders, born, n_pages)
    scan(born, scanned, n_scans)
    rows = []
    for model in models:
        reads = _reads(model)
        ways = [COLRET, LOOP] + ([DRAWING_LOOP] if reads == "words" else [])
        rows += _compare("born-digital", born, model, ways, work, rounds)
        if reads == "words" and n_scans:
            rows += _compare("scanned", scanned, model, [COLRET, LOOP], work, rounds)
    return rows


def choose_born_digital(folders: Sequence[Path], chosen: Path, n_pages: int) -> None:
    """Copy PDFs whose every page has a text layer into ``chosen``, until they have ``n_pages``.

    Raises:
        ColretError: If there is none.
    """
    _renew(chosen)
    n_chosen = 0
    for source in find_documents(folders).sources:
        with suppress(DocumentError), open_document(source.file) as document:
            if n_chosen < n_pages and all(page.words.texts for page in _pages(document, pixels=0)):
                shutil.copy(source.file, chosen / f"{n_chosen:05}-{source.file.name}")
                n_chosen += document.n_pages
    if not n_chosen:
        raise ColretError(", ".join(map(str, folders)), "no PDF there has a text layer on every page", "name others")


def scan(born: Path, scanned: Path, n_pages: int) -> None:
    """Make PDFs of pictures: pages of the documents in ``born``, drawn at ``SCAN_DPI``."""
    _renew(scanned)
    images: list[Image] = []
    for source in find_documents([born]).sources:
        with open_document(source.file) as document:
            for page in itertools.islice(_pages(document, pixels=_LETTER_PIXELS), n_pages - len(images)):
                assert page.image is not None
                images.append(page.image)
    for start in range(0, len(images), SCANS_A_DOCUMENT):
        first, *others = images[start : start + SCANS_A_DOCUMENT]
        first.save(scanned / f"{start:05}.pdf", save_all=True, append_images=others, resolution=SCAN_DPI)


def _pages(document: Document, *, pixels: int) -> Iterator[Page]:
    for number in range(1, document.n_pages + 1):
        yield document.read_page(number, ref=PageRef("page", number), pixels=pixels, ocr=False)


def _renew(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _reads(model: str) -> str:
    from colret.encoders import load_encoder

    return load_encoder(model, device="cpu", queries_only=True).info.reads


def _compare(kind: str, folder: Path, model: str, ways: Sequence[str], work: Path, rounds: int) -> list[dict[str, Any]]:
    """Measure each way in turn, several times; return a row for each, with its ratio to the plain loop."""
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    pages: dict[str, dict[str, bytes]] = {}
    for _, way in itertools.product(range(rounds), ways):
        index = work / "ingest-index"
        shutil.rmtree(index, ignore_errors=True)
        runs[way].append(_run(Job(way, str(folder), str(index), model, str(work / "ingest.json"))))
        pages[way] = pages_of(PageStore.open(index))
    rates = {way: statistics.median(run["n_pages"] / run["seconds"] for run in some) for way, some in runs.items()}
    return [
        {
            "documents": kind,
            "model": Path(model).name,
            "way": way,
            "n_pages": runs[way][0]["n_pages"],
            "n_ocr": runs[way][0]["n_ocr"],
            "pages_per_s": rates[way],
            "seconds": [run["seconds"] for run in runs[way]],
            "to_loop": rates[way] / rates[LOOP],
            "peak_bytes": statistics.median(run["peak_bytes"] for run in runs[way]),
            "same_vectors": _share_equal(pages[way], pages[LOOP]),
        }
        for way in ways
    ]


def _share_equal(pages: dict[str, bytes], others: dict[str, bytes]) -> float:
    """Return the share of pages that are there and the same in both indexes."""
    equal = sum(pages[page] == others[page] for page in pages.keys() & others.keys())
    return equal / len(pages.keys() | others.keys())


def _run(job: Job) -> dict[str, Any]:
    path = Path(job.result)
    path.unlink(missing_ok=True)
    write_job(job, path.with_suffix(".job"))
    command = [sys.executable, "-m", "colret_eval.bench.ingest_worker", str(path.with_suffix(".job"))]
    done = subprocess.run(command, capture_output=True, text=True, env=worker_environment({}), check=False)
    if done.returncode:
        problem = f"failed: {last_line(done.stderr) or f'exit status {done.returncode}'}"
        raise ColretError(f"ingest, {job.way}", problem, "leave the part ingest out")
    figures: dict[str, Any] = json.loads(path.read_text())
    return figures
