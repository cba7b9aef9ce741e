"""Labelled sets: what is read, and one clear error for each kind of bad line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colret.errors import ColretError
from colret_eval.datasets import DatasetError, load_dataset, page_key, union

LINES: list[dict[str, object]] = [
    {"query_id": "q1", "query": "net revenue", "pdf": "a b.pdf", "pages": [2, 3], "source_fields": {}},
    {"query_id": "q2", "query": "employees", "pdf": "sub/c.PDF", "pages": [1]},
    {"query_id": "q1", "query": "net revenue", "pdf": "sub/c.PDF", "pages": [4]},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of two PDFs and a distractor; a loader reads names, never the PDFs."""
    folder = tmp_path / "annual reports"
    for name in ("pdfs/a b.pdf", "pdfs/sub/c.PDF", "pdfs/notes.txt", "more/a b.pdf"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    write(folder, *map(json.dumps, LINES))
    return folder


def write(folder: Path, *lines: str) -> None:
    (folder / "qrels.jsonl").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))


def test_reads_queries_qrels_documents_and_sources(folder: Path) -> None:
    dataset = load_dataset(folder)
    assert dataset.name == "annual reports"
    assert dataset.queries == {"q1": "net revenue", "q2": "employees"}
    assert dataset.qrels == {
        "q1": {"a%20b.pdf:2": 1, "a%20b.pdf:3": 1, "sub/c.PDF:4": 1},
        "q2": {"sub/c.PDF:1": 1},
    }
    assert dataset.documents == {"a b.pdf": folder / "pdfs/a b.pdf", "sub/c.PDF": folder / "pdfs/sub/c.PDF"}
    assert dataset.sources == {"q1": "a b.pdf", "q2": "sub/c.PDF"}
    assert dataset.pdfs == (folder / "pdfs/a b.pdf", folder / "pdfs/sub/c.PDF")


def test_extra_folders_join_the_corpus_without_mixing_names(folder: Path) -> None:
    dataset = load_dataset(folder, extra_folders=["more"])
    assert dataset.documents["more/a b.pdf"] == folder / "more/a b.pdf"
    assert len(dataset.pdfs) == 3
    assert dataset.qrels == load_dataset(folder).qrels


def test_blank_lines_line_ends_and_byte_order_mark_do_not_matter(folder: Path) -> None:
    expected = load_dataset(folder)
    content = "\r\n\r\n".join(map(json.dumps, LINES)) + "\r\n"
    (folder / "qrels.jsonl").write_bytes(b"\xef\xbb\xbf" + content.encode())
    assert load_dataset(folder) == expected


def test_a_query_without_pages_is_kept_apart(folder: Path) -> None:
    empty = {"query_id": "q3", "query": "who is the king of France?", "pages": []}
    write(folder, *map(json.dumps, [*LINES, empty]))
    dataset = load_dataset(folder)
    assert dataset.no_answer == {"q3": "who is the king of France?"}
    assert list(dataset.queries) == list(dataset.qrels) == list(dataset.sources) == ["q1", "q2"]
    assert union([dataset]).no_answer == {"annual reports/q3": "who is the king of France?"}


def test_union_prefixes_everything_alike(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    folder.rename(other)
    second = load_dataset(other)
    other.rename(folder)
    first = load_dataset(folder)
    merged = union([first, second])
    assert list(merged.queries) == ["annual reports/q1", "annual reports/q2", "other/q1", "other/q2"]
    assert merged.queries["other/q2"] == "employees"
    assert merged.sources["other/q1"] == "other/a b.pdf"
    assert merged.documents["other/a b.pdf"] == second.documents["a b.pdf"]
    assert len(merged.documents) == 4
    keys = {page_key(name, number) for name in merged.documents for number in range(1, 5)}
    assert keys.issuperset(key for pages in merged.qrels.values() for key in pages)
    assert merged.qrels["annual reports/q2"] == {"annual%20reports/sub/c.PDF:1": 1}
    with pytest.raises(ValueError, match="one name"):
        union([first, first])


def test_page_keys_are_reversible_and_free_of_white_space() -> None:
    assert page_key("a\tb.pdf", 1) == "a%09b.pdf:1"
    assert page_key("a%20b.pdf", 1) != page_key("a b.pdf", 1)


def changed(**fields: object) -> str:
    return json.dumps(LINES[1] | fields)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"query_id": "q9"', "not JSON"),
        ("\udcff\udcfe", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"query_id": "q9", "pdf": "a b.pdf", "pages": [1]}', "no text under 'query'"),
        (changed(query_id=7), "no text under 'query_id'"),
        (changed(query=" "), "no text under 'query'"),
        (changed(pages=None), "no list of pages"),
        (changed(pdf=""), "no text under 'pdf'"),
        (changed(pages=3), "no list of pages"),
        (changed(pages=[1, 0]), "page 0 is not a page number"),
        (changed(pages=["1"]), "page '1' is not a page number"),
        (changed(pages=[True]), "page True is not a page number"),
        (changed(query="staff"), "query_id 'q2' already has another text"),
        (changed(pdf="missing.pdf"), "names 'missing.pdf', which is not in pdfs/"),
        (changed(pdf="../more/a b.pdf"), "which is not in pdfs/"),
        (changed(pdf="notes.txt"), "which is not in pdfs/"),
    ],
)
def test_a_bad_line_is_named_with_its_file_and_number(folder: Path, line: str, problem: str) -> None:
    write(folder, json.dumps(LINES[1]), "", line)
    with pytest.raises(DatasetError, match=r"qrels\.jsonl:3: ") as caught:
        load_dataset(folder)
    assert problem in caught.value.problem
    assert isinstance(caught.value, ColretError)
    assert "\n" not in str(caught.value)


def test_sets_without_queries_or_files_say_so(folder: Path) -> None:
    write(folder, "")
    with pytest.raises(DatasetError, match="holds no queries"):
        load_dataset(folder)
    write(folder, json.dumps(LINES[0] | {"pages": []}))
    with pytest.raises(DatasetError, match="no relevant page for any query"):
        load_dataset(folder)
    (folder / "qrels.jsonl").unlink()
    with pytest.raises(DatasetError, match="holds no labels"):
        load_dataset(folder)
    (folder / "qrels.jsonl").mkdir()
    with pytest.raises(DatasetError, match=r"qrels\.jsonl: cannot be read"):
        load_dataset(folder)
    with pytest.raises(DatasetError, match="elsewhere: is not a folder"):
        load_dataset(folder, extra_folders=["elsewhere"])
