"""Filters: conditions against a loop over pages and paths, documents by path, glob and id, hostile input."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colret.documents import document_id
from colret.errors import FilterError
from colret.filters import COLUMNS, page_mask
from colret.types import DocumentFile, DocumentRecord

ROOT = Path(__file__).parent.parent
SECOND = 10**9  # nanoseconds
NEW_YEAR = int(datetime(2023, 1, 1, tzinfo=UTC).timestamp()) * SECOND


def document(doc_id: str, *files: tuple[str, int], n_pages: int = 3, size: int = 100, **values: Any) -> DocumentRecord:
    """Return the record of a document that lies at ``files``: pairs of a path and an mtime_ns."""
    state: dict[str, Any] = {"status": "done", "reason": "", "message": "", "tool_version": "0", "n_blank": 0} | values
    held = tuple(DocumentFile(path, mtime_ns) for path, mtime_ns in files)
    return DocumentRecord(doc_id=doc_id, files=held, size=size, n_pages=n_pages, **state)


def table(*pages: tuple[str, int, int]) -> pa.Table:
    """Return the table of pages, each given as doc_id, number and n_vectors."""
    names = ("doc_id", "number", "n_vectors")
    schema = pa.schema([("doc_id", pa.string()), ("number", pa.int32()), ("n_vectors", pa.int32())])
    return pa.Table.from_pylist([dict(zip(names, page, strict=True)) for page in pages], schema=schema)


FIRST, SECOND_ID, THIRD = "0123456789abcdef" * 2, "01234567ffffffff" * 2, "f" * 32
DOCUMENTS = [
    document(FIRST, ("/reports/2022/Annual.pdf", NEW_YEAR - SECOND), ("/copies/annual 2022.pdf", NEW_YEAR + SECOND)),
    document(SECOND_ID, ("/reports/2023/it's [final].pdf", NEW_YEAR + SECOND), size=2_000_000),
    document(THIRD, ("/reports/scan_1.png", NEW_YEAR), n_pages=1),
]
PAGES = table((FIRST, 1, 10), (FIRST, 2, 300), (SECOND_ID, 1, 20), (SECOND_ID, 3, 30), (THIRD, 1, 40))


def passing(where: str | None = None, docs: Sequence[str] = ()) -> list[int]:
    """Return the rows of ``PAGES`` that pass."""
    mask = page_mask(PAGES, DOCUMENTS, where=where, docs=docs)
    assert mask is not None
    assert mask.dtype == bool
    assert mask.shape == (len(PAGES),)
    return np.flatnonzero(mask).tolist()


def test_nothing_filters_nothing() -> None:
    assert page_mask(PAGES, DOCUMENTS) is None


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("path LIKE '%2023%'", [2, 3]),
        ("path LIKE '%annual%'", [0, 1]),  # of its two paths one has it in lower case
        ("path LIKE '%Scan%'", []),
        ("path ILIKE '%SCAN%'", [4]),
        ("path LIKE '%scan\\_1%'", [4]),
        ("file = 'it''s [final].pdf'", [2, 3]),
        ("folder = '/reports'", [4]),
        ("regexp_like(file, '^[a-z]+_[0-9]')", [4]),
        ("doc_id LIKE '01234567%' AND page = 1", [0, 2]),
        ("page > 1", [1, 3]),
        ("page = n_pages", [3, 4]),
        ("n_vectors BETWEEN 20 AND 40", [2, 3, 4]),
        ("size >= 1000000", [2, 3]),
        ("modified < timestamp '2023-01-01'", [0, 1]),
        ("modified >= date '2023-01-01'", [0, 1, 2, 3, 4]),
        ("date_part('year', modified) = 2022", [0, 1]),
        ("PAGE = 2 -- the second", [1]),
        ("page = 2\n", [1]),
        ("true", [0, 1, 2, 3, 4]),
        ("page = NULL", []),
    ],
)
def test_conditions(where: str, expected: list[int]) -> None:
    assert passing(where) == expected


def test_a_condition_holds_for_one_path_not_for_a_mixture_of_several() -> None:
    assert passing("folder = '/copies' AND file = 'annual 2022.pdf'") == [0, 1]
    assert passing("folder = '/copies' AND file = 'Annual.pdf'") == []


Row = dict[str, Any]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
}
PATHS = st.tuples(st.sampled_from(["/a", "/b/c", "/é"]), st.sampled_from(["x.pdf", "it's.pdf", "日本.png"]))


@st.composite
def corpora(draw: st.DrawFn) -> tuple[pa.Table, list[DocumentRecord]]:
    """Draw documents with up to three paths each, and pages in any order, some of them nobody's."""
    documents = [
        document(
            f"{i:032x}",
            *[("/".join(draw(PATHS)), draw(st.integers(-3, 3)) * SECOND) for _ in range(draw(st.integers(0, 3)))],
            n_pages=draw(st.integers(1, 4)),
            size=draw(st.integers(0, 3)),
        )
        for i in range(draw(st.integers(0, 4)))
    ]
    ids = [f"{i:032x}" for i in range(len(documents) + 1)]
    pages = draw(st.lists(st.tuples(st.sampled_from(ids), st.integers(1, 4), st.integers(1, 4)), max_size=12))
    return table(*pages), documents


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, Callable[[Row], bool]]:
    """Draw a condition as SQL, and the same as a function of one row."""
    match draw(st.sampled_from(["number", "text", "time", "not", "and", "or"])):
        case "number":
            column = draw(st.sampled_from(["page", "n_pages", "n_vectors", "size"]))
            sign, value = draw(st.sampled_from(sorted(OPERATORS))), draw(st.integers(0, 4))
            return f"{column} {sign} {value}", lambda row: OPERATORS[sign](row[column], value)
        case "text":
            column = draw(st.sampled_from(["path", "file", "folder", "doc_id"]))
            sign, folder_name = draw(st.sampled_from(sorted(OPERATORS))), draw(PATHS)
            text = draw(st.sampled_from(["/".join(folder_name), *folder_name, f"{1:032x}"]))
            quoted = text.replace("'", "''")
            return f"{column} {sign} '{quoted}'", lambda row: OPERATORS[sign](row[column], text)
        case "time":
            sign, seconds = draw(st.sampled_from(sorted(OPERATORS))), draw(st.integers(-3, 3))
            time = datetime.fromtimestamp(seconds, UTC)
            sql = f"modified {sign} timestamp '{time:%Y-%m-%dT%H:%M:%SZ}'"
            return sql, lambda row: OPERATORS[sign](row["modified"], time)
        case "not":
            sql, function = draw(conditions())
            return f"NOT ({sql})", lambda row: not function(row)
        case "and":
            (left, one), (right, other) = draw(conditions()), draw(conditions())
            return f"({left}) AND ({right})", lambda row: one(row) and other(row)
        case _:
            (left, one), (right, other) = draw(conditions()), draw(conditions())
            return f"({left}) OR ({right})", lambda row: one(row) or other(row)


