"""Documents that are no files: pages of text, and page images out of parquet files."""

from __future__ import annotations

import hashlib
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from colret.errors import DocumentError
from colret.reading import Document, open_document
from colret.types import WHOLE_PAGE, Page, PageRef, Words
from colret_eval.datasets.dataset import DatasetError

_LETTER = (612.0, 792.0)  # points; a page of text has no size, but encoders want one


@dataclass(frozen=True, slots=True)
class TextDocument:
    """Pages that are nothing but text; every word lies anywhere on its page."""

    name: str  # what to call it in messages
    texts: Mapping[int, str]  # page number to text

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of its pages."""
        return sorted(self.texts)

    def read_page(self, number: int, *, ref: PageRef, pixels: int, ocr: bool) -> Page:
        """Return a page whose ``image_hash`` is a digest: equal for equal words, far apart for others.

        Raises:
            DatasetError: An image is asked for (``pixels`` above 0), and there is none.
            IndexError: There is no such page.
        """
        if number not in self.texts:
            raise IndexError(number)
        if pixels > 0:
            raise DatasetError(
                f"{self.name} page {number}", "is text, without an image", "use a model that reads words"
            )
        words = tuple(self.texts[number].split())
        boxes = np.tile(np.array(WHOLE_PAGE, np.uint16), (len(words), 1))  # (W, 4)
        digest = hashlib.sha256(" ".join(words).encode("utf-8", "surrogatepass")).digest()
        image_hash = int.from_bytes(digest[:8], "big", signed=True)
        return Page(ref, *_LETTER, Words(words, boxes), None, image_hash)


class ParquetColumn:
    """A column of images in a parquet file, read a row group at a time.

    Args:
        file: The parquet file.
        column: Its column: structs of ``bytes`` and ``path``, or the bytes alone.
    """

    def __init__(self, file: Path, column: str = "image") -> None:
        self._file = file
        self._column = column
        self._held: tuple[int, list[Any]] = (-1, [])  # the row group read last, and its images

    def image(self, row: int) -> bytes:
        """Return the encoded image in ``row``, from 0.

        Raises:
            DatasetError: There is none, or the file cannot be read.
        """
        group = bisect_right(self._starts, row) - 1
        if self._held[0] != group:
            self._held = group, self._read_group(group)
        value = self._held[1][row - self._starts[group]]
        content = value.get("bytes") if isinstance(value, dict) else value
        if content is None and isinstance(value, dict) and value.get("path"):
            content = self._file_content(value["path"])
        if not isinstance(content, bytes):
            raise DatasetError(self.where(row), f"has no image under {self._column!r}", "add or remove it")
        return content

    def where(self, row: int) -> str:
        """Return what to call ``row``, from 0, in messages, where rows are counted from 1."""
        return f"{self._file} row {row + 1}"

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each row group."""
        import pyarrow.parquet

        metadata = pyarrow.parquet.read_metadata(self._file)
        lengths = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        return [sum(lengths[:group]) for group in range(len(lengths))]

    def _read_group(self, group: int) -> list[Any]:
        import pyarrow
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(self._file) as file:
                values: list[Any] = file.read_row_group(group, columns=[self._column])[self._column].to_pylist()
        except (OSError, pyarrow.ArrowException) as error:
            raise DatasetError(self._file, f"cannot be read ({error})", "download it again") from error
        return values

    def _file_content(self, path: str) -> bytes:
        file = self._file.parent / path
        try:
            return file.read_bytes()
        except OSError as error:
            raise DatasetError(file, f"cannot be read ({error.strerror})", f"{self._file} names it") from error


class ImageRow(NamedTuple):
    """Where a page's image is."""

    column: ParquetColumn
    row: int


@dataclass(frozen=True, slots=True)
class ImageDocument:
    """Pages that are images in parquet files."""

    name: str  # what to call it in messages
    rows: Mapping[int, ImageRow]  # page number to its image

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of its pages."""
        return sorted(self.rows)

    def read_page(self, number: int, *, ref: PageRef, pixels: int, ocr: bool) -> Page:
        """Return a page, decoded as any image file is.

        Raises:
            DatasetError: There is no image, or none that can be decoded.
            IndexError: There is no such page.
        """
        if number not in self.rows:
            raise IndexError(number)
        with self._opened(number) as document:
            return document.read_page(1, ref=ref, pixels=pixels, ocr=ocr)

    def check_page(self, number: int) -> None:
        """Refuse a page whose first bytes are no image's, without decoding it.

        Raises:
            DatasetError: There is no image, or none that can be opened.
        """
        with self._opened(number):
            pass

    @contextmanager
    def _opened(self, number: int) -> Iterator[Document]:
        column, row = self.rows[number]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.png"  # its first bytes, not its name, say what it is
            path.write_bytes(column.image(row))
            try:
                with open_document(path) as document:
                    yield document
            except DocumentError as error:
                problem = f"{error.problem} (page {number} of {self.name!r})"
                raise DatasetError(column.where(row), problem, "replace or remove it") from error
