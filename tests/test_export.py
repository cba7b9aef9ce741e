"""Export: what is written is what the index holds, other engines rank it alike, and nothing is lost or half-written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import colret.export
from colret.encoders.text import TextEncoder
from colret.errors import FilterError, StoreError
from colret.export import export
from colret.formats import DTYPES, FORMATS, Dtype, Format
from colret.ingest import ingest
from colret.projection import fit, project
from colret.report import Progress
from colret.search import embed, rank
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import Codec, Float32
from colret_cli.main import cli
from tests.conftest import TOPICS, write_pdf
from tests.test_store import DIM, SETTINGS, encoded, record

LENGTHS = {("a", 1): 5, ("a", 2): 1, ("b", 1): 3, ("b", 4): 7, ("c", 1): 2}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> PageStore:
    """Five pages of random vectors in three documents, one of which lies at two paths."""
    store = PageStore.create(tmp_path_factory.mktemp("export") / "index", replace(SETTINGS, codec="float16"))
    store.add_pages([encoded(doc_id, number, n) for (doc_id, number), n in LENGTHS.items()])
    twice = record("a", 2)
    store.put_documents([replace(twice, files=(*twice.files, twice.files[0]._replace(path="/é/copy.pdf")))])
    store.put_documents([record("b", 4, n_blank=2), record("c")])
    return store


def read_parquet(dest: Path) -> tuple[pa.Table, list[Float32]]:
    """Return the rows of an export, and the vectors of each page."""
    return with_vectors(pq.read_table(dest / "pages.parquet"))


def read_lancedb(dest: Path) -> tuple[pa.Table, list[Float32]]:
    """Return the rows of an export, and the vectors of each page."""
    return with_vectors(lancedb.connect(dest).open_table("pages").to_arrow())


def read_npy(dest: Path) -> tuple[pa.Table, list[Float32]]:
    """Return the rows of an export, and the vectors of each page."""
    vectors, offsets = np.load(dest / "vectors.npy", mmap_mode="r"), np.load(dest / "offsets.npy")
    lines = (dest / "pages.jsonl").read_text(encoding="utf-8").splitlines()
    assert offsets.dtype == np.int64
    assert offsets[0] == 0
    assert offsets[-1] == len(vectors)
    rows = pa.Table.from_pylist([json.loads(line) for line in lines])
    return rows, [np.array(vectors[first:last]) for first, last in pairwise(offsets)]


READERS: dict[Format, Callable[[Path], tuple[pa.Table, list[Float32]]]] = {
    "parquet": read_parquet,
    "lancedb": read_lancedb,
    "npy": read_npy,
}


def with_vectors(rows: pa.Table) -> tuple[pa.Table, list[Float32]]:
    """Split off the column of vectors."""
    vectors = [
        np.asarray(page.values.flatten().to_numpy(zero_copy_only=False)).reshape(len(page.values), -1)
        for page in rows["vectors"]
    ]
    return rows.drop_columns("vectors"), vectors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("format", FORMATS)
def test_every_format_holds_the_pages(index: PageStore, tmp_path: Path, format: Format, dtype: Dtype) -> None:
    dest = tmp_path / "new" / "folder"
    report = export(index, dest, format=format, dtype=dtype)
    rows, vectors = READERS[format](dest)
    assert rows.to_pylist() == [
        {
            "page_id": f"{doc_id}:{number}",
            "doc_id": doc_id,
            "path": f"/folder/{doc_id}.pdf",
            "paths": [f"/folder/{doc_id}.pdf"] + ["/é/copy.pdf"] * (doc_id == "a"),
            "page": number,
            "text": f"page {number} 日本",
        }
        for doc_id, number in LENGTHS
    ]
    for page, ((doc_id, number), n_vectors) in zip(vectors, LENGTHS.items(), strict=True):
        assert page.dtype == dtype
        assert page.shape == (n_vectors, DIM)
        assert np.abs(np.linalg.norm(page.astype(np.float64), axis=1) - 1).max() < (
            1e-6 if dtype == "float32" else 2e-3
        )
        assert np.abs(page - encoded(doc_id, number, n_vectors).embedding.vectors).max() < 2e-3
    assert report[:3] == (3, len(LENGTHS), sum(LENGTHS.values()))
    assert report.n_bytes == sum(file.stat().st_size for file in dest.rglob("*") if file.is_file())
    assert os.listdir(tmp_path / "new") == ["folder"]


def test_the_vectors_have_the_type_that_multivector_search_wants(index: PageStore, tmp_path: Path) -> None:
    export(index, tmp_path / "p")
    export(index, tmp_path / "l", format="lancedb", dtype="float32")
    field = pq.read_schema(tmp_path / "p" / "pages.parquet").field("vectors")
    assert field.type == pa.list_(pa.list_(pa.float16(), DIM))
    schema = lancedb.connect(tmp_path / "l").open_table("pages").schema
    assert schema.field("vectors").type == pa.list_(pa.list_(pa.float32(), DIM))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.integers(1, 6), format=st.sampled_from(FORMATS), docs=st.sets(st.sampled_from("abc"), min_size=1))
def test_batches_change_nothing(
    index: PageStore, tmp_path_factory: pytest.TempPathFactory, batch: int, format: Format, docs: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("batches")
    chosen = [f"{doc_id}.pdf" for doc_id in docs]
    export(index, folder / "whole", format=format, docs=chosen)
    shown: list[tuple[int, int, float]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(colret.export, "_BATCH_PAGES", batch)
        note = lambda progress: shown.append((progress.n_documents_read, progress.n_pages, progress.fraction))  # noqa: E731
        export(index, folder / "parts", format=format, docs=chosen, on_progress=note)
    (rows, vectors), (expected_rows, expected) = READERS[format](folder / "parts"), READERS[format](folder / "whole")
    assert rows.to_pylist() == expected_rows.to_pylist()
    assert all(np.array_equal(one, other) for one, other in zip(vectors, expected, strict=True))
    assert shown == sorted(shown)
    assert shown[-1] == (len(docs), len(rows), 1.0)
    if format == "parquet":
        assert pq.ParquetFile(folder / "parts" / "pages.parquet").num_row_groups == -(-len(rows) // batch)


QUESTIONS = [*TOPICS.values(), "bird in the water", "how did revenue develop", "baking", "music", "Mars"]
SENTENCES = [
    *TOPICS.values(),
    "The revenue of the second segment fell in the first quarter of 2022",
    "A kingfisher dives for small fish in clear water",
    "Rye bread is baked longer than wheat bread",
    "A probe left its orbit and landed on the moon",
    "The cello is larger than the violin and is played sitting",
    "Employees may carry over five days of leave",
    "The warranty covers parts and labour for two years",
]


@pytest.mark.parametrize(
    ("codec", "dim", "dtype"),
    [
        ("float16", None, "float16"),
        ("int8", None, "float32"),
        ("binary", None, "float32"),
        ("int4", 96, "float32"),
    ],
)
def test_lancedb_ranks_the_export_as_colret_ranks_the_index(
    tmp_path: Path, embedded: TextEncoder, codec: Codec, dim: int | None, dtype: Dtype
) -> None:
    """What the folder says is all that is used to ask it: query encoding, projection, MaxSim by cosine."""
    (tmp_path / "documents").mkdir()
    for start in range(0, len(SENTENCES), 4):
        write_pdf(tmp_path / "documents" / f"{start}.pdf", *SENTENCES[start : start + 4])
    store = PageStore.create(tmp_path / "index", settings_for(embedded.info, codec, dim=dim))
    ingest([tmp_path / "documents"], store, embedded)
    dest = tmp_path / "out"
    export(store, dest, format="lancedb", dtype=dtype)

    said = json.loads((dest / "settings.json").read_text(encoding="utf-8"))
    assert (said["revision"], said["query_template"]) == (embedded.info.revision, embedded.info.query_template)
    assert (said["projection"] is None) == (dim is None)
    assert said["dim"] == (dim or embedded.info.dim)
    table = lancedb.connect(dest).open_table("pages")
    rows, pages = read_lancedb(dest)
    expected = rank(store, embed(store, embedded, QUESTIONS), k=5, prefilter="none")
    for query, ranking in zip(embedded.encode_queries(QUESTIONS), expected, strict=True):
        vectors = query.vectors if dim is None else project(query.vectors, np.load(dest / said["projection"]))
        search = table.search(vectors, vector_column_name="vectors").distance_type("cosine").limit(5)
        found = search.select(["page_id", "_distance"]).to_arrow()
        best = sorted(((-(vectors @ page.T).max(1).sum(), i) for i, page in enumerate(pages)))[:5]
        assert found["page_id"].to_pylist() == [rows["page_id"][i].as_py() for _, i in best]
        assert len(vectors) - found["_distance"].to_numpy() == pytest.approx([-score for score, _ in best], abs=1e-3)
        if codec != "int4":  # whose vectors have not quite unit length in the index, so that near ties may turn
            assert found["page_id"].to_pylist() == [hit.ref.page_id for hit in ranking.hits]
            assert [-score for score, _ in best] == pytest.approx(
                [hit.maxsim for hit in ranking.hits], abs=0.01 * len(vectors)
            )


def test_a_rotation_is_undone(tmp_path: Path) -> None:
    """Binary codes are signs in rotated dimensions; what is exported lies in the encoder's own."""
    matrix = fit(np.eye(DIM, dtype=np.float32), DIM, balance=True)
    store = PageStore.create(tmp_path / "index", replace(SETTINGS, codec="float16", projected=True))
    store.put_projection(matrix)
    page = encoded("a", 1, 5)
    turned = page.embedding.vectors @ matrix
    store.add_pages([page._replace(embedding=replace(page.embedding, vectors=turned))])
    store.put_documents([record("a")])
    export(store, tmp_path / "out", dtype="float32")
    [vectors] = read_parquet(tmp_path / "out")[1]
    assert np.abs(vectors - page.embedding.vectors).max() < 2e-3
    assert not (tmp_path / "out" / "projection.npy").exists()