def naive_rows(page: Row, documents: Sequence[DocumentRecord]) -> list[Row]:
    """Return the rows of one page: one for each path of its document."""
    return [
        {
            "path": file.path,
            "file": os.path.basename(file.path),
            "folder": os.path.dirname(file.path),
            "doc_id": page["doc_id"],
            "page": page["number"],
            "n_pages": record.n_pages,
            "n_vectors": page["n_vectors"],
            "size": record.size,
            "modified": datetime.fromtimestamp(file.mtime_ns / SECOND, UTC),
        }
        for record in documents
        if record.doc_id == page["doc_id"]
        for file in record.files
    ]


@settings(max_examples=80, deadline=None)
@given(corpus=corpora(), condition=conditions().filter(lambda drawn: len(drawn[0]) <= 1_000))  # what is accepted
def test_a_condition_is_the_naive_loop(
    corpus: tuple[pa.Table, list[DocumentRecord]], condition: tuple[str, Callable[[Row], bool]]
) -> None:
    (pages, documents), (sql, function) = corpus, condition
    mask = page_mask(pages, documents, where=sql)
    assert mask is not None
    assert mask.tolist() == [any(map(function, naive_rows(page, documents))) for page in pages.to_pylist()]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/reports/scan_1.png", [4]),
        ("/reports", [2, 3, 4, 0, 1]),
        ("/reports/2022/", [0, 1]),
        ("//reports/2022", [0, 1]),  # POSIX lets it be another root; nowhere is it one
        ("/reports/../copies/annual 2022.pdf", [0, 1]),
        ("scan_1.png", [4]),
        ("*.PNG", []),
        ("*.png", [4]),
        ("*2023*", [2, 3]),  # the separator is a character like any other
        ("/reports/*", [0, 1, 2, 3, 4]),
        ("*/20??/*", [0, 1, 2, 3]),
        ("/reports/2023/it's [final].pdf", [2, 3]),  # a path first, so that brackets can be in one
        ("*/it's [[]final].pdf", [2, 3]),
        ("[as]*", [0, 1, 4]),
        (FIRST, [0, 1]),
        (FIRST[:8], [0, 1, 2, 3]),
        (FIRST[:12], [0, 1]),
        (FIRST[:7], []),
        ("2022", []),
        ("", []),
        (" ", []),
        ("[", []),
    ],
)
def test_documents(target: str, expected: list[int]) -> None:
    if expected:
        assert passing(docs=[target]) == sorted(expected)
    else:
        with pytest.raises(FilterError, match="names no document of the index; see: colret list"):
            passing(docs=[target])


