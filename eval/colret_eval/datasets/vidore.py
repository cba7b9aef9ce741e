"""ViDoRe's layouts, in parquet files as the hub has them: pages are images.

Version 1 has one table: a row is a page, with a question about it or without. Versions 2 and 3 have
three, ``corpus``, ``queries`` and ``qrels``, as files or folders of that name. Faysse et al.,
"ColPali: Efficient Document Retrieval with Vision Language Models" (ICLR 2025); Macé, Loison and
Faysse, "ViDoRe Benchmark V2: Raising the Bar for Visual Retrieval" (2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from colret_eval.datasets.contents import Contents, Label, Query, whole_number
from colret_eval.datasets.dataset import DatasetError
from colret_eval.datasets.pages import ImageDocument, ImageRow, ParquetColumn

TABLES = ("corpus", "queries", "qrels")

# Names of a column over the versions, and in mteb's copies, the first that is there being taken.
_QUERY_ID = ("query-id", "query_id", "_id", "id")
_CORPUS_ID = ("corpus-id", "corpus_id", "_id", "id")
_QUERY = ("query", "text")
_SCORE = ("score",)
_DOCUMENT = ("doc-id", "doc_id", "docid")
_NUMBER = ("page_number_in_doc",)
_IMAGE_NAME = ("image_filename",)


class _Row(NamedTuple):
    file: Path
    number: int  # from 0, in its file
    values: dict[str, Any]

    @property
    def where(self) -> str:
        return f"{self.file} row {self.number + 1}"

    def get(self, names: Sequence[str]) -> str:
        """Return the first column of ``names`` that is there, as text; "" where it is null."""
        value = next((self.values[name] for name in names if name in self.values), None)
        return "" if value is None else str(value)


def read(folder: Path) -> Contents:
    """Return what the parquet files below ``folder`` say.

    A question that several rows of version 1 ask in the same words is one query with several pages,
    as in the benchmark's own conversion to version 2.

    Raises:
        DatasetError: A file cannot be read, or has not the columns of any version.
    """
    files = _files(folder)
    tables = {name: [file for file in files if _is_of(file.relative_to(folder), name)] for name in TABLES}
    contents = Contents(folder.resolve().name, folder, "the corpus")
    if all(tables.values()):
        _read_tables(contents, tables)
    elif not any(tables.values()):
        _read_questions(contents, files)
    else:
        missing = " and ".join(name for name in TABLES if not tables[name])
        raise DatasetError(folder, f"has no parquet file for {missing}", "download the whole set")
    return contents


def _files(folder: Path) -> list[Path]:
    """Return the parquet files, those of the test split alone where there are any."""
    files = sorted(folder.rglob("*.parquet"))
    test = [file for file in files if file.name.startswith("test") or file.parent.name == "test"]
    return test or files


def _is_of(path: Path, table: str) -> bool:
    return any(part.partition(".")[0].partition("-")[0] == table for part in path.parts)


def _read_questions(contents: Contents, files: Sequence[Path]) -> None:
    """Read version 1."""
    images = {file: ParquetColumn(file) for file in files}
    rows: dict[str, dict[int, ImageRow]] = {}
    for row in _rows(files, [_QUERY, ("image",)], optional=[_IMAGE_NAME]):
        name = row.get(_IMAGE_NAME) or f"{row.file.stem}-{row.number + 1}"
        rows.setdefault(name, {1: ImageRow(images[row.file], row.number)})
        text = row.get(_QUERY)
        if text.strip():
            contents.queries.append(Query(text, text, row.where))
            contents.labels.append(Label(text, name, 1, 1, row.where))
    ids = {text: f"q{i}" for i, text in enumerate(dict.fromkeys(query.text for query in contents.queries))}
    contents.queries = [query._replace(query_id=ids[query.text]) for query in contents.queries]
    contents.labels = [label._replace(query_id=ids[label.query_id]) for label in contents.labels]
    contents.page_documents.update({name: ImageDocument(name, pages) for name, pages in rows.items()})


def _read_tables(contents: Contents, tables: dict[str, list[Path]]) -> None:
    """Read version 2 or 3."""
    places = _read_corpus(contents, tables["corpus"])
    for row in _rows(tables["queries"], [_QUERY_ID, _QUERY]):
        with contents.noting_faults():
            query_id, text = row.get(_QUERY_ID), row.get(_QUERY)
            if not query_id or not text.strip():
                raise DatasetError(row.where, "has no query or no id", "add or remove it")
            contents.queries.append(Query(query_id, text, row.where))
    for row in _rows(tables["qrels"], [_QUERY_ID, _CORPUS_ID, _SCORE]):
        with contents.noting_faults():
            corpus_id = row.get(_CORPUS_ID)
            if corpus_id not in places:
                raise DatasetError(row.where, f"names page {corpus_id!r}, which is not in the corpus", "correct it")
            grade = whole_number(row.where, row.get(_SCORE), "score")
            contents.labels.append(Label(row.get(_QUERY_ID), *places[corpus_id], grade, row.where))


def _read_corpus(contents: Contents, files: Sequence[Path]) -> dict[str, tuple[str, int]]:
    """Note the pages of the corpus; return document and page number by the id of the corpus."""
    images = {file: ParquetColumn(file) for file in files}
    by_document: dict[str, list[_Row]] = {}
    for row in _rows(files, [_CORPUS_ID, ("image",)], optional=[_DOCUMENT, _NUMBER]):
        by_document.setdefault(row.get(_DOCUMENT) or row.get(_CORPUS_ID), []).append(row)
    places: dict[str, tuple[str, int]] = {}
    for name, rows in by_document.items():
        numbers = _page_numbers([row.get(_NUMBER) for row in rows])
        for number, row in zip(numbers, rows, strict=True):
            if row.get(_CORPUS_ID) in places:
                raise DatasetError(row.where, f"id {row.get(_CORPUS_ID)!r} is taken", "give each page its own id")
            places[row.get(_CORPUS_ID)] = name, number
        pages = {number: ImageRow(images[row.file], row.number) for number, row in zip(numbers, rows, strict=True)}
        contents.page_documents[name] = ImageDocument(name, pages)
    return places


def _page_numbers(stated: Sequence[str]) -> list[int]:
    """Return a document's page numbers from 1: those stated, if each has its own, else the order of its rows."""
    if all(number.isdecimal() for number in stated) and len({*map(int, stated)}) == len(stated):
        from_zero = min(map(int, stated)) == 0
        return [int(number) + from_zero for number in stated]
    return list(range(1, len(stated) + 1))


def _rows(
    files: Sequence[Path], columns: Sequence[Sequence[str]], *, optional: Sequence[Sequence[str]] = ()
) -> Iterator[_Row]:
    """Yield the rows of a table; of its images only whether they are there, since they are large."""
    import pyarrow
    import pyarrow.parquet

    for file in files:
        try:
            names = pyarrow.parquet.read_schema(file).names
            for alternatives in columns:
                if not {*alternatives} & {*names}:
                    expected = " or ".join(map(repr, alternatives))
                    raise DatasetError(file, f"has no column {expected}", "see docs/datasets.md for the layouts")
            wanted = {name for alternatives in (*columns, *optional) for name in alternatives} - {"image"}
            table = pyarrow.parquet.read_table(file, columns=[name for name in names if name in wanted])
        except (OSError, pyarrow.ArrowException) as error:
            raise DatasetError(file, f"cannot be read ({error})", "download it again") from error
        for index, values in enumerate(table.to_pylist()):
            yield _Row(file, index, values)
