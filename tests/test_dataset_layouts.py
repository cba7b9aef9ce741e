"""The layouts of labelled sets besides qrels.jsonl: own, BEIR's, ViDoRe's."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from colret.encoders.text import TextEncoder
from colret.types import WHOLE_PAGE
from colret_eval.checks import check_dataset
from colret_eval.datasets import DatasetError, load_dataset, page_key, read_contents, read_pages, union
from colret_eval.datasets.beir import place
from colret_eval.datasets.own import as_field
from tests.conftest import TOPICS, write_pdf

FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"), min_size=1).filter(str.strip)


PIECES = [
    b'{"query_id": "q", "text": "t"}\n',
    b'{"_id": "q", "text": "t"}\n',
    b'{"query_id": "q", "query": "t", "pdf": "a.pdf", "pages": [1]}\n',
    b'{"query_id": "\\ud800", "query": "t", "pdf": "\\udfff", "pages": [1e9, 99999999999999999999]}\n',
    b"q\ta.pdf\t1\t1\n",
    b"q\ta.pdf:1\t1\n",
    b"q\ta.pdf\t1\t-1\r\n",
    b"[" * 5000,
    b"\xff\x00",
    b"\xef\xbb\xbf",
    b"\t",
    b"\n",
    b"NaN",
    "\u2028\u0661".encode(),
]
"""What lines are made of, good and bad."""


def write_lines(path: Path, *lines: str, end: str = "\n", head: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + "".join(line + end for line in lines).encode())


def write_queries(path: Path, texts: Mapping[str, str], key: str = "query_id", **style: Any) -> None:
    entries = [json.dumps({key: query, "text": text}, ensure_ascii=False) for query, text in texts.items()]
    write_lines(path, *entries, **style)


def one_line(error: DatasetError) -> str:
    assert "\n" not in str(error)
    return str(error)


# colret's own layout


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Two documents, and queries with two pages, one page and none."""
    folder = tmp_path / "own"
    for name in ("a b.pdf", "sub/c.pdf", "scan.png"):
        (folder / "pdfs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "pdfs" / name).touch()
    write_queries(folder / "queries.jsonl", {"q1": "net revenue", "q2": "employees", "q3": "moon", "q4": "sun"})
    rows = ["q2\tsub/c.pdf\t4\t1", "q1\ta b.pdf\t2\t2", "q1\tsub/c.pdf\t1\t1", "q3\ta b.pdf\t1\t0"]
    write_lines(folder / "qrels.tsv", "query_id\tfile\tpage\tgrade", *rows)
    return folder


def test_own_layout_is_read_in_the_order_of_the_queries(own: Path) -> None:
    dataset = load_dataset(own)
    assert dataset.queries == {"q1": "net revenue", "q2": "employees"}
    assert list(dataset.qrels) == ["q1", "q2"]
    assert dataset.qrels["q1"] == {"a%20b.pdf:2": 2, "sub/c.pdf:1": 1}
    assert dataset.no_answer == {"q3": "moon", "q4": "sun"}
    assert dataset.sources == {"q1": "a b.pdf", "q2": "sub/c.pdf"}
    assert sorted(dataset.documents) == ["a b.pdf", "scan.png", "sub/c.pdf"]
    assert not dataset.synthetic


def test_header_line_ends_and_byte_order_mark_do_not_matter(own: Path) -> None:
    expected = load_dataset(own)
    lines = (own / "qrels.tsv").read_text().splitlines()[1:]
    write_lines(own / "qrels.tsv", *lines, end="\r\n\r\n", head=b"\xef\xbb\xbf")
    queries = (own / "queries.jsonl").read_text().splitlines()
    write_lines(own / "queries.jsonl", *queries, end="\r\n", head=b"\xef\xbb\xbf")
    assert load_dataset(own) == expected


@settings(max_examples=60, deadline=None)
@given(
    queries=st.dictionaries(FIELD, FIELD, min_size=1, max_size=4),
    pages=st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 3)), min_size=1, max_size=4),
    name=st.sampled_from(["plain.pdf", "a b%20.pdf", "tab\tend.pdf", "日本語 \u2028.pdf", "sub/ü:3.pdf"]),
    crlf=st.booleans(),
    mark=st.booleans(),
)
def test_any_ids_and_texts_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    queries: dict[str, str],
    pages: list[tuple[int, int]],
    name: str,
    crlf: bool,
    mark: bool,
) -> None:
    folder = tmp_path_factory.mktemp("own")
    path = folder / "pdfs" / name
    path.parent.mkdir(parents=True)
    path.touch()
    style: dict[str, Any] = {"end": "\r\n" if crlf else "\n", "head": b"\xef\xbb\xbf" if mark else b""}
    write_queries(folder / "queries.jsonl", queries, **style)
    rows = [f"{query}\t{as_field(name)}\t{page}\t{grade}" for query in queries for page, grade in pages]
    write_lines(folder / "qrels.tsv", *rows, **style)
    dataset = load_dataset(folder)
    assert dataset.queries == queries
    expected: dict[str, int] = {}
    for page, grade in pages:
        expected[page_key(name, page)] = max(grade, expected.get(page_key(name, page), 0))
    assert dataset.qrels == dict.fromkeys(queries, expected)
    assert set(dataset.sources.values()) == {name}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q1\ta b.pdf\t1", "has 3 fields, not 4"),
        ("q1 a b.pdf 1 1", "has 1 fields, not 4"),
        ("q1\ta b.pdf\t0\t1", "page 0 is not a page number"),
        ("q1\ta b.pdf\t-1\t1", "page -1 is not a page number"),
        ("q1\ta b.pdf\tiv\t1", "'iv' is not a page number"),
        ("q1\ta b.pdf\t1.5\t1", "'1.5' is not a page number"),
        ("q1\ta b.pdf\t1_0\t1", "'1_0' is not a page number"),
        ("q1\ta b.pdf\t1\tyes", "'yes' is not a grade"),
        ("q9\ta b.pdf\t1\t1", "names query 'q9', which has no text"),
        ("q1\tmissing.pdf\t1\t1", "names 'missing.pdf', which is not in pdfs/"),
    ],
)
def test_a_bad_row_is_named_with_its_file_and_number(own: Path, line: str, problem: str) -> None:
    write_lines(own / "qrels.tsv", "q1\ta b.pdf\t2\t1", "", line)
    with pytest.raises(DatasetError, match=r"qrels\.tsv:3: ") as caught:
        load_dataset(own)
    assert problem in one_line(caught.value)


