"""``colret bench`` on a small index of real documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import colret.encoders
from colret.encoders.text import TextEncoder
from colret.ingest import ingest
from colret.settings import default_codec
from colret.store import PageStore
from colret_cli.main import cli
from tests.conftest import TOPICS, write_pdf


@pytest.fixture(autouse=True)
def _the_loaded_encoder(monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)


@pytest.fixture
def questions(tmp_path: Path) -> str:
    """A file of three questions."""
    path = tmp_path / "questions.txt"
    path.write_text("revenue of the quarter\nbird in the water\nmusic\n")
    return str(path)


@pytest.fixture
def index(tmp_path: Path, store: PageStore, embedded: TextEncoder) -> str:
    """An index of twelve pages."""
    topics = list(TOPICS.values())
    pages = [f"{topics[i % 5]} {topics[(i * 3 + 1) % 5]} part {i}" for i in range(12)]
    ingest([write_pdf(tmp_path / "pages.pdf", *pages)], store, embedded)
    return str(store.path)


def test_each_prefilter_is_compared_with_exact_search(index: str, questions: str) -> None:
    asked = ["--prefilter", "binary", "--prefilter", "single", "--candidates", "10", "--candidates", "11"]
    result = CliRunner().invoke(cli, ["bench", "--index", index, "--queries", questions, *asked, "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert (told["n_pages"], told["n_queries"]) == (12, 3)
    assert [(row["prefilter"], row["n_candidates"]) for row in told["rows"]] == [
        ("none", 12),
        ("binary", 10),
        ("binary", 11),
        ("single", 10),
        ("single", 11),
    ]
    assert [told["rows"][0][name] for name in ("top1", "top5", "top10")] == [1.0, 1.0, 1.0]
    for row in told["rows"][1:]:
        assert row["top10"] >= 0.8  # ten or eleven of twelve pages cannot lack three of ten
        assert row["bytes_a_page"] > 0
    assert told["rows"][3]["bytes_a_page"] == 4 * 384


def test_the_table_prints_n(index: str, questions: str) -> None:
    result = CliRunner().invoke(cli, ["bench", "--index", index, "--queries", questions, "--candidates", "10"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith(f"N = 12 pages, 3 questions; {default_codec(384)}, ")
    assert [line.split()[0] for line in lines[2:]] == [
        "prefilter",
        "exact",
        "single",
        "sketch",
        "binary",
        "single+binary",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["--prefilter", "magic"], "'magic' is no prefilter"), (["--candidates", "0"], "--candidates")],
)
def test_a_bad_option_is_a_usage_error(index: str, questions: str, arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(cli, ["bench", *arguments, "--index", index, "--queries", questions])
    assert result.exit_code == 2
    assert complaint in result.output


def test_an_empty_index_is_one_line(store: PageStore, questions: str) -> None:
    result = CliRunner().invoke(cli, ["bench", "--index", str(store.path), "--queries", questions])
    assert result.exit_code == 1
    assert "holds no pages" in result.output
