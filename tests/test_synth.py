"""Queries made from headings and captions: each names one page, and says that it was made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from colret.errors import DocumentError
from colret_cli.main import cli
from colret_eval.checks import check_dataset
from colret_eval.datasets import DatasetError, load_dataset
from colret_eval.headings import Item, find_items
from colret_eval.synth import WORTH, synthesise
from tests.pdfs import PdfSpec, build_pdf, text

EXAMPLES = Path(__file__).parent.parent / "examples"
BODY = [f"Plain text about nothing in particular, line {word}" for word in ["one", "two", "three", "four", "five"]]


def page(*headings: str, captions: tuple[str, ...] = (), size: float = 18) -> PdfSpec:
    """Headings above a body of text at 10 points, and captions below it."""
    lines = [text(heading, 50, 740 - 26 * i, size) for i, heading in enumerate(headings)]
    lines += [text(line, 50, 600 - 14 * i, 10) for i, line in enumerate(BODY)]
    return PdfSpec("".join(lines) + "".join(text(line, 50, 400 - 30 * i, 10) for i, line in enumerate(captions)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two documents with headings, captions, a list of figures, and what must make no query."""
    folder = tmp_path / "documents"
    (folder / "more").mkdir(parents=True)
    captions = ("Figure 3: Growth of spending by region. Source: survey.", "Table A.2 - Staff by department")
    listed = tuple(f"Figure {i}: Something shown on page {i} ......... {i}" for i in range(1, 8))
    first = [
        page("2.1 Travel by train"),
        page("Shared heading of both", captions=captions),
        page(captions=listed),
        page("A heading that takes", "two lines of the page"),
    ]
    (folder / "a.pdf").write_bytes(build_pdf(first))
    (folder / "more/b c.pdf").write_bytes(build_pdf([page("Shared heading of both"), page("Parking in the garage")]))
    return folder


def test_headings_and_captions_become_queries(folder: Path, tmp_path: Path) -> None:
    """Not what both documents have, nor what is too short to ask for something, nor lists of figures."""
    made = synthesise(folder, tmp_path / "set")
    assert made.items == [
        Item("Travel by train", "a.pdf", 1, "heading"),
        Item("Growth of spending by region", "a.pdf", 2, "caption"),
        Item("Staff by department", "a.pdf", 2, "caption"),
        Item("A heading that takes two lines of the page", "a.pdf", 4, "heading"),
        Item("Parking in the garage", "more/b c.pdf", 2, "heading"),
    ]
    assert (made.n_documents, made.skipped) == (2, [])


def test_the_set_is_one_that_can_be_loaded_and_says_what_it_is(folder: Path, tmp_path: Path) -> None:
    made = synthesise(folder, tmp_path / "set")
    dataset = load_dataset(tmp_path / "set")
    assert dataset.synthetic
    assert list(dataset.queries.values()) == [item.text for item in made.items]
    assert list(dataset.sources.values()) == [item.file for item in made.items]
    assert [path.is_symlink() for path in dataset.pdfs] == [True, True]
    assert [finding.kind for finding in check_dataset(tmp_path / "set").findings] == ["synthetic"]
    entries = [json.loads(line) for line in (tmp_path / "set/queries.jsonl").read_text().splitlines()]
    assert all(entry["synthetic"] is True for entry in entries)


def test_copies_stand_alone(folder: Path, tmp_path: Path) -> None:
    synthesise(folder, tmp_path / "set", copy=True)
    (folder / "a.pdf").unlink()
    dataset = load_dataset(tmp_path / "set")
    assert not any(path.is_symlink() for path in dataset.pdfs)
    assert not [finding for finding in check_dataset(tmp_path / "set").findings if finding.level == "error"]


def test_a_limit_takes_from_all_documents_evenly(tmp_path: Path) -> None:
    for n, name in ((12, "long.pdf"), (3, "short.pdf")):
        words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]
        pages = [page(f"The chapter on {word} in {name}") for word in words[:n]]
        (tmp_path / "documents").mkdir(exist_ok=True)
        (tmp_path / "documents" / name).write_bytes(build_pdf(pages))
    items = synthesise(tmp_path / "documents", tmp_path / "out", limit=8).items
    assert [item.page for item in items if item.file == "short.pdf"] == [1, 2, 3]
    assert [item.page for item in items if item.file == "long.pdf"] == [3, 5, 8, 10, 12]


def test_the_outline_of_a_real_report_names_pages_that_have_the_words() -> None:
    items = find_items(EXAMPLES / "NIST.IR.8545.pdf", "report")
    by_kind = {kind: [item for item in items if item.kind == kind] for kind in ("outline", "heading", "caption")}
    assert len(by_kind["outline"]) >= 10
    assert by_kind["heading"] == []
    assert ("Summary of the Fourth-Round Candidates", 17) in [(item.text, item.page) for item in items]
    assert len(by_kind["caption"]) >= 3


def test_broken_documents_are_told_and_left_out(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 no more")
    made = synthesise(folder, tmp_path / "set")
    assert [type(error) for error in made.skipped] == [DocumentError]
    assert "broken.pdf" not in load_dataset(tmp_path / "set").documents


def test_what_cannot_be_done_is_one_line(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "set"
    synthesise(folder, out)
    with pytest.raises(DatasetError, match="exists already"):
        synthesise(folder, out)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="holds no PDFs"):
        synthesise(tmp_path / "empty", tmp_path / "other")
    with pytest.raises(DocumentError, match="no such file"):
        synthesise(tmp_path / "nowhere", tmp_path / "other")
    (tmp_path / "empty/plain.pdf").write_bytes(build_pdf([page()]))
    with pytest.raises(DatasetError, match="no heading or caption that names one page"):
        synthesise(tmp_path / "empty", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="cannot be written"):
        synthesise(folder, tmp_path / "file/set")


def test_the_command_says_what_such_labels_are_worth(folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["eval", "synth", str(folder), "-o", str(tmp_path / "set"), "--limit", "3"])
    assert result.exit_code == 0
    assert "3 queries" in result.stdout
    assert "on 2 documents" in result.stdout
    assert "SYNTHETIC LABELS. " + WORTH in result.stderr
    again = CliRunner().invoke(cli, ["eval", "synth", str(folder), "-o", str(tmp_path / "set")])
    assert again.exit_code == 1
    assert again.stderr.count("\n") == 1


@pytest.mark.parametrize("inside", ["", "more/set"])
def test_a_set_inside_its_own_documents_is_refused(folder: Path, inside: str) -> None:
    (folder / "more/set").mkdir()
    with pytest.raises(DatasetError, match="is inside"):
        synthesise(folder, folder / inside)
    assert not any((folder / "more/set").iterdir())


def test_the_same_file_twice_is_in_the_set_once(folder: Path, tmp_path: Path) -> None:
    (folder / "more/again.pdf").write_bytes((folder / "a.pdf").read_bytes())
    made = synthesise(folder, tmp_path / "set")
    assert (made.n_documents, len(made.items)) == (2, 5)
    [skipped] = made.skipped
    assert "again.pdf: is the same as a.pdf" in str(skipped)