def test_a_part_is_exported(index: PageStore, tmp_path: Path) -> None:
    report = export(index, tmp_path / "out", where="page > 1", docs=["a.pdf"])
    assert report[:3] == (1, 1, 1)
    assert read_parquet(tmp_path / "out")[0]["page_id"].to_pylist() == ["a:2"]
    with pytest.raises(StoreError, match="no page satisfies the condition"):
        export(index, tmp_path / "none", where="page > 4")
    with pytest.raises(FilterError):
        export(index, tmp_path / "none", docs=["z.pdf"])
    assert os.listdir(tmp_path) == ["out"]


def test_an_index_without_pages_is_told(tmp_path: Path) -> None:
    store = PageStore.create(tmp_path / "index", SETTINGS)
    with pytest.raises(StoreError, match="holds no pages"):
        export(store, tmp_path / "out")


def test_an_export_is_replaced_only_by_force(index: PageStore, tmp_path: Path) -> None:
    dest = tmp_path / "out"
    export(index, dest, format="lancedb")
    with pytest.raises(StoreError, match="there is an export already; replace it with --force"):
        export(index, dest)
    export(index, dest, force=True)
    assert sorted(os.listdir(dest)) == ["pages.parquet", "settings.json"]
    assert os.listdir(tmp_path) == ["out"]


