"""Signatures: what is scanned is what the stored vectors say, however it was written and lost."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import colret.signatures
from colret.codecs import CODECS
from colret.pooling import block_means
from colret.scoring import float_vectors, normalize_rows
from colret.signatures import FOLDER, KINDS, SKETCH_BLOCKS, Kind, Signatures, merge_segments, open_signatures
from colret.store import PageStore
from colret.types import Codec, Float32, Int64, Multivectors
from tests.test_store import DIM, SETTINGS, encoded, record

LENGTHS = (1, 7, 40, 3, 33, 90)


@pytest.fixture
def index(tmp_path: Path) -> PageStore:
    return filled(tmp_path / "index")


def filled(path: Path, codec: Codec = "int8") -> PageStore:
    """Return an index of twelve pages in two documents, of which one more is not finished."""
    store = PageStore.create(path, dataclasses.replace(SETTINGS, codec=codec))
    for doc_id in ("b", "a", "unfinished"):
        store.add_pages([encoded(doc_id, number, n) for number, n in enumerate(LENGTHS, start=1)])
    store.put_documents([record("a", len(LENGTHS)), record("b", len(LENGTHS))])
    return store


def query(n_tokens: int = 5) -> Float32:
    return normalize_rows(np.random.default_rng(3).normal(size=(n_tokens, DIM)).astype(np.float32))


def every(store: PageStore) -> Int64:
    return np.arange(store.n_pages())


def expected(store: PageStore, kind: Kind, tokens: Float32) -> list[float]:
    """Score each page by a loop over what the index stores."""
    scores = []
    vectors = store.vectors(every(store))
    for i in range(len(vectors)):
        page = float_vectors(vectors, i)
        page = block_means(page, SKETCH_BLOCKS) if kind == "sketch" else page
        page = np.where(page >= 0, 1, -1).astype(np.float32) / np.float32(DIM**0.5)
        scores.append(float((tokens @ page.T).max(axis=1).sum()))
    return scores


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_scan_scores_what_is_stored(tmp_path: Path, kind: Kind, codec: Codec) -> None:
    store = filled(tmp_path / "index", codec)
    signatures = open_signatures(store, kind)
    tokens = query()
    # int8 rounds the query by less than half a step of 1/127 a component.
    assert signatures.scan(tokens, every(store)) == pytest.approx(expected(store, kind, tokens), abs=0.1)


def test_signs_alone_score_by_hamming_distance(index: PageStore) -> None:
    tokens = query()
    signs = np.where(tokens >= 0, 1, -1) / DIM
    vectors = index.vectors(every(index))
    pages = [np.where(float_vectors(vectors, i) >= 0, 1, -1) for i in range(len(vectors))]
    by_hand = [float((signs @ page.T).max(axis=1).sum()) for page in pages]
    assert open_signatures(index, "bits").scan(tokens, every(index), signs_only=True) == pytest.approx(by_hand)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_is_read_again(index: PageStore, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_signatures(index, kind).scan(query(), every(index))
    monkeypatch.setattr(colret.signatures, "signature", lambda pages, kind: pytest.fail("made again"))
    again = open_signatures(PageStore.open(index.path), kind)
    assert isinstance(again.segments[0].pages.values, np.memmap)
    assert np.array_equal(again.scan(query(), every(index)), first)


@pytest.mark.parametrize("kind", KINDS)
def test_new_pages_add_a_segment_and_gone_ones_are_not_scored(index: PageStore, kind: Kind) -> None:
    open_signatures(index, kind)
    index.add_pages([encoded("c", number, 5) for number in range(1, 4)])
    index.put_documents([record("c", 3)])
    index.remove_documents(["b"])
    signatures = open_signatures(index, kind)
    assert len(signatures.segments) == 2
    assert signatures.n_dead() == len(LENGTHS)
    assert not len(signatures.missing())
    assert signatures.scan(query(), every(index)) == pytest.approx(expected(index, kind, query()), abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_many_segments_become_one_with_the_same_scores(
    index: PageStore, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.signatures, "MANY_SEGMENTS", 2)
    monkeypatch.setattr(colret.signatures, "_BLOCK_PAGES", 4)
    open_signatures(index, kind)
    for doc_id in ("c", "aa"):
        index.add_pages([encoded(doc_id, 1, 9)])
        index.put_documents([record(doc_id)])
        before = open_signatures(index, kind).scan(query(), every(index))
    with index.writing():
        merge_segments(index, kind)
    [folder] = (index.path / FOLDER).iterdir()
    merged = open_signatures(index, kind)
    assert [segment.folder for segment in merged.segments] == [folder]
    assert np.array_equal(merged.scan(query(), every(index)), before)


@pytest.mark.parametrize("kind", KINDS)
def test_dead_pages_are_merged_away(index: PageStore, kind: Kind) -> None:
    open_signatures(index, kind)
    index.remove_documents(["b"])
    with index.writing():
        merge_segments(index, kind)
    assert open_signatures(index, kind).n_dead() == 0


@pytest.mark.parametrize("damage", ["truncate", "empty", "missing"])
def test_damaged_signatures_are_made_again(index: PageStore, damage: str) -> None:
    intact = open_signatures(index, "bits")
    scores = intact.scan(query(), every(index))
    damaged = intact.segments[0].folder
    assert damaged is not None
    bits = damaged / "bits.npy"
    if damage == "missing":
        bits.unlink()
    else:
        os.truncate(bits, 0 if damage == "empty" else bits.stat().st_size - 1)
    again = PageStore.open(index.path)
    repaired = open_signatures(again, "bits")
    assert np.array_equal(repaired.scan(query(), every(again)), scores)
    [segment] = open_signatures(PageStore.open(index.path), "bits").segments  # kept for the next process
    with again.writing():
        merge_segments(again, "bits")
    assert list((index.path / FOLDER).iterdir()) == [segment.folder]  # and the damaged one goes


def test_what_a_killed_process_left_is_cleared_away(index: PageStore) -> None:
    open_signatures(index, "bits")
    folder = index.path / FOLDER
    for name in (".draft-old", ".draft-new"):
        (folder / name).mkdir()
    os.utime(folder / ".draft-old", (0, 0))
    with index.writing():
        merge_segments(index, "bits")
    assert {each.name for each in folder.glob(".draft-*")} == {".draft-new"}  # somebody may be writing it


def test_others_may_read_what_one_has_written(index: PageStore) -> None:
    folder = open_signatures(index, "bits").segments[0].folder
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == (index.path / "pages.lance").stat().st_mode & 0o777


def test_a_full_disk_is_done_without(index: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, shape: tuple[int, int], blocks: Iterable[Multivectors]) -> None:
        next(iter(blocks))
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(colret.signatures, "_write_bits", full)
    signatures = open_signatures(index, "bits")
    assert signatures.segments[0].folder is None
    assert signatures.scan(query(), every(index)) == pytest.approx(expected(index, "bits", query()), abs=0.1)
    assert list((index.path / FOLDER).iterdir()) == []


def test_signatures_that_are_deleted_come_back(index: PageStore) -> None:
    scores = open_signatures(index, "sketch").scan(query(), every(index))
    shutil.rmtree(index.path / FOLDER)
    again = PageStore.open(index.path)
    assert np.array_equal(open_signatures(again, "sketch").scan(query(), every(again)), scores)
    assert list((index.path / FOLDER).iterdir())


def test_a_folder_that_refuses_is_done_without(index: PageStore) -> None:
    (index.path / FOLDER).write_text("in the way")
    signatures = open_signatures(index, "bits")
    assert signatures.segments[0].folder is None
    assert signatures.scan(query(), every(index)) == pytest.approx(expected(index, "bits", query()), abs=0.1)


def test_signatures_of_another_index_are_not_taken_for_its_own(tmp_path: Path) -> None:
    """Row ids count from 0 in every index."""
    one, two = (
        filled(tmp_path / "one"),
        PageStore.create(tmp_path / "two", dataclasses.replace(SETTINGS, created="later")),
    )
    for doc_id in ("b", "a"):
        two.add_pages([encoded(f"other-{doc_id}", number, n) for number, n in enumerate(LENGTHS, start=1)])
        two.put_documents([record(f"other-{doc_id}", len(LENGTHS))])
    scores = open_signatures(two, "bits").scan(query(), every(two))
    open_signatures(one, "bits")
    shutil.rmtree(two.path / FOLDER)
    shutil.copytree(one.path / FOLDER, two.path / FOLDER)
    again = PageStore.open(two.path)
    assert np.array_equal(open_signatures(again, "bits").scan(query(), every(again)), scores)


@pytest.mark.parametrize("name", ["row_ids", "offsets", "bits"])
@pytest.mark.parametrize("damage", [np.arange(3.0), np.array(5), np.array(["a"]), np.array([[1, 2], [3, 4]])])
def test_nonsense_in_a_segment_is_not_used(index: PageStore, name: str, damage: NDArray[np.generic]) -> None:
    intact = open_signatures(index, "bits")
    scores, folder = intact.scan(query(), every(index)), intact.segments[0].folder
    assert folder is not None
    np.save(folder / f"{name}.npy", damage)
    again = PageStore.open(index.path)
    assert np.array_equal(open_signatures(again, "bits").scan(query(), every(again)), scores)


def test_a_file_in_the_way_of_a_segment_is_cleared_away(index: PageStore) -> None:
    folder = open_signatures(index, "bits").segments[0].folder
    assert folder is not None
    shutil.rmtree(folder)
    folder.write_text("in the way")
    again = PageStore.open(index.path)
    assert open_signatures(again, "bits").segments[0].folder is not None
    with again.writing():
        merge_segments(again, "bits")
    assert not folder.exists()


def test_two_that_make_the_same_segment_agree(index: PageStore) -> None:
    """The second finds the first one's folder when it comes to rename its own."""
    real = Signatures.missing
    entered: list[Signatures] = []

    def missing(self: Signatures) -> Int64:
        found = real(self)
        if not entered:
            entered.append(self)
            open_signatures(PageStore.open(index.path), "bits")  # overtakes
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Signatures, "missing", missing)
        signatures = open_signatures(index, "bits")
    assert len(signatures.segments) == 1
    assert [folder.name[:5] for folder in (index.path / FOLDER).iterdir()] == ["bits-"]


def test_progress_counts_the_pages_made(index: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.signatures, "_BLOCK_PAGES", 5)
    seen: list[tuple[int, int]] = []
    open_signatures(index, "bits", on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(5, 12), (10, 12), (12, 12)]