def test_bytes_that_are_no_text_are_named(own: Path) -> None:
    (own / "qrels.tsv").write_bytes(b"q1\ta b.pdf\t2\t1\nq1\t\xff.pdf\t1\t1\n")
    with pytest.raises(DatasetError, match=r"qrels\.tsv:2: is not text in UTF-8"):
        load_dataset(own)
    (own / "qrels.tsv").write_bytes(b"")
    with pytest.raises(DatasetError, match="no relevant page for any query"):
        load_dataset(own)
    (own / "queries.jsonl").write_bytes(b'{"query_id": "q1", "text": "a"}\n{"query_id": "q1", "text": "b"}\n')
    with pytest.raises(DatasetError, match=r"queries\.jsonl:2: query_id 'q1' already has another text"):
        load_dataset(own)
    (own / "queries.jsonl").unlink()
    with pytest.raises(DatasetError, match=r"queries\.jsonl: cannot be read"):
        load_dataset(own)


@settings(max_examples=150, deadline=None)
@given(
    queries=st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join),
    labels=st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join),
    file=st.sampled_from(["qrels.tsv", "qrels.jsonl", "qrels/test.tsv"]),
)
def test_files_of_any_bytes_are_a_set_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, queries: bytes, labels: bytes, file: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "pdfs").mkdir()
    (folder / "pdfs/a.pdf").touch()
    (folder / "queries.jsonl").write_bytes(queries)
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_bytes(labels)
    try:
        dataset = load_dataset(folder)
    except DatasetError as error:
        one_line(error).encode()  # no lone surrogate either
    else:
        assert list(dataset.queries) == list(dataset.qrels) == list(dataset.sources)
        assert all(max(grades.values()) > 0 for grades in dataset.qrels.values())
    finally:
        read_contents(folder)  # whatever the lines are, they can be read one by one