def test_an_export_that_holds_something_of_the_users_is_not_replaced(index: PageStore, tmp_path: Path) -> None:
    dest = tmp_path / "out"
    export(index, dest)
    (dest / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match="not an export of colret's alone"):
        export(index, dest, force=True)
    assert (dest / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("force", [False, True])
def test_what_is_not_an_export_is_never_replaced(index: PageStore, tmp_path: Path, force: bool) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "settings.json").write_text("[]")
    (tmp_path / "file").write_text("mine")
    for taken in ("letters", "file"):
        with pytest.raises(StoreError, match="exists, and is not an export of colret's"):
            export(index, tmp_path / taken, force=force)
    assert (tmp_path / "file").read_text() == "mine"
    assert (tmp_path / "letters" / "settings.json").read_text() == "[]"


def test_an_empty_folder_is_filled(index: PageStore, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    export(index, tmp_path / "out")
    assert (tmp_path / "out" / "pages.parquet").exists()
    assert os.listdir(tmp_path) == ["out"]


def test_an_export_stays_away_from_the_index(index: PageStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(index.path)
    before = index.info().bytes_on_disk
    for dest in (index.path, index.path / "out", index.path.parent, tmp_path / "link" / "out"):
        with pytest.raises(StoreError, match="would mix with the index"):
            export(index, dest, force=True)
    assert index.info().bytes_on_disk == before


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_interrupted_leaves_nothing(
    index: PageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Format
) -> None:
    monkeypatch.setattr(colret.export, "_BATCH_PAGES", 2)

    def interrupt(progress: Progress) -> None:
        if progress.n_pages == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(index, tmp_path / "out", format=format, on_progress=interrupt)
    assert os.listdir(tmp_path) == []
    export(index, tmp_path / "out", format=format)
    with pytest.raises(KeyboardInterrupt):
        export(index, tmp_path / "out", format=format, force=True, on_progress=interrupt)
    assert os.listdir(tmp_path) == ["out"]
    assert len(READERS[format](tmp_path / "out")[0]) == len(LENGTHS)


def run(*arguments: Any) -> tuple[int, str]:
    """Return the exit code and the output of ``colret`` with ``arguments``."""
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    return result.exit_code, result.output


def test_the_command(index: PageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = run("export", "out", "--index", index.path)
    assert code == 0
    assert output.startswith("out: 3 documents, 5 pages, 18 vectors, ")
    code, output = run("export", "out", "--index", index.path)
    assert code == 1
    assert output.startswith("colret: ")
    assert output.endswith("replace it with --force, or export to a new folder\n")
    arguments = ["--format", "npy", "--dtype", "float32", "--doc", "b.pdf", "--where", "page = 1", "--json"]
    code, output = run("export", "out", "--force", "--index", index.path, *arguments)
    assert code == 0
    shown = json.loads(output)
    assert (shown["dest"], shown["format"], shown["dtype"], shown["n_pages"]) == ("out", "npy", "float32", 1)
    assert np.load("out/vectors.npy").shape == (3, DIM)
    assert run("export", "", "--index", index.path)[0] == 2
    for address in ("s3://bucket/out", "s3:/bucket/out", "file:///out"):
        code, output = run("export", address, "--index", index.path)
        assert (code, f"{address}: an export is a folder of this machine" in output) == (2, True)
        assert not Path(address.partition("/")[0]).exists()
    assert run("export", "new", "--index", index.path, "--where", "pages = 1")[0] == 1
    assert not Path("new").exists()
