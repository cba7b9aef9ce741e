"""The projection of an index: fitted before its first page, kept, and applied to pages and queries alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import colret.fitting
from colret.encoders.text import TextEncoder
from colret.ingest import ingest
from colret.search import explain, rank, search
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import Codec
from tests.conftest import TOPICS, write_pdf


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    for name, text in TOPICS.items():
        write_pdf(folder / f"{name}.pdf", text)
    return folder


@pytest.mark.parametrize(
    ("codec", "dim"), [("int8", 64), ("int4", None), ("int4", 48), ("binary", None), ("float16", 96)]
)
def test_a_small_index_finds_the_same_page(
    tmp_path: Path, embedded: TextEncoder, codec: Codec, dim: int | None
) -> None:
    folder = make_folder(tmp_path / "in")
    store = PageStore.create(tmp_path / "index", settings_for(embedded.info, codec, dim=dim))
    ingest([folder], store, embedded)
    settings = store.settings
    assert store.vectors(np.arange(1)).dim == (dim or embedded.info.dim) == settings.stored_dim
    for name, text in TOPICS.items():
        [ranking] = search(store, embedded, [text], k=1)
        assert ranking.hits[0].score > 0.5
        [query] = embedded.encode_queries([text])
        [explained] = explain(store, query, ranking.hits)
        assert Path(explained.paths[0]).stem == name


def test_the_projection_is_orthonormal_kept_and_never_changed(tmp_path: Path, embedded: TextEncoder) -> None:
    folder = make_folder(tmp_path / "in")
    store = PageStore.create(tmp_path / "index", settings_for(embedded.info, dim=32))
    assert store.projection() is None
    ingest([folder], store, embedded)
    matrix = store.projection()
    assert matrix is not None
    assert matrix.T @ matrix == pytest.approx(np.eye(32), abs=1e-5)
    write_pdf(folder / "more.pdf", "Entirely different words about sailing boats.")
    again = PageStore.open(store.path)
    ingest([folder], again, embedded)
    kept = again.projection()
    assert kept is not None
    assert np.array_equal(kept, matrix)
    vectors = again.vectors(np.arange(again.n_pages()))
    assert vectors.values.shape[1] == 32


def test_an_index_made_twice_is_the_same(tmp_path: Path, embedded: TextEncoder) -> None:
    folder = make_folder(tmp_path / "in")
    stores = [PageStore.create(tmp_path / name, settings_for(embedded.info, dim=40)) for name in ("one", "two")]
    for store in stores:
        ingest([folder], store, embedded)
    one, two = (store.vectors(np.arange(store.n_pages())) for store in stores)
    assert np.array_equal(one.values, two.values)


def test_pooling_leaves_a_vector_in_so_many(tmp_path: Path, embedded: TextEncoder) -> None:
    folder = make_folder(tmp_path / "in")
    plain, pooled = (PageStore.create(tmp_path / f"{p}", settings_for(embedded.info, pool=p)) for p in (1, 3))
    for store in (plain, pooled):
        ingest([folder], store, embedded)
    before, after = (np.diff(store.vectors(np.arange(store.n_pages())).offsets) for store in (plain, pooled))
    assert after.tolist() == [-(-n // 3) for n in before.tolist()]
    [ranking] = rank(pooled, embedded.encode_queries([TOPICS["orbit"]]), k=1)
    assert pooled.paths([ranking.hits[0].ref.doc_id])[ranking.hits[0].ref.doc_id] == [str(folder / "orbit.pdf")]


def test_the_pilot_passes_over_what_cannot_be_read(tmp_path: Path, embedded: TextEncoder) -> None:
    folder = make_folder(tmp_path / "in")
    (folder / "aaa.pdf").write_bytes(b"%PDF-1.7 broken")
    store = PageStore.create(tmp_path / "index", settings_for(embedded.info, dim=16))
    report = ingest([folder], store, embedded)
    assert len(report.skipped) == 1
    assert store.n_pages() == len(TOPICS)


def test_pages_are_spread_evenly() -> None:
    assert colret.fitting._spread(3, 10) == [0, 1, 2]
    assert colret.fitting._spread(10, 4) == [0, 2, 5, 7]


def test_impossible_storage_is_the_callers_mistake(embedded: TextEncoder) -> None:
    for dim in (0, embedded.info.dim + 1):
        with pytest.raises(ValueError, match="dimensions"):
            settings_for(embedded.info, dim=dim)
    with pytest.raises(ValueError, match="pool"):
        settings_for(embedded.info, pool=0)


def test_a_projection_of_another_shape_is_refused(tmp_path: Path, embedded: TextEncoder) -> None:
    store = PageStore.create(tmp_path / "index", settings_for(embedded.info, dim=32))
    with pytest.raises(ValueError, match="384 x 32"):
        store.put_projection(np.eye(32, dtype=np.float32))
