"""A process that ingests a folder and prints the most memory it took: ``python -m tests.ingest_memory``."""

from __future__ import annotations

import json
import resource
import sys
import threading
from pathlib import Path

import psutil

from colret.encoders.text import load_embedded
from colret.ingest import ingest
from colret.settings import settings_for
from colret.store import PageStore

_SAMPLE_SECONDS = 0.05


class Watch(threading.Thread):
    """Watches the resident memory of this process and all its children together."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.n_bytes = 0
        self._ended = threading.Event()

    def run(self) -> None:
        """Look until the end."""
        while not self._ended.wait(_SAMPLE_SECONDS):
            this = psutil.Process()
            self.n_bytes = max(self.n_bytes, sum(map(_resident, [this, *this.children(recursive=True)])))

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()


def _resident(process: psutil.Process) -> int:
    try:
        n_bytes: int = process.memory_info().rss
    except psutil.Error:  # it has just ended
        return 0
    return n_bytes


def main(folder: Path, index: Path) -> None:
    """Print pages, and the peaks in bytes of this process and of it and its children together."""
    encoder = load_embedded(device="cpu")
    store = PageStore.create(index, settings_for(encoder.info))
    watch = Watch()
    watch.start()
    report = ingest([folder], store, encoder)
    watch.end()
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"n_pages": report.n_pages, "own": own, "together": watch.n_bytes}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
