"""A process that ingests, one way or another: ``python -m colret_eval.bench.ingest_worker JOB``."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from colret.compression import Compression
from colret.documents import document_id
from colret.encoders import Encoder, load_encoder
from colret.errors import DocumentError
from colret.folders import find_documents
from colret.ingest import ingest
from colret.reading import open_document
from colret.report import Reading, make_record
from colret.settings import settings_for
from colret.store import PageStore
from colret.sync import NewDocument
from colret.types import EncodedPage, PageRef
from colret_eval.bench.clock import Stopwatch

COLRET: Final = "colret"
LOOP: Final = "loop"
DRAWING_LOOP: Final = "loop that draws every page"

DRAWN_PIXELS: Final = 800_000  # of a page's image where the model has no wish: about 92 dpi
SAMPLE_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Job:
    """What a process is to do."""

    way: str
    folder: str  # of the documents
    index: str  # to make
    model: str
    result: str  # file


class PeakMemory:
    """The most bytes that this process and those below it have had resident together."""

    def __init__(self) -> None:
        self.bytes = 0

    def look(self) -> None:
        """Look once more."""
        total, own = 0, psutil.Process()
        for process in [own, *own.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        self.bytes = max(self.bytes, total)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look every ``SAMPLE_SECONDS``."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(SAMPLE_SECONDS):
                self.look()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.look()


def run(job: Job) -> dict[str, Any]:
    """Do the job; return the pages, the seconds and the memory it took."""
    encoder = load_encoder(job.model, device="cpu")
    store, peak = PageStore.create(Path(job.index), settings_for(encoder.info)), PeakMemory()
    with peak.watching():
        watch = Stopwatch()
        if job.way == COLRET:
            report = ingest([Path(job.folder)], store, encoder)
            n_pages, n_ocr = report.n_pages, report.n_ocr
        else:
            drawn = DRAWN_PIXELS if job.way == DRAWING_LOOP else 0
            n_pages, n_ocr = loop(Path(job.folder), store, encoder, drawn or encoder.info.render_pixels)
        seconds = watch.elapsed().wall
    return {"seconds": seconds, "n_pages": n_pages, "n_ocr": n_ocr, "peak_bytes": peak.bytes}


def loop(folder: Path, store: PageStore, encoder: Encoder, pixels: int) -> tuple[int, int]:
    """Bring documents into an empty index one page after the other; return the pages, and how many by OCR."""
    n_pages = n_ocr = 0
    for source in find_documents([folder]).sources:
        reading = Reading(NewDocument(document_id(source.file), source, ()))
        with open_document(source.file) as document:
            reading.n_pages = document.n_pages
            pages = []
            for number in range(1, document.n_pages + 1):
                ref = PageRef(reading.document.doc_id, number)
                with suppress(DocumentError):
                    page = document.read_page(number, ref=ref, pixels=pixels, ocr=encoder.info.reads == "words")
                    [embedding] = encoder.encode_pages([page])
                    if len(embedding.vectors):
                        stored = Compression(store.settings.pool, store.projection()).page(embedding)
                        pages.append(EncodedPage(replace(page, image=None), stored))
                        n_ocr += page.ocr
        store.add_pages(pages)
        store.put_documents([make_record(reading)])
        n_pages += len(pages)
    return n_pages, n_ocr


def pages_of(store: PageStore) -> dict[str, bytes]:
    """Return the codes of every visible page."""
    return {
        page.ref.page_id: store.vectors(np.array([place])).values.tobytes()
        for place, page in enumerate(store.candidates())
    }


def write_job(job: Job, path: Path) -> None:
    """Write a job for ``main``."""
    path.write_text(json.dumps(asdict(job)))


def main(arguments: list[str]) -> int:
    """Do the job in the file named in ``arguments``."""
    job = Job(**json.loads(Path(arguments[0]).read_text()))
    Path(job.result).write_text(json.dumps(run(job)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
