"""What report.md and report.html say of their figures: the same, and what the code does."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from colret.encoders.text import TextEncoder
from colret.prefilter import SMALL
from colret_eval.evaluation.duplicates import COSINE, HASH_BITS, IMAGE_COSINE
from colret_eval.evaluation.headline import headline
from colret_eval.evaluation.markdown import markdown
from colret_eval.evaluation.one_set import Options
from colret_eval.evaluation.run import evaluate_sets, load_checked
from colret_eval.explanations import conformal, near_duplicates, resampling, shipped
from colret_eval.html_report import html_report
from colret_eval.synth import WORTH
from tests.evaluation_sets import TOPICS, write_set
from tests.reports import small_report

Report = dict[str, Any]


@pytest.fixture(scope="module")
def two_sets(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> tuple[Report, Path]:
    """A report of two sets of few documents, the second with made labels; one asks a question twice."""
    work = tmp_path_factory.mktemp("two")
    twice = [*TOPICS[:3], (TOPICS[3][0], TOPICS[0][1])]
    sets = [load_checked(write_set(work / "twice", twice)), load_checked(write_set(work / "made", TOPICS[4:12]))]
    sets[1] = dataclasses.replace(sets[1], dataset=dataclasses.replace(sets[1].dataset, synthetic=True))
    (work / "vectors").mkdir()
    wanted = ("late_interaction", "two_stage", "single_mean", "single_pooled", "bm25")
    report = evaluate_sets(sets, embedded, work / "indexes", work / "vectors", Options(wanted))
    as_read: Report = json.loads(json.dumps(report, allow_nan=False))
    return as_read, work


def page_words(report: Report) -> str:
    """Return the words of report.html, without tags and escapes."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", html_report(report))))


def shown(report: Report) -> list[str]:
    """Return the words of report.md and of report.html."""
    return [markdown(report).replace("\\", ""), page_words(report)]


def test_resampled_documents_and_queries_are_told_apart() -> None:
    documents = resampling({"unit": "documents", "n_units": 1234}, 1234)
    assert "resample documents, 1,234 of them" in documents
    assert "other documents like these" in documents
    queries = resampling({"unit": "queries", "n_units": 24}, 5)
    assert "resample queries, 24 of them" in queries
    assert "more questions about these same 5 documents" in queries
    assert "understate" in queries
    assert "this one document" in resampling({"unit": "queries", "n_units": 24}, 1)


def test_what_is_shipped_depends_on_the_number_of_pages() -> None:
    assert shipped(SMALL).startswith(f"With {SMALL} pages colret searches exactly by default")
    assert shipped(SMALL + 1).startswith("Two-stage search is what colret does by default")


def test_what_was_resampled_is_said_of_every_set(two_sets: tuple[Report, Path]) -> None:
    for text in shown(two_sets[0]):
        assert text.count("more questions about this one document") == 1
        assert text.count("more questions about these same 2 documents") == 1
        assert text.count("more questions about these same 3 documents") == 1


def test_findings_name_files_as_the_set_does(two_sets: tuple[Report, Path]) -> None:
    report, work = two_sets
    first, _, union = report["sets"]
    [finding] = [each for each in first["findings"] if each["kind"] in ("duplicate_query", "conflicting_labels")]
    assert finding["where"] == "queries.jsonl:4"
    assert any(each == finding | {"where": "twice/queries.jsonl:4"} for each in union["findings"])
    for text in shown(report):
        assert "twice/queries.jsonl:4" in text
        assert str(work) not in text


def test_made_labels_are_said_to_be_worth_what_they_are(two_sets: tuple[Report, Path]) -> None:
    first, second, union = two_sets[0]["sets"]
    assert [bool(each["synthetic"]) for each in (first, second, union)] == [False, True, True]
    for text in shown(two_sets[0]):
        assert text.count(WORTH) == 2
        assert "use the figures to compare systems" not in text.lower()
    assert any("do not choose a system" in sentence for sentence in second["headline"])


