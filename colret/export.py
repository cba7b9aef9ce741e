"""An index's pages for other engines: Parquet, LanceDB's own multivectors, or NumPy arrays.

What a consumer needs to ask them is written beside them, in ``settings.json``.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

import colret
from colret.database import StaleReadError
from colret.errors import StoreError
from colret.filters import page_mask
from colret.formats import WRITERS, WRITTEN, Dtype, Format, page_schema
from colret.report import Progress
from colret.scoring import float_vectors, normalize_rows
from colret.store import PageStore
from colret.types import Float32, Int64, Multivectors

SETTINGS: Final = "settings.json"
PROJECTION: Final = "projection.npy"
_VERSION = 1  # of what is written

_ABANDONED_SECONDS = 86_400  # after which nobody is writing an export any more
_BATCH_PAGES = 128  # in memory at a time; also the pages of a row group
_PROTOCOL = (
    "Encode a query with colret.encoders.load_encoder(model), whose info.revision must be the revision here, or with "
    "the same model elsewhere and the text in the place of {} in query_template; scale each vector to unit length"
)
_PROJECT = f"; multiply by {PROJECTION}, (encoder_dim, dim), and scale to unit length again"
_SCORE = ". A page scores the sum over the query's vectors of the largest dot product with one of its own (MaxSim)."


class ExportReport(NamedTuple):
    """What an export wrote."""

    n_documents: int
    n_pages: int
    n_vectors: int
    n_bytes: int


def export(
    store: PageStore,
    dest: Path,
    *,
    format: Format = "parquet",
    dtype: Dtype = "float16",
    where: str | None = None,
    docs: Sequence[str] = (),
    force: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> ExportReport:
    """Write the pages of an index, with their vectors decoded to unit length, into a new folder.

    ``parquet`` writes ``pages.parquet``, ``lancedb`` a table ``pages`` that its multivector
    search can ask, both with page_id, doc_id, path, paths, page, text and vectors, which are
    list<fixed_size_list<dtype, d>>. ``npy`` writes ``vectors.npy`` (n, d) and ``offsets.npy``
    (N + 1,) int64, page i owning vectors offsets[i] to offsets[i + 1], and the rest as line i of
    ``pages.jsonl``. Vectors have the encoder's own D dimensions, unless the index keeps fewer.

    Args:
        store: The index.
        dest: The folder, which appears when it is complete.
        format: What is written.
        dtype: Type of the vectors' components.
        where: A condition that pages must satisfy: see ``filters``.
        docs: Documents to write, as for ``filters.page_mask``; by default all.
        force: Replace an earlier export at ``dest``.
        on_progress: Told how far it has come.

    Raises:
        StoreError: If no page is to be written, ``dest`` is taken or has to do with the index, or the
            index is compacted meanwhile.
        FilterError: If ``where`` or ``docs`` cannot be understood.
        OSError: If ``dest`` cannot be written.
    """
    target = Path(os.path.realpath(dest))
    _check_target(target, store.location.folder, force)
    store.refresh()
    places = _chosen(store, where, docs)
    with _replacing(target) as folder:
        try:
            _write(store, places, folder, format, dtype, on_progress)
        except StaleReadError as error:
            raise StoreError(store.location, "was compacted while it was exported", "export again") from error
        n_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    table = store.page_table()
    n_documents = len(np.unique(table.documents[places]))
    return ExportReport(n_documents, len(places), int(table.n_vectors[places].sum()), n_bytes)


def _check_target(target: Path, index: Path | None, force: bool) -> None:
    if index is not None and _overlap(target, Path(os.path.realpath(index))):
        raise StoreError(target, "would mix with the index", "export to a folder of its own")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not _is_export(target):  # not even with --force: these are somebody's files
        raise StoreError(target, "exists, and is not an export of colret's alone", "export to a new folder")
    if not force:
        raise StoreError(target, "there is an export already", "replace it with --force, or export to a new folder")


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _is_export(folder: Path) -> bool:
    """Tell whether a folder holds an export and nothing else."""
    try:
        described = json.loads((folder / SETTINGS).read_bytes())
        names = {entry.name for entry in folder.iterdir()}
    except (OSError, ValueError):
        return False
    return isinstance(described, dict) and "colret_export" in described and names <= {SETTINGS, PROJECTION, *WRITTEN}


def _chosen(store: PageStore, where: str | None, docs: Sequence[str]) -> Int64:
    """Return the places of the pages to write."""
    table = store.page_table()
    if not len(table):
        raise StoreError(store.location, "holds no pages", "add some with: colret ingest FOLDER")
    mask = page_mask(table.as_arrow(), store.documents(), where=where, docs=docs)
    places = np.arange(len(table)) if mask is None else np.flatnonzero(mask)
    if not len(places):
        raise StoreError(store.location, "no page satisfies the condition", "see what there is: colret list")
    return places


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Give a new folder beside ``target`` that takes its place at the end; after a failure nothing is left of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f".{glob.escape(target.name)}.????????.partial"):  # by a process that was killed
        if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    folder, old = (target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.{part}") for part in ("partial", "old"))
    try:
        folder.mkdir()
        yield folder
        if target.exists():
            target.rename(old)
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write(
    store: PageStore,
    places: Int64,
    folder: Path,
    format: Format,
    dtype: Dtype,
    on_progress: Callable[[Progress], None],
) -> None:
    table = store.page_table()
    matrix = store.projection()
    dim = store.settings.stored_dim
    turns_back = matrix is not None and matrix.shape[0] == dim  # a rotation: its transpose undoes it
    schema = page_schema(dim, dtype)
    paths = {record.doc_id: [file.path for file in record.files] for record in store.documents()}
    n_documents = len(np.unique(table.documents[places]))
    progress = Progress(n_documents)
    with WRITERS[format](folder, schema, int(table.n_vectors[places].sum())) as add:
        for start in range(0, len(places), _BATCH_PAGES):
            chunk = places[start : start + _BATCH_PAGES]
            vectors = _unit_vectors(store.vectors(chunk), matrix.T if matrix is not None and turns_back else None)
            add(_rows(store, chunk, vectors, paths, schema))
            progress.n_pages += len(chunk)
            progress.n_documents_read = len(np.unique(table.documents[places[: progress.n_pages]]))
            progress.fraction = progress.n_pages / len(places)
            on_progress(progress)
    projected = matrix is not None and not turns_back
    if matrix is not None and projected:
        np.save(folder / PROJECTION, matrix)
    described: dict[str, object] = {
        "colret_export": _VERSION,
        "format": format,
        "dtype": dtype,
        "n_documents": n_documents,
        "n_pages": len(places),
        "n_vectors": int(table.n_vectors[places].sum()),
    }
    described |= _settings(store, dim, projected)
    (folder / SETTINGS).write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _settings(store: PageStore, dim: int, projected: bool) -> dict[str, object]:
    """Return what made the vectors, and what a consumer has to do to a query."""
    settings = asdict(store.settings)
    names = ("model", "revision", "family", "query_template", "page_tokens", "codec", "pool", "libraries")
    return {
        "dim": dim,
        "encoder_dim": store.settings.dim,
        "projection": PROJECTION if projected else None,
        **{name: settings[name] for name in names},
        "tool_version": colret.__version__,
        "how_to_ask": _PROTOCOL + (_PROJECT if projected else "") + _SCORE,
    }


def _rows(
    store: PageStore, places: Int64, vectors: Multivectors, paths: dict[str, list[str]], schema: pa.Schema
) -> pa.Table:
    details = store.details(store.page_table().row_ids[places].tolist())
    refs = [page.ref for page in details]
    number = schema.field("vectors").type.value_type
    flat = pa.array(vectors.values.reshape(-1).astype(number.value_type.to_pandas_dtype(), copy=False))
    columns = {
        "page_id": [ref.page_id for ref in refs],
        "doc_id": [ref.doc_id for ref in refs],
        "path": [paths[ref.doc_id][0] for ref in refs],
        "paths": [paths[ref.doc_id] for ref in refs],
        "page": [ref.number for ref in refs],
        "text": [page.words.text for page in details],
        "vectors": pa.ListArray.from_arrays(
            pa.array(vectors.offsets, pa.int32()), pa.FixedSizeListArray.from_arrays(flat, type=number)
        ),
    }
    return pa.table(columns, schema=schema)


def _unit_vectors(pages: Multivectors, turn: Float32 | None) -> Multivectors:
    """Return vectors as float32 unit rows, turned where there is a (d, d) matrix to do it."""
    decoded = [float_vectors(pages, i) for i in range(len(pages))]
    return Multivectors.pack([normalize_rows(each if turn is None else each @ turn) for each in decoded])
