"""From files to ranked pages through the command line, with every family of models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from colret.encoders.families import FAMILY_NAMES
from colret_cli.main import cli
from tests.checkpoints import tiny_checkpoint
from tests.pdfs import PdfSpec, build_pdf, rectangle, text
from tests.text_checkpoints import TEXT_KINDS, tiny_text_checkpoint

QUESTION = "net revenue by segment"


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """Two documents: a page of text and one with a blot, and a page that lies on its side."""
    folder = tmp_path / "papers"
    folder.mkdir()
    first = PdfSpec(text("Net revenue by segment grew in the third quarter", 40, 700, 14))
    second = PdfSpec(text("The grey heron waits", 40, 700, 14) + rectangle((100, 100, 400, 400), (0.8, 0.1, 0.1)))
    sideways = PdfSpec(text("Sourdough bread needs flour", 40, 700, 14), rotate=90)
    (folder / "two.pdf").write_bytes(build_pdf([first, second]))
    (folder / "one.pdf").write_bytes(build_pdf([sideways]))
    return folder


def colret(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def ingest(papers: Path, index: Path, *options: str) -> dict[str, Any]:
    run = colret("ingest", papers, "--index", index, "--device", "cpu", "--json", *options)
    assert run.exit_code == 0, run.output
    return dict(json.loads(run.stdout))


def query(index: Path) -> dict[str, Any]:
    run = colret("query", QUESTION, "--index", index, "--device", "cpu", "-k", "3", "--json")
    assert run.exit_code == 0, run.output
    return dict(json.loads(run.stdout))


def checkpoint(kind: str) -> str:
    return str(tiny_checkpoint(kind) if kind in FAMILY_NAMES else tiny_text_checkpoint(kind))


@pytest.mark.parametrize("kind", [*FAMILY_NAMES, *TEXT_KINDS])
def test_pages_are_ingested_and_ranked_with_every_kind_of_model(kind: str, papers: Path, tmp_path: Path) -> None:
    model, index = checkpoint(kind), tmp_path / "index"
    report = ingest(papers, index, "--model", model)
    assert (report["n_pages"], report["n_blank"], report["skipped"]) == (3, 0, [])
    found = query(index)
    scores = [hit["score"] for hit in found["hits"]]
    assert {(Path(hit["file"]).name, hit["page"]) for hit in found["hits"]} == {
        ("one.pdf", 1),
        ("two.pdf", 1),
        ("two.pdf", 2),
    }
    assert scores == sorted(scores, reverse=True)
    assert all(-1 <= score <= 1.5 for score in scores)  # with their words, where the encoder reads these
    again = ingest(papers, index)  # with the index's own model
    assert (again["n_added"], again["n_unchanged"]) == (0, 2)
    assert query(index) == found


@pytest.mark.parametrize("kind", [*FAMILY_NAMES, "pylate"])
def test_pages_are_ranked_alike_whatever_the_batch(kind: str, papers: Path, tmp_path: Path) -> None:
    ranked = []
    for size in ("1", "3"):
        ingest(papers, tmp_path / size, "--model", checkpoint(kind), "--batch-size", size)
        ranked.append([(hit["page_id"], round(hit["score"], 4)) for hit in query(tmp_path / size)["hits"]])
    assert ranked[0] == ranked[1]


# --- Image tokens only


def n_vectors(index: Path) -> int:
    return int(json.loads(colret("info", "--index", index, "--json").stdout)["n_vectors"])


def test_prompt_tokens_can_be_left_out_for_good(papers: Path, tmp_path: Path) -> None:
    model = checkpoint("colpali")
    ingest(papers, tmp_path / "all", "--model", model)
    ingest(papers, tmp_path / "image", "--model", model, "--image-tokens-only")
    assert n_vectors(tmp_path / "image") == 3 * 64 < n_vectors(tmp_path / "all")
    assert "without those of the prompt" in colret("info", "--index", tmp_path / "image").output
    (papers / "three.pdf").write_bytes(build_pdf([PdfSpec(text("One more", 40, 700))]))
    for options in ((), ("--image-tokens-only",)):  # a later ingest follows the index, told or not
        ingest(papers, tmp_path / "image", *options)
    assert n_vectors(tmp_path / "image") == 4 * 64
    assert len(query(tmp_path / "image")["hits"]) == 3


def test_an_index_with_prompt_tokens_is_not_mixed(papers: Path, tmp_path: Path) -> None:
    ingest(papers, tmp_path / "all", "--model", checkpoint("colpali"))
    run = colret("ingest", papers, "--index", tmp_path / "all", "--image-tokens-only")
    assert run.exit_code == 1
    assert "was made without --image-tokens-only; leave it out, or ingest into a new --index" in run.output


@pytest.mark.parametrize("model", ["embedded", "bert"])
def test_words_have_no_image_tokens(model: str, papers: Path, tmp_path: Path) -> None:
    name = model if model == "embedded" else checkpoint(model)
    run = colret("ingest", papers, "--index", tmp_path / "index", "--model", name, "--image-tokens-only")
    assert run.exit_code == 1
    assert run.stderr.rstrip().endswith("no image tokens; leave --image-tokens-only out")
    assert run.stderr.count("\n") == 1
    assert not (tmp_path / "index").exists()
