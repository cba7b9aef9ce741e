"""The tables of an index and their rows: the on-disk format, version 3. Arrow only, no database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pyarrow as pa

from colret.bm25 import joined
from colret.codecs import CODECS, encode
from colret.contents import is_contents
from colret.errors import StoreError
from colret.scoring import mean_direction
from colret.terms import page_terms
from colret.types import (
    DocumentFile,
    DocumentRecord,
    EncodedPage,
    Float32,
    IndexSettings,
    PageDetails,
    PageRef,
    SkippedPage,
    Words,
)

FORMAT_VERSION = 3
_TEXTS = ("model", "revision", "family", "query_template", "page_tokens", "tool_version", "created")

SETTINGS_SCHEMA = pa.schema([pa.field("key", pa.string(), nullable=False), ("value_json", pa.string())])
ARRAYS_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        ("shape", pa.list_(pa.int64())),
        ("values", pa.large_binary()),  # float32, row-major
    ]
)
DOCUMENTS_SCHEMA = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        ("files", pa.list_(pa.struct([("path", pa.string()), ("mtime_ns", pa.int64())]))),
        ("size", pa.int64()),
        ("n_pages", pa.int32()),
        ("n_blank", pa.int32()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("message", pa.string()),
        ("tool_version", pa.string()),
        (
            "skipped",
            pa.list_(pa.struct([("number", pa.int32()), ("reason", pa.string()), ("message", pa.string())])),
        ),
    ]
)


def pages_schema(dim: int, codes: pa.Field) -> pa.Schema:
    """Return the schema of ``pages``; ``codes`` is the column of vectors, in the store's own type."""
    # Boxes are small and dense: compressing them costs reads and saves little.
    raw = {"lance-encoding:compression": "none"}
    return pa.schema(
        [
            pa.field("page_id", pa.string(), nullable=False),
            ("doc_id", pa.string()),
            ("number", pa.int32()),
            ("width", pa.float32()),
            ("height", pa.float32()),
            ("n_vectors", pa.int32()),
            ("scale", pa.float32()),
            ("single", pa.list_(pa.float32(), dim)),
            codes,
            pa.field("boxes", pa.large_binary(), metadata=raw),
            ("text", pa.large_string()),
            ("terms", pa.large_string()),  # what BM25 sees: see bm25.joined
            ("text_length", pa.int32()),  # what BM25 takes for the number of words
            ("contents", pa.bool_()),  # whether it is a contents page
            pa.field("word_boxes", pa.large_binary(), metadata=raw),
            ("image_hash", pa.int64()),
        ]
    )


def page_rows(pages: Sequence[EncodedPage], settings: IndexSettings) -> pa.Table:
    """Return the rows of ``pages``, whose vectors have the stored dimension, encoded with the index's codec."""
    stored = [encode(page.embedding.vectors, settings.codec) for page in pages]
    singles = np.concatenate([mean_direction(page.embedding.vectors) for page in pages])  # (n * D,)
    refs = [page.page.ref for page in pages]
    terms = [page_terms(page.page.words.text) for page in pages]
    columns = {
        "page_id": [ref.page_id for ref in refs],
        "doc_id": [ref.doc_id for ref in refs],
        "number": [ref.number for ref in refs],
        "width": [page.page.width for page in pages],
        "height": [page.page.height for page in pages],
        "n_vectors": [len(page.embedding.vectors) for page in pages],
        "scale": [page.scale for page in stored],
        "single": pa.FixedSizeListArray.from_arrays(pa.array(singles), settings.stored_dim),
        "codes": pa.array([page.codes for page in stored], pa.large_binary()),
        "boxes": [page.embedding.boxes.tobytes() for page in pages],
        "text": [page.page.words.text for page in pages],
        "terms": [joined(page.terms) for page in terms],
        "text_length": [page.length for page in terms],
        "contents": [is_contents(page.page.words.texts) for page in pages],
        "word_boxes": [page.page.words.boxes.tobytes() for page in pages],
        "image_hash": [page.page.image_hash for page in pages],
    }
    return pa.table(columns, schema=pages_schema(settings.stored_dim, pa.field("codes", pa.large_binary())))


def page_details(row: dict[str, Any]) -> PageDetails:
    """Return what a row of ``pages`` says besides its vectors."""
    texts = tuple(row["text"].split(" ")) if row["text"] else ()
    return PageDetails(
        ref=PageRef(row["doc_id"], row["number"]),
        width=row["width"],
        height=row["height"],
        words=Words(texts, np.frombuffer(row["word_boxes"], np.uint16).reshape(-1, 4)),
        boxes=np.frombuffer(row["boxes"], np.uint16).reshape(-1, 4),
    )


def document_row(record: DocumentRecord) -> dict[str, Any]:
    """Return the row of ``documents`` that holds ``record``."""
    row = {name: getattr(record, name) for name in DOCUMENTS_SCHEMA.names}
    row["files"] = [file._asdict() for file in record.files]
    row["skipped"] = [page._asdict() for page in record.skipped]
    return row


def document_record(row: dict[str, Any]) -> DocumentRecord:
    """Return the record that a row of ``documents`` holds."""
    files = tuple(DocumentFile(**file) for file in row.pop("files"))
    skipped = tuple(SkippedPage(**page) for page in row.pop("skipped"))
    return DocumentRecord(files=files, skipped=skipped, **row)


def array_rows(name: str, values: Float32) -> pa.Table:
    """Return the row of ``arrays`` that holds an array."""
    row = {"name": name, "shape": list(values.shape), "values": np.ascontiguousarray(values, np.float32).tobytes()}
    return pa.Table.from_pylist([row], schema=ARRAYS_SCHEMA)


def read_array(rows: pa.Table, name: str) -> Float32 | None:
    """Return the array that the rows hold under ``name``; None if there is none."""
    for row in rows.to_pylist():
        if row["name"] == name:
            return np.frombuffer(row["values"], np.float32).reshape(row["shape"])
    return None


def settings_rows(settings: IndexSettings) -> pa.Table:
    """Return the rows of ``settings``: one a key, so that a later format can add keys."""
    rows = [{"key": key, "value_json": json.dumps(value)} for key, value in asdict(settings).items()]
    return pa.Table.from_pylist(rows, schema=SETTINGS_SCHEMA)


def read_settings(index: object, rows: pa.Table) -> IndexSettings:
    """Return the settings that the rows hold; messages call the index as given.

    Raises:
        StoreError: If another format version wrote them, or they are damaged.
    """
    try:
        values = {row["key"]: json.loads(row["value_json"]) for row in rows.to_pylist()}
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(index, "its settings are damaged", "ingest again into a new --index") from error
    version = values.get("format_version")
    if version != FORMAT_VERSION:
        remedy = "ingest again into a new --index, or use the colret that made it"
        raise StoreError(index, f"has format {version}, this colret reads format {FORMAT_VERSION}", remedy)
    known = {field.name for field in fields(IndexSettings)}
    if missing := known - values.keys():
        raise StoreError(index, f"its settings lack {', '.join(sorted(missing))}", "ingest again into a new --index")
    settings = IndexSettings(**{name: values[name] for name in known})
    numbers = (settings.dim, settings.stored_dim, settings.pool)
    valid = settings.codec in CODECS and all(isinstance(number, int) and number > 0 for number in numbers)
    if not (valid and all(isinstance(getattr(settings, name), str) for name in _TEXTS)):
        raise StoreError(index, "its settings are damaged", "ingest again into a new --index")
    return settings
