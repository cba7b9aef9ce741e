"""Everything that is planted in a labelled set is found, and real sets that are right are left in peace."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from PIL import Image

from colret_cli.main import cli
from colret_eval.checks import CheckReport, check_dataset
from colret_eval.headings import find_items
from tests.conftest import TOPICS, write_pdf
from tests.pdfs import PdfSpec, build_pdf, text

EXAMPLES = Path(__file__).parent.parent / "examples"
SENTENCES = [*TOPICS.values(), "Iron bridges of the nineteenth century rust slowly"]


def make_set(folder: Path, rows: list[str], queries: dict[str, str]) -> Path:
    (folder / "pdfs").mkdir(parents=True)
    write_pdf(folder / "pdfs/a.pdf", *SENTENCES[:3], "")
    write_pdf(folder / "pdfs/b.pdf", *SENTENCES[3:])
    lines = [json.dumps({"query_id": query, "text": words}) for query, words in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines))
    (folder / "qrels.tsv").write_text("".join(row.replace(" ", "\t") + "\n" for row in rows))
    return folder


def kinds(report: CheckReport) -> list[tuple[str, str, str]]:
    return [(finding.level, finding.kind, Path(finding.where).name) for finding in report.findings]


QUERIES = {"q1": "who waits for fish?", "q2": "which orbit?"}


def test_a_set_that_is_right_has_no_findings(tmp_path: Path) -> None:
    report = check_dataset(make_set(tmp_path / "set", ["q1 a.pdf 2 1", "q2 b.pdf 1 1"], QUERIES))
    assert report == CheckReport("set", 2, 0, 2, 7, [])


def test_pages_files_and_lines_that_do_not_exist_are_errors(tmp_path: Path) -> None:
    rows = ["q1 a.pdf 2 1", "q1 a.pdf 5 1", "q2 c.pdf 1 1", "q2 b.pdf one 1", "q9 b.pdf 1 1"]
    report = check_dataset(make_set(tmp_path / "set", rows, QUERIES))
    assert sorted(kinds(report)) == sorted([
        ("error", "line", "qrels.tsv:4"),
        ("error", "line", "qrels.tsv:3"),
        ("error", "line", "qrels.tsv:5"),
        ("error", "page_out_of_range", "qrels.tsv:2"),
    ])  # fmt: skip
    problems = {Path(finding.where).name: finding.problem for finding in report.findings}
    assert problems["qrels.tsv:2"] == "names page 5 of 'a.pdf', which has 4 pages"
    assert problems["qrels.tsv:3"] == "names 'c.pdf', which is not in pdfs/"


def test_what_looks_wrong_is_a_warning(tmp_path: Path) -> None:
    queries = {
        "q1": "who waits for fish?",
        "q2": "Who waits  for fish",
        "q3": "who waits for fish?!",
        "q4": "?",
        "q5": "unlabelled thing",
        "q6": "judged to have none",
    }
    rows = ["q1 a.pdf 2 1", "q2 a.pdf 2 1", "q3 a.pdf 3 1", "q4 a.pdf 4 1", "q6 a.pdf 1 0", "q1 a.pdf 2 2"]
    report = check_dataset(make_set(tmp_path / "set", rows, queries))
    assert sorted(kinds(report)) == sorted([
        ("warning", "duplicate_query", "queries.jsonl:2"),
        ("warning", "conflicting_labels", "queries.jsonl:3"),
        ("warning", "short_query", "queries.jsonl:4"),
        ("warning", "unlabelled_query", "queries.jsonl:5"),
        ("warning", "blank_page", "qrels.tsv:4"),
        ("warning", "conflicting_grades", "qrels.tsv:6"),
        ("warning", "unlabelled_documents", "pdfs"),
    ])  # fmt: skip
    assert (report.n_queries, report.n_no_answer) == (4, 2)


def test_a_scan_is_not_called_blank(tmp_path: Path) -> None:
    folder = make_set(tmp_path / "set", ["q1 scan.pdf 1 1", "q2 photo.png 1 1", "q1 white.png 1 1"], QUERIES)
    picture = Image.new("L", (400, 500), 255)
    picture.paste(0, (100, 200, 300, 210))
    (folder / "pdfs/scan.pdf").write_bytes(build_pdf([PdfSpec(image=picture)]))
    picture.save(folder / "pdfs/photo.png")
    Image.new("L", (400, 500), 255).save(folder / "pdfs/white.png")
    found = [finding for finding in check_dataset(folder).findings if finding.kind == "blank_page"]
    assert [finding.problem for finding in found] == ["page 1 of 'white.png' is blank"]


def test_documents_that_cannot_be_opened_matter_if_labelled(tmp_path: Path) -> None:
    folder = make_set(tmp_path / "set", ["q1 a.pdf 2 1", "q2 broken.pdf 1 1"], QUERIES)
    (folder / "pdfs/broken.pdf").write_bytes(b"%PDF-1.7 no more")
    (folder / "pdfs/empty.pdf").touch()
    found = [entry for entry in kinds(check_dataset(folder)) if entry[1] == "document"]
    assert found == [("error", "document", "broken.pdf"), ("warning", "document", "empty.pdf")]


def test_a_page_0_shows_that_pages_are_counted_from_0(tmp_path: Path) -> None:
    report = check_dataset(make_set(tmp_path / "set", ["q1 a.pdf 0 1", "q2 b.pdf 2 1"], QUERIES))
    assert kinds(report) == [("error", "line", "qrels.tsv:1"), ("error", "zero_based", "qrels.tsv")]
    assert report.findings[1].problem == "1 of 2 labels name page 0: pages look counted from 0"


@pytest.mark.parametrize(
    ("rows", "kind", "problem"),
    [
        (["q1 a.pdf 0 1", "q1 a.pdf 2 1", "q2 b.pdf 0 1"], "zero_based", "2 of 3 labels name page 0: pages look"),
        (["q1 a.pdf 0 1", "q1 a.pdf 2 1", "q2 b.pdf 2 1"], "page_0", "1 of 3 labels name page 0: a mistake, or"),
        (["q1 a.pdf 0 1", "q2 b.pdf 3 1", "q2 b.pdf 0 1"], "page_0", "qrels.tsv:2 names the last of 'b.pdf', so"),
    ],
)
def test_add_1_is_said_only_where_it_can_be_right(tmp_path: Path, rows: list[str], kind: str, problem: str) -> None:
    report = check_dataset(make_set(tmp_path / "set", rows, QUERIES))
    [found] = [finding for finding in report.findings if finding.kind != "line"]
    assert found.kind == kind
    assert problem in found.problem
    assert ("add 1" in found.remedy) == (kind == "zero_based")


def test_a_query_as_long_as_a_document_is_a_warning(tmp_path: Path) -> None:
    queries = QUERIES | {"q2": "orbit " * 501}
    report = check_dataset(make_set(tmp_path / "set", ["q1 a.pdf 2 1", "q2 b.pdf 1 1"], queries))
    assert kinds(report) == [("warning", "long_query", "queries.jsonl:2")]


REPORT = "NIST.IR.8545.pdf"
FRONT_PAGES = 7  # of the report, before the page that shows a 1


def make_real_set(folder: Path, names: list[str], step: int) -> Path:
    """Headings and captions of real documents, labelled with their pages plus ``step``."""
    (folder / "pdfs").mkdir(parents=True)
    items = []
    for name in names:
        (folder / "pdfs" / name).symlink_to(EXAMPLES / name)
        items += [item for item in find_items(EXAMPLES / name, name) if item.page + step >= 1]
    lines = [
        json.dumps({"query_id": str(i), "query": item.text, "pdf": item.file, "pages": [item.page + step]})
        for i, item in enumerate(items)
    ]
    (folder / "qrels.jsonl").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize(
    ("names", "step", "kind", "remedy"),
    [
        ([REPORT, "hyde.pdf", "quill.pdf"], -1, "zero_based", "add 1 to each page"),
        ([REPORT, "hyde.pdf", "quill.pdf"], 1, "printed_pages", "subtract 1 from each page"),
        ([REPORT], -FRONT_PAGES, "printed_pages", "name positions in the file, from 1"),
    ],
)
def test_shifted_labels_of_real_documents_are_found(
    tmp_path: Path, names: list[str], step: int, kind: str, remedy: str
) -> None:
    report = check_dataset(make_real_set(tmp_path / "set", names, step))
    [shift] = [finding for finding in report.findings if finding.kind in ("zero_based", "printed_pages")]
    assert (shift.level, shift.kind, shift.remedy) == ("error", kind, remedy)
    assert shift.where.endswith("qrels.jsonl")


def test_right_labels_of_real_documents_are_left_in_peace(tmp_path: Path) -> None:
    report = check_dataset(make_real_set(tmp_path / "set", [REPORT, "hyde.pdf", "quill.pdf"], 0))
    assert not [finding for finding in report.findings if finding.level == "error"]


def test_text_corpora_are_checked_too(tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "words"}\n{"_id": "b", "text": " "}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "which words?"}\n{"_id": "q2", "text": "why?"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tb\t1\n")
    report = check_dataset(folder)
    assert kinds(report) == [
        ("warning", "blank_page", "test.tsv:3"),
        ("warning", "unlabelled_query", "queries.jsonl:2"),
    ]
    assert (report.n_documents, report.n_pages, report.n_queries, report.n_no_answer) == (2, 2, 1, 1)


def test_the_command_prints_a_line_each_and_its_exit_code_tells(tmp_path: Path) -> None:
    runner = CliRunner()
    good = make_set(tmp_path / "good", ["q1 a.pdf 2 1", "q2 b.pdf 1 1"], QUERIES | {"q3": "nobody knows"})
    result = runner.invoke(cli, ["eval", "check", str(good)])
    assert result.exit_code == 0
    first, last = result.output.splitlines()
    assert first.startswith(f"warning  {good}/queries.jsonl:3: query 'q3' has no relevant page")
    assert last == "good: 2 queries and 1 without an answer, 2 documents, 7 pages; 0 errors, 1 warning"
    bad = make_set(tmp_path / "bad", ["q1 a.pdf 9 1", "q2 b.pdf 1 1"], QUERIES)
    result = runner.invoke(cli, ["eval", "check", str(bad), "--json"])
    assert result.exit_code == 1
    told = json.loads(result.output)
    assert (told["name"], told["n_pages"]) == ("bad", 7)
    assert [(found["level"], found["kind"]) for found in told["findings"]] == [("error", "page_out_of_range")]


@pytest.mark.parametrize("name", ["nothing", "empty", "a\nb"])
def test_what_is_no_set_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(cli, ["eval", "check", str(tmp_path / name)])
    assert result.exit_code == 1
    line, summary = result.output.splitlines()
    assert line.startswith("error    ")
    assert quote(summary).endswith(quote("1 error, 0 warnings"))


def test_a_page_of_another_size_of_text_is_read_as_any(tmp_path: Path) -> None:
    """A page whose only word is tiny is not blank."""
    folder = make_set(tmp_path / "set", ["q1 tiny.pdf 1 1", "q2 b.pdf 1 1"], QUERIES)
    (folder / "pdfs/tiny.pdf").write_bytes(build_pdf([PdfSpec(text("fish", 72, 700, 2))]))
    assert "blank_page" not in [kind for _, kind, _ in kinds(check_dataset(folder))]