def test_documents_are_named_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "[a-c]*"
    here.mkdir()
    documents = [document("a", (str(here / "one.pdf"), 0)), document("b", (str(here / "sub" / "two.pdf"), 0))]
    pages = table(("a", 1, 1), ("b", 1, 1))
    monkeypatch.chdir(here)
    for target, expected in [("one.pdf", [1, 0]), ("./sub/t*.pdf", [0, 1]), ("sub", [0, 1]), (".", [1, 1])]:
        mask = page_mask(pages, documents, docs=[target])
        assert mask is not None
        assert mask.tolist() == expected
    (here / "sub").mkdir()
    monkeypatch.chdir(here / "sub")
    mask = page_mask(pages, documents, docs=["../o*"])
    assert mask is not None
    assert mask.tolist() == [1, 0]


def test_any_of_the_documents_and_the_condition_as_well() -> None:
    assert passing(docs=["scan_1.png", "*2023*"]) == [2, 3, 4]
    assert passing("page = 1", docs=["scan_1.png", "*2023*"]) == [2, 4]


def test_one_unknown_document_among_several_is_told() -> None:
    with pytest.raises(FilterError, match=r"nothing\.pdf: names no document"):
        passing(docs=["scan_1.png", "nothing.pdf"])


def test_a_document_that_could_not_be_read_has_no_pages() -> None:
    broken = document("b", ("/broken.pdf", 0), status="failed", reason="not_a_pdf")
    with pytest.raises(FilterError, match="only documents that could not be read; see: colret list --failed"):
        page_mask(PAGES, [*DOCUMENTS, broken], docs=["broken.pdf"])
    mask = page_mask(PAGES, [*DOCUMENTS, broken], docs=["*"])
    assert mask is not None
    assert mask.all()


@settings(max_examples=100, deadline=None)
@given(pattern=st.text("ab*?[]!.", min_size=1, max_size=6))
def test_a_glob_is_the_naive_loop(pattern: str) -> None:
    names = ["a", "ab", "b.b", "a[b]", "ba!", "a*"]
    documents = [document(str(i), (f"/elsewhere/{name}", 0)) for i, name in enumerate(names)]
    expected = [
        fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(f"/elsewhere/{name}", pattern) for name in names
    ]
    pages = table(*[(str(i), 1, 1) for i in range(len(names))])
    if pattern.strip(".") == "" and not any(expected):  # a folder above, or nothing at all
        return
    try:
        mask = page_mask(pages, documents, docs=[pattern])
    except FilterError:
        assert not any(expected)
    else:
        assert mask is not None
        assert mask.tolist() == expected


HOSTILE = [
    "'; DROP TABLE rows; --",
    "1=1; DROP TABLE rows",
    "page IN (SELECT number FROM pages)",
    "EXISTS (SELECT 1)",
    "page = (SELECT 1)",
    "read_csv('/etc/passwd') IS NULL",
    "COPY rows TO 'stolen.parquet'",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'stolen.csv'",
    "repeat(path, 1000000000) = 'x'",
    "page / 0 = 1",
    "cast(path AS int) = 1",
    "sleep(1)",
    "nosuch = 1",
    "path",
    "page = ",
    "page = '1'",
    "modified > '2023-01-01'",
    "",
    " ",
    "\0",
    "\ud800",
    "\x1b[2J",
    "(" * 400,
    "1" + "+1" * 450 + " = 'x'",
    "page = 1" + " OR page = 1" * 10_000,
]