# BEIR


def make_beir(folder: Path, splits: Mapping[str, Sequence[str]], corpus: Sequence[Mapping[str, object]]) -> Path:
    write_lines(folder / "corpus.jsonl", *map(json.dumps, corpus))
    texts = {"q1": "which bird?", "q2": "what bread?", "q3": "what music?", "q4": "no such thing?"}
    write_queries(folder / "queries.jsonl", texts, key="_id")
    for split, rows in splits.items():
        write_lines(folder / "qrels" / f"{split}.tsv", "query-id\tcorpus-id\tscore", *rows)
    return folder


CORPUS: list[dict[str, object]] = [
    {"_id": "birds:1", "title": "Birds", "text": TOPICS["heron"]},
    {"_id": "birds:2", "title": "", "text": "The stork walks through wet meadows"},
    {"_id": "bread", "title": "Bread", "text": TOPICS["sourdough"], "metadata": {}},
    {"_id": "blank page", "text": ""},
]


def test_beir_takes_the_test_split_and_leaves_out_queries_of_others(tmp_path: Path) -> None:
    splits = {"test": ["q1\tbirds:1\t1", "q2\tbread\t2"], "train": ["q3\tbread\t1", "q1\tbread\t1"]}
    dataset = load_dataset(make_beir(tmp_path / "beir", splits, CORPUS))
    assert dataset.queries == {"q1": "which bird?", "q2": "what bread?"}
    assert dataset.qrels == {"q1": {"birds:1": 1}, "q2": {"bread:1": 2}}
    assert dataset.no_answer == {"q4": "no such thing?"}
    assert dataset.sources == {"q1": "birds", "q2": "bread"}
    assert dataset.pdfs == ()
    assert {name: list(document.numbers) for name, document in dataset.page_documents.items()} == {
        "birds": [1, 2],
        "bread": [1],
        "blank page": [1],
    }


def test_pages_of_text_have_words_anywhere_and_can_be_encoded(tmp_path: Path, embedded: TextEncoder) -> None:
    dataset = load_dataset(make_beir(tmp_path / "beir", {"dev": ["q1\tbirds:1\t1"]}, CORPUS))
    pages = [page for name, d in dataset.page_documents.items() for page in read_pages(name, d, pixels=0, ocr=True)]
    assert [page.ref.page_id for page in pages] == ["birds:1", "birds:2", "bread:1", "blank%20page:1"]
    assert pages[0].words.text == f"Birds {TOPICS['heron']}"
    assert (pages[0].words.boxes == np.array(WHOLE_PAGE)).all()
    assert len({page.image_hash for page in pages}) == 4
    encoded = embedded.encode_pages(pages)
    [query] = embedded.encode_queries(["which bird waits for fish?"])
    scores = [float((query.vectors @ page.vectors.T).max(axis=1).sum()) for page in encoded[:3]]
    assert scores[0] == max(scores)
    assert len(encoded[3].vectors) == 0
    with pytest.raises(DatasetError, match="birds page 1: is text, without an image"):
        next(read_pages("birds", dataset.page_documents["birds"], pixels=1000, ocr=False))
    with pytest.raises(IndexError):
        dataset.page_documents["birds"].read_page(3, ref=pages[0].ref, pixels=0, ocr=False)


