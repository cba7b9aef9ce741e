"""The index: what is written comes back, and readers see whole documents only."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import shutil
from pathlib import Path

import lancedb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colret.compaction import MANY_FRAGMENTS
from colret.errors import StoreError
from colret.index_folder import TABLES
from colret.schema import FORMAT_VERSION
from colret.scoring import float_vectors, mean_direction, normalize_rows
from colret.shared_segments import FILES
from colret.store import PageStore
from colret.types import (
    DocumentFile,
    DocumentRecord,
    EncodedPage,
    IndexSettings,
    Page,
    PageEmbedding,
    PageRef,
    SkippedPage,
    Words,
)

DIM = 8
SETTINGS = IndexSettings(
    model="test",
    revision="1",
    family="text",
    dim=DIM,
    query_template="{}",
    codec="int8",
    format_version=FORMAT_VERSION,
    tool_version="0",
    created="2026-01-01T00:00:00+00:00",
)


def encoded(doc_id: str, number: int = 1, n_vectors: int = 3) -> EncodedPage:
    """Return a page with random directions, the same for the same arguments."""
    rng = np.random.default_rng([number, n_vectors, *doc_id.encode()])
    vectors = normalize_rows(rng.normal(size=(n_vectors, DIM)).astype(np.float32))
    boxes = rng.integers(0, 65536, (n_vectors, 4)).astype(np.uint16)
    words = Words(("page", f"{number}", "日本"), rng.integers(0, 65536, (3, 4)).astype(np.uint16))
    page = Page(PageRef(doc_id, number), 612.0, 792.0, words, None, -(2**63) + number)
    return EncodedPage(page, PageEmbedding(vectors, boxes))


def record(doc_id: str, n_pages: int = 1, **values: object) -> DocumentRecord:
    """Return the commit record of a document."""
    made = DocumentRecord(
        doc_id=doc_id,
        files=(DocumentFile(f"/folder/{doc_id}.pdf", 17),),
        size=100,
        n_pages=n_pages,
        n_blank=0,
        status="done",
        reason="",
        message="",
        tool_version="0",
    )
    return dataclasses.replace(made, **values)  # type: ignore[arg-type]


def codes(store: PageStore, place: int) -> bytes:
    """Return the stored codes of a page, by its place in the page table."""
    return store.vectors(np.array([place])).values.tobytes()


@pytest.fixture
def index(tmp_path: Path) -> PageStore:
    return PageStore.create(tmp_path / "index", SETTINGS)


def test_a_page_comes_back_as_it_was_written(index: PageStore) -> None:
    pages = [encoded("a", 1, 5), encoded("a", 2, 1)]
    index.add_pages(pages)
    index.put_documents([record("a", 2)])
    reopened = PageStore.open(index.path)
    candidates = reopened.candidates()
    assert [candidate.ref for candidate in candidates] == [PageRef("a", 1), PageRef("a", 2)]
    row_ids = [candidate.row_id for candidate in candidates]
    vectors = reopened.vectors(np.arange(2))
    for i, (page, details) in enumerate(zip(pages, reopened.details(row_ids), strict=True)):
        assert np.abs(float_vectors(vectors, i) - page.embedding.vectors).max() <= vectors.scales[i] / 2 + 1e-7
        assert details.words.texts == page.page.words.texts
        assert np.array_equal(details.words.boxes, page.page.words.boxes)
        assert np.array_equal(details.boxes, page.embedding.boxes)
        assert (details.width, details.height) == (612.0, 792.0)
    assert reopened.settings == SETTINGS


def test_vectors_and_details_come_in_the_order_asked_for(index: PageStore) -> None:
    index.add_pages([encoded("a", number, number) for number in range(1, 8)])
    index.put_documents([record("a", 7)])
    row_ids = [candidate.row_id for candidate in index.candidates()]
    order = [4, 0, 6, 2]
    shuffled = [row_ids[i] for i in order]
    assert np.diff(index.vectors(np.array(order)).offsets).tolist() == [i + 1 for i in order]
    assert [page.ref.number for page in index.details(shuffled)] == [i + 1 for i in order]


def test_documents_come_back_with_all_their_fields(index: PageStore) -> None:
    records = [
        record("a", files=(DocumentFile('/x/it\'s "quoted".pdf', 1), DocumentFile("/x/b.pdf", 2**62))),
        record("b", status="failed", reason="not_a_pdf", message="broken", files=(DocumentFile("/y", 3),)),
        record("c", 9, skipped=(SkippedPage(4, "page_unreadable", "torn"),), files=(DocumentFile("/z", 4),)),
    ]
    index.put_documents(records)
    assert index.documents() == records
    index.put_documents([dataclasses.replace(records[1], message="still broken")])
    assert [each.message for each in index.documents()] == ["", "still broken", ""]


def test_nearest_orders_pages_by_their_mean_direction(index: PageStore) -> None:
    pages = [encoded("a", number, 4) for number in range(1, 30)]
    index.add_pages(pages)
    index.put_documents([record("a", 29)])
    query = normalize_rows(np.random.default_rng(0).normal(size=(1, DIM)).astype(np.float32))[0]
    similarities = [float(mean_direction(page.embedding.vectors) @ query) for page in pages]
    expected = [number + 1 for number in np.argsort(similarities)[::-1][:10]]
    assert [candidate.ref.number for candidate in index.nearest(query, 10)] == expected
    assert len(index.nearest(query, 1000)) == 29


def test_pages_are_invisible_until_their_document_is_committed(index: PageStore) -> None:
    index.add_pages([encoded("done"), encoded("half", 1), encoded("half", 2)])
    index.put_documents([record("done")])
    query = encoded("half").embedding.vectors[0]
    assert [page.ref.doc_id for page in index.candidates()] == ["done"]
    assert [page.ref.doc_id for page in index.nearest(query, 1)] == ["done"]
    assert index.info().n_pages == 1
    index.put_documents([record("half", 2)])
    assert {page.ref.doc_id for page in index.nearest(query, 3)} == {"done", "half"}


def test_a_reader_that_does_not_refresh_sees_one_moment(index: PageStore) -> None:
    index.add_pages([encoded("a")])
    index.put_documents([record("a")])
    reader = PageStore.open(index.path)
    index.add_pages([encoded("b")])
    index.put_documents([record("b")])
    assert len(reader.candidates()) == 1
    reader.refresh()
    assert len(reader.candidates()) == 2


def test_removed_documents_are_gone_with_their_pages(index: PageStore) -> None:
    index.add_pages([encoded("a"), encoded("b"), encoded("it's")])
    index.put_documents([record("a"), record("b"), record("it's")])
    index.remove_documents(["a", "it's"])
    assert [page.ref.doc_id for page in index.candidates()] == ["b"]
    assert [each.doc_id for each in index.documents()] == ["b"]
    assert lancedb.connect(str(index.path)).open_table("pages").count_rows() == 1


def test_orphans_of_a_killed_ingest_are_cleared_away(index: PageStore) -> None:
    index.add_pages([encoded("a"), encoded("dead", 1), encoded("dead", 2)])
    index.put_documents([record("a")])
    assert index.remove_orphans() == 2
    assert index.remove_orphans() == 0
    assert lancedb.connect(str(index.path)).open_table("pages").count_rows() == 1


def test_a_page_without_vectors_is_left_out(index: PageStore) -> None:
    blank = EncodedPage(encoded("a").page, PageEmbedding(np.empty((0, DIM), np.float32), np.empty((0, 4), np.uint16)))
    index.add_pages([blank])
    index.put_documents([record("a", n_blank=1)])
    assert index.candidates() == []
    assert index.info().n_blank == 1


def test_many_small_commits_are_merged_and_nothing_is_lost(index: PageStore) -> None:
    n_pages = MANY_FRAGMENTS + 1
    for number in range(1, n_pages + 1):
        index.add_pages([encoded("a", number)])
    index.put_documents([record("a", n_pages)])
    reader = PageStore.open(index.path)
    before = [(page.ref, codes(index, place)) for place, page in enumerate(index.candidates())]
    size = index.info().bytes_on_disk
    index.compact()
    assert index.info().bytes_on_disk < size
    assert [(page.ref, codes(index, place)) for place, page in enumerate(index.candidates())] == before
    reader.refresh()
    assert len(reader.candidates()) == n_pages


def test_info_counts_what_is_there(index: PageStore) -> None:
    index.add_pages([encoded("a", 1, 4), encoded("a", 2, 6)])
    skipped = (SkippedPage(3, "page_unreadable", "torn"),)
    index.put_documents([record("a", 3, skipped=skipped), record("b", status="failed", reason="no_pages")])
    info = index.info()
    assert (info.n_documents, info.n_failed, info.n_pages, info.n_vectors) == (1, 1, 2, 10)
    assert info.n_skipped_pages == 1
    assert info.bytes_on_disk == sum(file.stat().st_size for file in index.path.rglob("*") if file.is_file())


def test_paths_names_every_holder(index: PageStore) -> None:
    index.put_documents([record("a", files=(DocumentFile("/1", 1), DocumentFile("/2", 2))), record("b")])
    assert index.paths(["a", "b", "a"]) == {"a": ["/1", "/2"], "b": ["/folder/b.pdf"]}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1), max_size=5))
def test_any_words_come_back(tmp_path_factory: pytest.TempPathFactory, text: list[str]) -> None:
    index = PageStore.create(tmp_path_factory.mktemp("words") / "index", SETTINGS)
    page = encoded("a")
    words = Words(tuple(text), np.zeros((len(text), 4), np.uint16))
    index.add_pages([EncodedPage(dataclasses.replace(page.page, words=words), page.embedding)])
    index.put_documents([record("a")])
    assert index.details([index.candidates()[0].row_id])[0].words.texts == words.texts


# What is refused


def test_a_missing_index_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no index here; make one with: colret ingest"):
        PageStore.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_folder_that_is_no_index_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(StoreError, match="not a finished colret index"):
        PageStore.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_an_index_is_not_made_twice(index: PageStore) -> None:
    with pytest.raises(StoreError, match="there is an index already"):
        PageStore.create(index.path, SETTINGS)


def test_an_index_whose_making_was_interrupted_is_made_anew(index: PageStore) -> None:
    lancedb.connect(str(index.path)).drop_table("settings")
    assert not PageStore.exists(index.path)
    with pytest.raises(StoreError, match="not a finished colret index"):
        PageStore.open(index.path)
    again = PageStore.create(index.path, SETTINGS)
    assert PageStore.exists(index.path)
    assert again.candidates() == []


def test_another_format_is_refused(index: PageStore) -> None:
    table = lancedb.connect(str(index.path)).open_table("settings")
    table.update(where="key = 'format_version'", values={"value_json": json.dumps(99)})
    with pytest.raises(StoreError, match="has format 99, this colret reads format"):
        PageStore.open(index.path)


def test_a_damaged_index_is_one_line(index: PageStore) -> None:
    index.add_pages([encoded("a")])
    index.put_documents([record("a")])
    for file in (index.path / "documents.lance" / "data").iterdir():
        file.write_bytes(b"")
    with pytest.raises(StoreError, match="LanceDB: ") as caught:
        PageStore.open(index.path).documents()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def _write_meanwhile(path: Path, outcome: multiprocessing.Queue[str]) -> None:
    try:
        with PageStore.open(path).writing():
            outcome.put("wrote")
    except StoreError as error:
        outcome.put(error.problem)


def test_a_second_writer_is_refused_until_the_first_is_done(index: PageStore) -> None:
    context = multiprocessing.get_context("spawn")
    outcome = context.Queue()
    with index.writing():
        other = context.Process(target=_write_meanwhile, args=(index.path, outcome))
        other.start()
        assert outcome.get(timeout=60) == "another colret is writing to it"
        other.join()
    other = context.Process(target=_write_meanwhile, args=(index.path, outcome))
    other.start()
    assert outcome.get(timeout=60) == "wrote"
    other.join()


# Somebody else's tables, races and interruptions at the making


def test_tables_of_another_program_are_left_alone(tmp_path: Path) -> None:
    database = lancedb.connect(str(tmp_path))
    database.create_table("documents", data=[{"title": "mine"}])
    with pytest.raises(StoreError, match="holds a table that is not colret's: documents; choose another --index"):
        PageStore.create(tmp_path, SETTINGS)
    database.create_table("settings", data=[{"title": "mine too"}])
    for refused in (PageStore.exists, PageStore.open):
        with pytest.raises(StoreError, match="its settings are damaged, or another program's; name another --index"):
            refused(tmp_path)
    assert database.open_table("documents").count_rows() == 1


@pytest.mark.parametrize(
    "name",
    ["signatures/will.pdf", "signatures/bits-2024/will.pdf", "pages.lance/note.txt", "documents.lance/data/thesis.pdf"],
)
def test_what_others_keep_under_names_of_ours_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(StoreError, match=f"holds other things, such as {name}; name a new or empty folder"):
        PageStore.create(tmp_path, SETTINGS)
    assert (tmp_path / name).read_text() == "mine"


def test_a_link_under_a_name_of_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "signatures").symlink_to(tmp_path / "mine")
    with pytest.raises(StoreError, match="holds other things, such as signatures"):
        PageStore.create(tmp_path / "index", SETTINGS)
    assert (tmp_path / "index" / "signatures").is_symlink()


def test_an_index_whose_tables_were_deleted_is_made_anew(index: PageStore) -> None:
    segment = index.path / "signatures" / f"bits-{'0' * 16}"
    segment.mkdir(parents=True)
    for name in FILES:
        (segment / name).write_bytes(b"x")
    for table in TABLES:
        shutil.rmtree(index.path / table)
    assert PageStore.create(index.path, SETTINGS).candidates() == []
    assert not segment.exists()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
def test_a_manifest_that_was_not_written_whole_is_told(index: PageStore, table: str, byte: bytes) -> None:
    index.add_pages([encoded("a")])
    index.put_documents([record("a")])
    manifest = min((index.path / table / "_versions").glob("*.manifest"))
    manifest.write_bytes(byte * manifest.stat().st_size)
    for refused in (PageStore.exists, PageStore.open):
        with pytest.raises(StoreError, match=f"is damaged: {table}/_versions/{manifest.name} is no manifest; ingest"):
            refused(index.path)


@pytest.mark.parametrize("table", TABLES)
def test_a_manifest_of_nothing_is_told_by_what_the_table_lacks(index: PageStore, table: str) -> None:
    manifest = min((index.path / table / "_versions").glob("*.manifest"))
    manifest.write_bytes(bytes(manifest.stat().st_size - 4) + b"LANC")
    with pytest.raises(StoreError, match="damaged"):
        PageStore.open(index.path)


def test_a_panic_in_lancedb_is_one_line(index: PageStore) -> None:
    index.add_pages([encoded("a")])
    index.put_documents([record("a")])
    manifest = min((index.path / "documents.lance" / "_versions").glob("*.manifest"))
    newer = manifest.with_name(f"{int(manifest.stem) - 1:020}.manifest")
    newer.write_bytes(b"\xff" * manifest.stat().st_size)  # beside an index that is open
    with pytest.raises(StoreError, match="LanceDB: ") as caught:
        index.refresh()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["{", "[" * 100_000])
def test_settings_that_are_no_json_are_told(index: PageStore, value: str) -> None:
    table = lancedb.connect(str(index.path)).open_table("settings")
    table.update(where="key = 'model'", values={"value_json": value})
    with pytest.raises(StoreError, match="its settings are damaged"):
        PageStore.open(index.path)


def test_a_name_that_is_not_utf_8_is_told_and_nothing_made(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"n\xe9w")
    with pytest.raises(StoreError, match="its path is not UTF-8, as LanceDB wants it; name another --index"):
        PageStore.create(path, SETTINGS)
    assert not list(tmp_path.iterdir())


def test_an_index_that_died_at_its_last_table_is_made_anew(index: PageStore) -> None:
    settings_table = index.path / "settings.lance"
    for file in sorted(settings_table.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert not PageStore.exists(index.path)
    assert PageStore.create(index.path, SETTINGS).candidates() == []
    assert PageStore.exists(index.path)


def _make(path: Path, outcome: multiprocessing.Queue[str]) -> None:
    try:
        PageStore.create(path, SETTINGS)
        outcome.put("made")
    except StoreError as error:
        outcome.put(error.problem)


def test_of_many_that_make_an_index_one_succeeds(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    outcome = context.Queue()
    makers = [context.Process(target=_make, args=(tmp_path / "index", outcome)) for _ in range(3)]
    for maker in makers:
        maker.start()
    outcomes = sorted(outcome.get(timeout=60) for _ in makers)
    for maker in makers:
        maker.join()
    assert outcomes.count("made") == 1
    assert set(outcomes) <= {"made", "another colret is writing to it", "there is an index already"}
    assert PageStore.open(tmp_path / "index").candidates() == []


def test_a_lock_that_cannot_be_made_is_one_line(index: PageStore) -> None:
    (index.path / "writer.lock").unlink()
    (index.path / "writer.lock").mkdir()
    with pytest.raises(StoreError, match="check space and permissions"), index.writing():
        pass


def test_deleted_pages_are_freed(index: PageStore) -> None:
    index.add_pages([encoded("a", number, 50_000) for number in range(1, 21)])
    index.put_documents([record("a", 20)])
    size = index.info().bytes_on_disk
    index.remove_documents(["a"])
    index.compact()
    assert index.info().bytes_on_disk < size / 2


def test_equal_distances_are_ordered_by_page(index: PageStore) -> None:
    page = encoded("zz")
    for doc_id in ("zz", "mm", "aa", "kk"):
        index.add_pages([page._replace(page=encoded(doc_id).page)])
    index.put_documents([record(doc_id) for doc_id in ("zz", "mm", "aa", "kk")])
    nearest = index.nearest(page.embedding.vectors[0], 4)
    assert [candidate.ref.doc_id for candidate in nearest] == ["aa", "kk", "mm", "zz"]


def test_writing_begins_with_what_others_committed(index: PageStore) -> None:
    other = PageStore.open(index.path)
    index.add_pages([encoded("a")])
    index.put_documents([record("a")])
    with other.writing():
        assert [each.doc_id for each in other.documents()] == ["a"]
        assert other.n_pages() == len(other.candidates()) == 1
