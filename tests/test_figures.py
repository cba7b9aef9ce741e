"""Figures of small sets, end to end with the embedded encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colret_eval.datasets import load_dataset
from colret_eval.figures import BM25, CHUNK, EXACT, MEAN, TWO_STAGE, main, qrels_by_page_id
from tests.pdfs import PdfSpec, build_pdf, text

TOPICS = ["the cat sleeps", "revenue grew by ten percent", "rain falls in spring", "a bridge of steel"]
QUESTIONS = ["kitten asleep", "higher sales", "wet weather", "iron construction"]


def make_set(folder: Path) -> Path:
    """Four topics, a page each in two PDFs, a question for each, and a blank page that one line names."""
    (folder / "pdfs").mkdir(parents=True)
    (folder / "pdfs_distractors").mkdir()
    for name, topics in {
        "pdfs/a b.pdf": TOPICS[:2],
        "pdfs/c.pdf": TOPICS[2:],
        "pdfs_distractors/d.pdf": ["pi"],
    }.items():
        pages = [PdfSpec(text(topic, 72, 700)) for topic in topics]
        (folder / name).write_bytes(build_pdf([*pages, PdfSpec()]))
    lines = [
        {"query_id": f"q{i}", "query": question, "pdf": "a b.pdf" if i < 2 else "c.pdf", "pages": [i % 2 + 1]}
        for i, question in enumerate(QUESTIONS)
    ]
    lines.append(lines[0] | {"pages": [3]})
    (folder / "qrels.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_figures_of_two_sets_and_their_union(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [make_set(tmp_path / name) for name in ("one", "two")]
    (folders[1] / "pdfs/c.pdf").write_bytes(build_pdf([PdfSpec(text(t, 72, 600)) for t in TOPICS[2:]]))
    out = tmp_path / "figures.json"
    assert main([*map(str, folders), "--distractors", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "one: Q = 4 queries about 2 documents, N = 5 pages" in printed
    assert printed.count("for want of text: 1\n") == 2
    one, two, every = json.loads(out.read_text())
    assert (one["name"], two["name"], every["name"]) == ("one", "two", "all")
    assert list(one["systems"]) == [EXACT, TWO_STAGE, MEAN, CHUNK, BM25]
    # A document that both sets hold is one document; its pages are the answer to both questions.
    assert (every["n_queries"], every["n_pages"]) == (8, 7)
    for system in (EXACT, TWO_STAGE, CHUNK):
        assert one["systems"][system]["Success@1"]["mean"] == 1.0
    assert one["systems"][BM25]["Success@1"]["mean"] == 0.0  # no question shares a word with its page
    assert one["systems"][EXACT]["nDCG@10"]["mean"] < 1.0  # the blank page is relevant and never found
    assert every["systems"][EXACT]["Success@1"]["mean"] >= 0.75
    assert next(iter(one["kept"].values()))["mean"] == 1.0


def test_qrels_follow_documents_into_the_index(tmp_path: Path) -> None:
    """Files alike are one document there, and what the index lacks is never found."""
    dataset = load_dataset(make_set(tmp_path / "one"))
    dataset.qrels["q0"] |= {"c.pdf:1": 2}
    qrels = qrels_by_page_id(dataset, {"a%20b.pdf": "id", "c.pdf": "id"})
    assert qrels["q0"] == {"id:1": 2, "id:3": 1}
    assert qrels_by_page_id(dataset, {"a%20b.pdf": "id"})["q2"] == {"c.pdf:1": 1}


def test_a_bad_set_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 1
    assert "is not a folder" in capsys.readouterr().err