def test_equal_pages_of_text_have_equal_hashes(tmp_path: Path) -> None:
    corpus: list[dict[str, object]] = [{"_id": "a", "text": "same words"}, {"_id": "b", "text": "same  words\n"}]
    dataset = load_dataset(make_beir(tmp_path / "beir", {"test": ["q1\ta\t1"]}, corpus))
    first, second = (next(read_pages(n, d, pixels=0, ocr=False)) for n, d in dataset.page_documents.items())
    assert first.image_hash == second.image_hash
    merged = union([dataset])
    assert list(merged.page_documents) == ["beir/a", "beir/b"]
    assert merged.qrels == {"beir/q1": {"beir/a:1": 1}}


def test_beir_labels_over_pdfs_name_their_pages(tmp_path: Path) -> None:
    folder = make_beir(tmp_path / "beir", {"test": ["q1\tthe heron.pdf:1\t1", "q2\tthe%20heron.pdf:2\t1"]}, [])
    (folder / "pdfs").mkdir()
    write_pdf(folder / "pdfs/the heron.pdf", TOPICS["heron"], TOPICS["sourdough"])
    dataset = load_dataset(folder)
    assert dataset.qrels == {"q1": {"the%20heron.pdf:1": 1}, "q2": {"the%20heron.pdf:2": 1}}
    assert list(dataset.documents) == ["the heron.pdf"]
    assert dataset.page_documents == {}


@pytest.mark.parametrize("corpus_id", ["report.pdf:3", "doc7", "a:b", "x:0", "x:01", "x:-1", ":1", "12", "a:1:2"])
def test_corpus_ids_and_places_are_one_to_one(corpus_id: str) -> None:
    document, number = place(corpus_id)
    assert corpus_id in (f"{document}:{number}", document)
    assert number >= 1


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("q1\tbirds:3\t1", "names page 3 of 'birds', which is not in corpus.jsonl"),
        ("q1\tfish\t1", "names 'fish', which is not in corpus.jsonl"),
        ("q7\tbread\t1", "names query 'q7', which has no text"),
        ("q1\tbread\tmuch", "'much' is not a score"),
        ("q1\tbread", "has 2 fields, not 3"),
    ],
)
def test_a_bad_beir_row_is_named(tmp_path: Path, row: str, problem: str) -> None:
    folder = make_beir(tmp_path / "beir", {"test": ["q1\tbread\t1", row]}, CORPUS)
    with pytest.raises(DatasetError, match=r"test\.tsv:3: ") as caught:
        load_dataset(folder)
    assert problem in one_line(caught.value)


def test_what_makes_a_beir_folder_ambiguous_is_told(tmp_path: Path) -> None:
    folder = make_beir(tmp_path / "beir", {"train": ["q1\tbread\t1"], "dev": ["q1\tbread\t1"]}, CORPUS)
    with pytest.raises(DatasetError, match=r"has dev\.tsv, train\.tsv, and no test\.tsv"):
        load_dataset(folder)
    make_beir(folder, {"test": ["q1\tbread\t1"]}, [*CORPUS, {"_id": "bread:1", "text": "twice"}])
    with pytest.raises(DatasetError, match=r"corpus\.jsonl:5: id 'bread:1' is taken"):
        load_dataset(folder)
    make_beir(folder, {"test": ["q1\tbread\t1"]}, [*CORPUS, {"_id": "x", "text": 7}])
    with pytest.raises(DatasetError, match=r"corpus\.jsonl:5: has a 'title' or 'text' that is no text"):
        load_dataset(folder)


# ViDoRe


def png(color: str, size: tuple[int, int] = (40, 60)) -> dict[str, object]:
    out = io.BytesIO()
    Image.new("RGB", size, color).save(out, "PNG")
    return {"bytes": out.getvalue(), "path": f"{color}.png"}


IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    arrays = {name: pa.array(values, IMAGE if name == "image" else None) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), path, row_group_size=2)


def colors(dataset_folder: Path) -> dict[str, tuple[int, ...]]:
    """Return by page key the colour of the only pixel that each page image is made of."""
    dataset = load_dataset(dataset_folder)
    found = {}
    for name, document in dataset.page_documents.items():
        for page in read_pages(name, document, pixels=10_000, ocr=False):
            assert page.image is not None
            found[page.ref.page_id] = page.image.getpixel((1, 1))
    return found  # type: ignore[return-value]


