"""Ctrl-C ends an ingest at once, whatever its threads are at, and leaves an index that can go on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import colret.ingest
from colret.encoders.text import TextEncoder
from colret.errors import StoreError
from colret.ingest import ingest
from colret.report import Progress
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import EncoderInfo, Page, PageEmbedding, QueryEmbedding
from tests.conftest import TOPICS, write_pdf
from tests.test_ingest import contents, n_rows

FOR_EVER = 3600.0  # seconds: a test that waited for it would not end


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.ingest, "COMMIT_PAGES", 2)
    monkeypatch.setattr(colret.ingest, "ENCODE_PAGES", 1)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets what hangs go on; the end of the test does."""
    event = threading.Event()
    yield event
    event.set()


class Hanging:
    """The real encoder, in which Ctrl-C is pressed at the n-th batch, which takes for ever."""

    def __init__(self, encoder: TextEncoder, n_batches: int, release: threading.Event) -> None:
        self.info: EncoderInfo = encoder.info
        self._encoder, self._n_batches, self._release = encoder, n_batches, release

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:  # noqa: D102
        self._n_batches -= 1
        if self._n_batches == 0:
            os.kill(os.getpid(), signal.SIGINT)
            self._release.wait(FOR_EVER)
        return self._encoder.encode_pages(pages)

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:  # noqa: D102
        return self._encoder.encode_queries(texts)


def two_documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    for name in ("a", "b"):
        write_pdf(folder / f"{name}.pdf", *[f"{name} {topic}" for topic in TOPICS.values()])
    return folder


def test_ctrl_c_does_not_wait_for_the_encoder(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, release: threading.Event
) -> None:
    folder = two_documents(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        ingest([folder], store, Hanging(embedded, 9, release))
    assert sorted(contents(store)) == [f"a.pdf:{number}" for number in range(1, 6)]
    ingest([folder], store, embedded)  # the lock is free, though the encoder has not come back
    assert len(contents(store)) == n_rows(store) == 10
    before = contents(store)
    release.set()
    assert contents(store) == before


def test_ctrl_c_during_the_pilot_does_not_wait_for_the_encoder(
    tmp_path: Path, embedded: TextEncoder, release: threading.Event
) -> None:
    folder = two_documents(tmp_path)
    store = PageStore.create(tmp_path / "small", settings_for(embedded.info, dim=32))
    with pytest.raises(KeyboardInterrupt):
        ingest([folder], store, Hanging(embedded, 1, release))
    assert store.documents() == []
    ingest([folder], store, embedded)
    assert len(contents(store)) == n_rows(store) == 10


def test_ctrl_c_leaves_a_long_write_to_itself_and_the_lock_to_the_write(
    tmp_path: Path,
    store: PageStore,
    embedded: TextEncoder,
    release: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = two_documents(tmp_path)
    real = PageStore.add_pages
    ended = threading.Event()

    def slow(store: PageStore, pages: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(FOR_EVER)
        real(store, pages)
        ended.set()

    with monkeypatch.context() as patch:
        patch.setattr(PageStore, "add_pages", slow)
        with pytest.raises(KeyboardInterrupt):
            ingest([folder], store, embedded)
    other = PageStore.open(store.path)
    with pytest.raises(StoreError, match="another colret is writing to it"):
        ingest([folder], other, embedded)  # whose pages the late write would double
    release.set()
    assert ended.wait(60)
    for thread in threading.enumerate():
        if thread.name == "colret-write":  # it still has to free the lock
            thread.join(60)
    ingest([folder], other, embedded)
    assert len(contents(other)) == n_rows(other) == 10


def test_progress_says_what_is_in_for_good(
    tmp_path: Path, store: PageStore, embedded: TextEncoder, release: threading.Event
) -> None:
    folder = two_documents(tmp_path)
    seen: list[Progress] = []
    with pytest.raises(KeyboardInterrupt):
        ingest([folder], store, Hanging(embedded, 9, release), on_progress=seen.append)
    assert (seen[-1].n_documents_in, seen[-1].n_pages_in) == (1, 5)
    assert len(contents(store)) == 5