def test_exact_search_is_the_cost_of_a_small_set(two_sets: tuple[Report, Path]) -> None:
    found = two_sets[0]["sets"][0]
    latency = found["cost"]["latency"]
    latency["exact"][-1]["p50_ms"], latency["stages"][-1]["p50_ms"] = 1234.0, 4321.0
    assert any("1234 ms a query" in sentence for sentence in headline(found))
    assert any("4321 ms a query" in sentence for sentence in headline(found | {"n_pages": SMALL + 1}))
    for text in shown(two_sets[0]):
        assert f"With {found['n_pages']} pages colret searches exactly by default" in text
        assert "as shipped" not in text


def test_a_baseline_chosen_on_the_tested_queries_is_called_so(two_sets: tuple[Report, Path]) -> None:
    for text in shown(two_sets[0]):
        assert "single vectors, pooling chosen on these queries" in text


def test_systems_without_a_clock_are_named_beside_the_plot(two_sets: tuple[Report, Path]) -> None:
    page = page_words(two_sets[0])
    assert "because their latency was not measured: single vectors, pooling chosen on these queries; BM25" in page


def test_the_criterion_of_duplicates_is_the_one_applied(two_sets: tuple[Report, Path]) -> None:
    said = near_duplicates({"hash_bits": HASH_BITS, "cosine": COSINE, "image_cosine": IMAGE_COSINE})
    assert f"cosine of at least {COSINE}, or mean vectors with a cosine of at least {IMAGE_COSINE} and" in said
    for text in shown(two_sets[0]):
        assert text.count(said) == 3


def test_a_missing_floor_has_its_own_reason() -> None:
    report = small_report()
    kinds = report["sets"][0]["score_floor"]["kinds"]
    kinds[0]["note"] = "the documents cannot be split"
    page = page_words(report)
    assert page.count("No floor is promised: the documents cannot be split.") == 1
    assert page.count("the documents cannot be split") == 1
    assert page.count(conformal(kinds[1]["chosen"])) == 1
    assert "independent" in conformal(kinds[1]["chosen"])


def test_mean_ranks_and_pages_never_returned_are_shown() -> None:
    report = small_report()
    report["sets"][0]["systems"][1]["ranks"] = {"median": 2, "mean": 76.5, "n_missing": 3}
    page = page_words(report)
    assert re.search(r"76\.5\s*3 not returned", page)


def test_how_far_a_curve_is_extrapolated_is_said(two_sets: tuple[Report, Path]) -> None:
    report = two_sets[0]
    said = markdown(report)
    for data in report["sets"]:
        for curves in data["collection_size"]["systems"]:
            further = curves["extrapolated"]
            if further["sizes"]:
                assert (
                    f"extrapolated to {further['sizes'][-1]:,} pages it is {further['success'][-1]['mean']:.3f}" in said
                )
    assert "extrapolated to" in said


def test_chance_is_given_with_duplicates_merged_too(tmp_path: Path, embedded: TextEncoder) -> None:
    """Eight pages and a copy of the first: a random order of eight finds any one of them first in one of eight."""
    checked = load_checked(write_set(tmp_path / "set", TOPICS[:8], extra={"twin.pdf": [TOPICS[0][0]]}))
    (tmp_path / "vectors").mkdir()
    report = evaluate_sets([checked], embedded, tmp_path / "indexes", tmp_path / "vectors", Options(("bm25",)))
    [found] = report["sets"]
    assert (found["n_pages"], found["leakage"]["n_pages_merged"]) == (9, 8)
    assert found["random"]["Success@1"] == pytest.approx(1 / 9)
    assert found["leakage"]["random"]["Success@1"] == pytest.approx(1 / 8)
    text, page = shown(report)
    assert "| random order, N = 9, merged 8 | 0.111, merged 0.125 |" in text
    assert "N = 9 pages, merged 8; 8 queries." in page