def test_vidore_1_has_a_question_or_none_in_each_row(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"query": "red?", "image": png("red"), "image_filename": "red 1.png"},
        {"query": None, "image": png("lime"), "image_filename": "green.png"},
        {"query": "red?", "image": png("blue"), "image_filename": "blue.png"},
        {"query": "what else?", "image": png("red"), "image_filename": "red 1.png"},
    ]
    write_table(tmp_path / "v1/data/test-00000-of-00002.parquet", rows[:3])
    write_table(tmp_path / "v1/data/test-00001-of-00002.parquet", rows[3:])
    write_table(tmp_path / "v1/data/train-00000-of-00001.parquet", [rows[1] | {"query": "train?"}])
    dataset = load_dataset(tmp_path / "v1")
    assert dataset.queries == {"q0": "red?", "q1": "what else?"}
    assert dataset.qrels == {"q0": {"red%201.png:1": 1, "blue.png:1": 1}, "q1": {"red%201.png:1": 1}}
    assert dataset.no_answer == {}
    assert colors(tmp_path / "v1") == {
        "red%201.png:1": (255, 0, 0),
        "green.png:1": (0, 255, 0),
        "blue.png:1": (0, 0, 255),
    }


def version_2(folder: Path, **changes: list[dict[str, object]]) -> Path:
    tables: dict[str, list[dict[str, object]]] = {
        "corpus": [{"corpus-id": i, "image": png(color)} for i, color in enumerate(["red", "lime", "blue"])],
        "queries": [{"query-id": 10, "query": "red?"}, {"query-id": 11, "query": "black?"}],
        "qrels": [
            {"query-id": 10, "corpus-id": 0, "score": 2.0},
            {"query-id": 10, "corpus-id": 2, "score": 1.0},
        ],
    }
    for name, rows in (tables | changes).items():
        write_table(folder / name / "test-00000-of-00001.parquet", rows)
    return folder


def test_vidore_2_has_three_tables(tmp_path: Path) -> None:
    folder = version_2(tmp_path / "v2")
    dataset = load_dataset(folder)
    assert dataset.queries == {"10": "red?"}
    assert dataset.qrels == {"10": {"0:1": 2, "2:1": 1}}
    assert dataset.no_answer == {"11": "black?"}
    assert colors(folder) == {"0:1": (255, 0, 0), "1:1": (0, 255, 0), "2:1": (0, 0, 255)}


@pytest.mark.parametrize(
    ("stated", "numbers"), [([4, 3, 9], [4, 3, 9]), ([1, 0, 5], [2, 1, 6]), ([1, 1, 2], [1, 2, 3])]
)
def test_vidore_3_pages_belong_to_documents(tmp_path: Path, stated: list[int], numbers: list[int]) -> None:
    corpus = [
        {"corpus_id": i, "image": png(color), "doc_id": "my report", "markdown": "", "page_number_in_doc": number}
        for (i, color), number in zip(enumerate(["red", "lime", "blue"]), stated, strict=True)
    ]
    for name, rows in {
        "corpus": corpus,
        "queries": [{"query_id": 0, "query": "blue?", "language": "english"}],
        "qrels": [{"query_id": 0, "corpus_id": 2, "score": 1, "content_type": "text"}],
    }.items():
        write_table(tmp_path / f"v3/{name}.parquet", rows)
    dataset = load_dataset(tmp_path / "v3")
    assert dataset.qrels == {"0": {f"my%20report:{numbers[2]}": 1}}
    assert dataset.sources == {"0": "my report"}
    shown = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    keys = [f"my%20report:{number}" for number in numbers]
    assert colors(tmp_path / "v3") == dict(zip(keys, shown, strict=True))


