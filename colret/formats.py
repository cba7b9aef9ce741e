"""The formats of an export: the schema of its rows, and what writes them batch by batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np
import pyarrow as pa

from colret.database import new_table

Format = Literal["parquet", "lancedb", "npy"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
Dtype = Literal["float16", "float32"]
DTYPES: Final[tuple[Dtype, ...]] = get_args(Dtype)

Add = Callable[[pa.Table], None]
Writer = Callable[[Path, pa.Schema, int], AbstractContextManager[Add]]
"""Opens a format for writing: takes the folder, the schema of rows and how many vectors there will be."""


def page_schema(dim: int, dtype: Dtype) -> pa.Schema:
    """Return the schema of a page's row, whose vectors are (P, dim) of ``dtype``."""
    number = pa.float16() if dtype == "float16" else pa.float32()
    return pa.schema(
        [
            pa.field("page_id", pa.string(), nullable=False),
            ("doc_id", pa.string()),
            ("path", pa.string()),  # the first of
            ("paths", pa.list_(pa.string())),
            ("page", pa.int32()),
            ("text", pa.string()),
            ("vectors", pa.list_(pa.list_(number, dim))),
        ]
    )


@contextmanager
def _parquet(folder: Path, schema: pa.Schema, n_vectors: int) -> Iterator[Add]:
    from pyarrow.parquet import ParquetWriter

    repeated = ["doc_id", "path", "paths.list.element"]
    with ParquetWriter(folder / "pages.parquet", schema, use_dictionary=repeated) as writer:
        yield writer.write_table


@contextmanager
def _lancedb(folder: Path, schema: pa.Schema, n_vectors: int) -> Iterator[Add]:
    yield new_table(folder, "pages", schema)


@contextmanager
def _npy(folder: Path, schema: pa.Schema, n_vectors: int) -> Iterator[Add]:
    number = schema.field("vectors").type.value_type
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(number.value_type.to_pandas_dtype()))}
    lengths = [0]
    with (folder / "vectors.npy").open("wb") as vectors, (folder / "pages.jsonl").open("w", encoding="utf-8") as pages:
        shape = (n_vectors, number.list_size)
        np.lib.format.write_array_header_1_0(vectors, header | {"fortran_order": False, "shape": shape})

        def add(rows: pa.Table) -> None:
            column = rows["vectors"].combine_chunks()
            lengths.extend(np.diff(column.offsets.to_numpy()).tolist())
            vectors.write(memoryview(column.values.values.to_numpy()))
            for row in rows.drop_columns("vectors").to_pylist():
                pages.write(json.dumps(row, ensure_ascii=False) + "\n")

        yield add
    np.save(folder / "offsets.npy", np.cumsum(lengths, dtype=np.int64))


WRITTEN: Final = ("pages.parquet", "pages.lance", "vectors.npy", "offsets.npy", "pages.jsonl")
"""What the formats leave in their folder, each some of it."""

WRITERS: Final[dict[Format, Writer]] = {"parquet": _parquet, "lancedb": _lancedb, "npy": _npy}