@pytest.mark.parametrize("where", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_condition_is_told_in_one_line_and_does_nothing(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FilterError) as caught:
        passing(where)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 600
    for internal in (".rs:", "Utf8", "lance", "sql parser", "SELECT 1 FROM t", "_place", "Error "):
        assert internal not in message.replace(where, "")
    assert "page" in message
    assert not list(tmp_path.iterdir())
    assert passing("page = 1") == [0, 2, 4]


def test_of_several_statements_the_first_is_a_condition_and_the_others_are_never_run() -> None:
    assert passing("page = 1); DELETE FROM rows; DROP TABLE rows; SELECT (1") == [0, 2, 4]
    assert passing("page = 1") == [0, 2, 4]


def test_what_is_wrong_is_named_with_the_columns() -> None:
    with pytest.raises(FilterError) as caught:
        passing("pages = 1")
    assert str(caught.value) == (
        "pages = 1: not a condition on pages: No field named pages; write a condition in SQL on "
        f"{', '.join(COLUMNS)}, such as \"path LIKE '%2023%' AND page = 1\""
    )
    with pytest.raises(FilterError, match=r'"2023-01-01" does not fit what it is compared with;'):
        passing("modified > '2023-01-01'")


def test_a_condition_is_checked_even_where_there_are_no_pages() -> None:
    mask = page_mask(table(), [], where="page = 1")
    assert mask is not None
    assert mask.shape == (0,)
    with pytest.raises(FilterError):
        page_mask(table(), [], where="pages = 1")


def test_the_filters_of_the_documentation_find_pages_of_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    files = sorted((ROOT / "examples").glob("*.pdf"))
    documents = [
        document(document_id(path), (str(path), path.stat().st_mtime_ns), n_pages=30, size=path.stat().st_size)
        for path in files
    ]
    pages = table(*[(record.doc_id, number, 100) for record in documents for number in range(1, 31)])
    text = (ROOT / "docs" / "filters.md").read_text(encoding="utf-8")
    commands = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert len(commands) == 6
    for command in commands:
        words = shlex.split(command)
        given = list(pairwise(words))
        where = next((value for name, value in given if name == "--where"), None)
        mask = page_mask(pages, documents, where=where, docs=[value for name, value in given if name == "--doc"])
        assert mask is not None
        assert mask.any(), command
        assert not mask.all(), command


def test_the_documentation_names_every_column() -> None:
    text = (ROOT / "docs" / "filters.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*)\|", text, re.MULTILINE)))
    assert sorted(named) == sorted(COLUMNS)


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("$1 = 1", "$1"),
        ("? = 1", "?"),
        ("page=?1", "?1"),
        ("page = $x", "$x"),
        ("page = 1 AND path = :path", ":path"),
        ("file = $$a$$", "$$a$$"),
        ("file = N'a'", "N''"),
        ('file = b"a"', "b''"),
        ("file = 'it''s ?' AND page = ?", "?"),
    ],
)
def test_a_value_on_which_lancedb_panics_is_refused_before_it_sees_it(
    where: str, named: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FilterError, match=re.escape(f"{named} is no value here; write a condition in SQL")) as raised:
        passing(where=where)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_signs_of_placeholders_may_be_in_texts() -> None:
    same = """path NOT LIKE '%$1%' AND file <> 'a?:b' AND "file" <> 'it''s N''?' AND page::int = 1 AND file <> '$$'"""
    assert passing(where=same) == passing(where="page = 1")


@pytest.mark.parametrize("where", ["", "  "])
def test_an_empty_condition_is_refused(where: str) -> None:
    with pytest.raises(FilterError, match="an empty condition; write a condition in SQL"):
        passing(where=where)


@pytest.mark.parametrize(
    "where",
    [
        "length(repeat('a', 1500000000)) > 0",
        "length(REPEAT/* ' */('a', 1500000000)) > 0",
        "length(\"repeat\" -- '\n ('a', 1500000000)) > 0",
        "length(rpad('a', 2000000000, 'b')) > 1",
        "length(replace(replace(replace('aaaaaaaaaa', 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), 'a', 'aaaa')) > 1",
        "array_length(range(1, 300000000)) > 0",
        "array_length(generate_series(1, 200000000)) > 5",
    ],
)
def test_what_would_fill_the_memory_is_refused(where: str) -> None:
    with pytest.raises(FilterError, match="has no place in a condition on pages"):
        passing(where=where)


def test_the_names_of_such_functions_may_be_in_texts() -> None:
    assert passing(where="path NOT LIKE '%repeat%' AND file <> 'range' AND (page = 1)") == passing(where="page = 1")