def test_what_is_wrong_with_parquet_files_is_told_with_file_and_row(tmp_path: Path) -> None:
    folder = version_2(tmp_path / "v2", qrels=[{"query-id": 10, "corpus-id": 0, "score": 1.5}])
    with pytest.raises(DatasetError, match=r"qrels/test-00000-of-00001\.parquet row 1: '1\.5' is not a score"):
        load_dataset(folder)
    version_2(folder, qrels=[{"query-id": 10, "corpus-id": 7, "score": 1}])
    with pytest.raises(DatasetError, match="row 1: names page '7', which is not in the corpus"):
        load_dataset(folder)
    version_2(folder, qrels=[{"query-id": 12, "corpus-id": 0, "score": 1}])
    with pytest.raises(DatasetError, match="row 1: names query '12', which has no text"):
        load_dataset(folder)
    version_2(folder, qrels=[{"query": 12, "corpus-id": 0, "score": 1}])
    with pytest.raises(DatasetError, match="has no column 'query-id' or 'query_id'"):
        load_dataset(folder)
    version_2(folder, corpus=[{"corpus-id": 0, "image": png("red")}] * 2)
    with pytest.raises(DatasetError, match="row 2: id '0' is taken"):
        load_dataset(folder)
    (folder / "corpus/test-00000-of-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match=r"corpus/test-00000-of-00001\.parquet: cannot be read") as caught:
        load_dataset(folder)
    one_line(caught.value)
    (folder / "corpus/test-00000-of-00001.parquet").unlink()
    with pytest.raises(DatasetError, match="has no parquet file for corpus"):
        load_dataset(folder)


def test_images_that_are_missing_or_broken_are_told(tmp_path: Path) -> None:
    corpus: list[dict[str, object]] = [
        {"corpus-id": 0, "image": {"bytes": None, "path": None}},
        {"corpus-id": 1, "image": {"bytes": b"no image", "path": "x.png"}},
        {"corpus-id": 2, "image": {"bytes": None, "path": "beside.png"}},
    ]
    dataset = load_dataset(version_2(tmp_path / "v2", corpus=corpus))
    documents = dataset.page_documents

    def read(name: str) -> tuple[int, int]:
        page = next(read_pages(name, documents[name], pixels=100, ocr=False))
        assert page.image is not None
        return page.image.size

    with pytest.raises(DatasetError, match=r"parquet row 1: has no image under 'image'"):
        read("0")
    problems = {finding.where: finding.problem for finding in check_dataset(tmp_path / "v2").findings}
    file = tmp_path / "v2/corpus/test-00000-of-00001.parquet"
    assert problems[f"{file} row 1"] == "has no image under 'image'"
    assert problems[f"{file} row 2"].endswith("(page 1 of '1')")
    with pytest.raises(DatasetError, match=r"parquet row 2: not a PNG, JPEG, TIFF or WebP image \(page 1 of .1.\)"):
        read("1")
    with pytest.raises(DatasetError, match=r"beside\.png: cannot be read"):
        read("2")
    Image.new("RGB", (5, 5)).save(tmp_path / "v2/corpus/beside.png")
    assert read("2") == (5, 5)


# Names that are no folders


def test_a_name_on_the_hub_that_cannot_be_had_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        DatasetError, match="vidore/no_such_set: no such folder, and the hub cannot be reached"
    ) as caught:
        load_dataset(Path("vidore/no_such_set"))
    one_line(caught.value)
    with pytest.raises(DatasetError, match="no-such-folder: is not a folder"):
        load_dataset(Path("no-such-folder"))
    (tmp_path / "vidore").mkdir()
    (tmp_path / "vidore/no_such_set").touch()
    with pytest.raises(DatasetError, match="vidore/no_such_set: is not a folder"):
        load_dataset(Path("vidore/no_such_set"))


def test_files_of_a_set_in_the_hubs_cache_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    snapshot = cache / "datasets--owner--pages/snapshots" / ("0" * 40)
    version_2(snapshot)
    refs = cache / "datasets--owner--pages/refs/main"
    refs.parent.mkdir()
    refs.write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    dataset = load_dataset(Path("owner/pages"))
    assert dataset.name == "pages"
    assert dataset.queries == {"10": "red?"}
