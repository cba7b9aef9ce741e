"""report.html: it stands alone, believes nothing that a set says, and has its sections whatever was measured."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import colret.encoders
from colret.encoders.text import TextEncoder
from colret_cli.main import cli
from colret_eval.html_report import html_report
from colret_eval.plots import Row
from colret_eval.svg import Point, Series, chart
from colret_eval.ticks import Axis, Scale, number
from tests.evaluation_sets import TOPICS, UNANSWERED, write_set
from tests.reports import FILE, HOSTILE, Report, interval, small_report, small_set, thumbnail

HEADINGS = [
    "Systems", "Quality and cost", "Both directions", "Collection size", "Where answers are lost", "Duplicate pages",
    "Hub pages", "Saying “no page answers this”", "Cost", "Worst failures", "Largest losses against the baseline",
    "All queries",
]  # fmt: skip
VOID = {"meta", "img", "input", "br", "wbr"}


class _Page(HTMLParser):
    """What a browser would make of a page: elements that close, and no text taken for one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "h3":
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["h3"]:
            self.headings[-1] += data
        if self._open and self._open[-1] not in ("script", "style"):
            if self.elements[-1][0] == "wbr":  # the same word
                data = self.words.pop() + data
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def _without(*parts: str) -> Report:
    report = small_report()
    for part in parts:
        del report["sets"][0][part]
    return report


def test_the_page_loads_nothing() -> None:
    page = _Page(html_report(small_report()))
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        for name in ("src", "href", "srcset", "data", "action", "poster", "background"):
            assert not attributes.get(name) or str(attributes[name]).startswith(
                ("data:image/png;base64,", "#set-", "#picture-")
            )
    assert "@import" not in html_report(small_report())
    assert "url(" not in html_report(small_report())


def test_only_its_own_script_may_run() -> None:
    text = html_report(small_report())
    page = _Page(text)
    assert [tag for tag, _ in page.elements].count("script") == 1
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    script = text.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_hostile_queries_and_file_names_are_shown_as_text() -> None:
    page = _Page(html_report(small_report()))
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert not any(attributes.get("src") == "x" for _, attributes in page.elements)
    assert HOSTILE.replace("\u202e", r"\u202e") in page.text
    assert FILE in page.text
    assert "\u202e" not in html_report(small_report())  # would turn what follows around


def test_hostile_text_anywhere_makes_no_element() -> None:
    """Every string of the report in turn could come from a set, or from a file made by hand."""
    report = small_report(3)
    plain = [(tag, sorted(attributes)) for tag, attributes in _Page(html_report(report)).elements]
    spoilt = _spoilt(report)
    tags = {tag for tag, _ in _Page(html_report(spoilt)).elements}
    assert tags <= {tag for tag, _ in plain}
    assert not any(n.startswith("on") for _, attributes in _Page(html_report(spoilt)).elements for n in attributes)


def _spoilt(value: Any) -> Any:
    """Return a copy with hostile text after every string that is not a name that others refer to."""
    if isinstance(value, dict):
        keep = ("schema", "id", "key", "reference", "system", "name", "verdict", "unit")
        return {key: each if key in keep else _spoilt(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_spoilt(each) for each in value]
    return value + HOSTILE if isinstance(value, str) else value


def test_pictures_are_embedded_or_left_out() -> None:
    page = _Page(html_report(small_report()))
    held = {str(attributes["id"]) for tag, attributes in page.elements if tag == "symbol"}
    shown = {str(attributes["href"]) for tag, attributes in page.elements if tag == "use"}
    assert shown == {f"#{name}" for name in held}
    assert [attributes["href"] for tag, attributes in page.elements if tag == "image"] == [thumbnail()] * 2
    assert "evil.example/y.png" not in html_report(small_report())
    assert "no picture" in page.text


def test_all_sections_and_figures_are_there() -> None:
    page = _Page(html_report(small_report()))
    assert page.headings == HEADINGS
    assert "N = 635 pages" in page.text
    assert "Chance nDCG@10: 0.016" in page.text
    assert "0.710 0.650 to 0.770" in page.text
    charts = [attributes["aria-label"] for tag, attributes in page.elements if attributes.get("class") == "chart"]
    assert len(charts) == 7  # bytes, latency, size, stages, hubs, and a floor of either kind


def test_a_tie_and_a_difference_are_told_apart() -> None:
    text = _Page(html_report(small_report())).text
    assert re.search(r"single vector, mean .*? ▼ worse \N{MINUS SIGN}0\.220", text)
    assert re.search(r"BM25 0\.660 .*? tie \N{MINUS SIGN}0\.050", text)
    assert "p < 0.001" in text


@pytest.mark.parametrize(
    "parts",
    [
        ["collection_size"], ["stages"], ["leakage"], ["hubness"], ["score_floor"], ["cost"], ["directions"],
        ["worst", "regressions", "thumbnails"], ["findings", "skipped", "headline"],
        ["collection_size", "stages", "leakage", "hubness", "score_floor", "cost", "directions", "worst"],
    ],
)  # fmt: skip
def test_what_was_not_measured_is_missing_and_breaks_nothing(parts: list[str]) -> None:
    page = _Page(html_report(_without(*parts)))
    left_out = {"directions": "Both directions"}
    assert page.headings == [title for title in HEADINGS if title not in [left_out.get(part) for part in parts]]
    nulls = small_report()
    nulls["sets"][0].update(dict.fromkeys(parts))
    assert _Page(html_report(nulls)).headings == page.headings


def test_one_query_and_one_system() -> None:
    report = small_report(1)
    data = report["sets"][0]
    data["systems"] = data["systems"][:1]
    page = _Page(html_report(report))
    assert "1 query with an answer" in page.text
    assert "How sure the differences are" not in page.text


def test_systems_without_cost_have_no_cost_plot() -> None:
    report = small_report()
    for system in report["sets"][0]["systems"]:
        system.update(bytes_per_page=None, latency_ms=None)
    assert "Quality and cost" not in _Page(html_report(report)).headings


def test_several_sets_are_summed_up_and_linked() -> None:
    report = small_report()
    report["sets"] = [small_set(), {**small_set(), "name": "other"}, {**small_set(), "name": "all", "is_union": True}]
    page = _Page(html_report(report))
    targets = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    links = {str(attributes["href"])[1:] for tag, attributes in page.elements if tag == "a"}
    assert {"set-1", "set-2", "set-3"} <= links <= targets
    assert page.headings == HEADINGS * 3


def test_many_findings_fold_out_and_are_counted() -> None:
    report = small_report()
    report["sets"][0]["findings"] *= 12
    text = _Page(html_report(report)).text
    assert "And 7 more" in text
    assert text.count("warning:") == 12


def test_file_names_break_at_punctuation_and_stay_whole_for_reading() -> None:
    report = small_report()
    report["sets"][0]["hubness"]["hubs"][0]["file"] = "a_b/c-d.<i>"
    assert "a_<wbr>b/<wbr>c-<wbr>d.<wbr>&lt;i&gt;" in html_report(report)


def test_synthetic_labels_are_marked() -> None:
    report = small_report()
    assert "Synthetic labels" not in html_report(report)
    report["sets"][0]["synthetic"] = True
    assert "Synthetic labels" in html_report(report)


def test_a_sweep_has_its_front() -> None:
    rows: list[Row] = [
        {
            "codec": codec, "dim": 384, "projection": "none", "pool": 1, "prefilter": "none", "n_candidates": None,
            "measures": {"nDCG@10": interval(mean)}, "difference": {**interval(mean - 0.7), "verdict": verdict},
            "bytes_per_page": size, "latency_ms": {"p50": 3.0, "p95": 4.0}, "pareto": front, "pareto_latency": False,
        }
        for codec, mean, size, front, verdict in (
            ("int8", 0.7, 2e5, True, "tie"), ("binary", 0.5, 3e4, True, "worse"), ("float32", 0.7, 8e5, False, "tie"),
        )
    ]  # fmt: skip
    base = small_report()
    sweep = {**{key: base[key] for key in ("created", "tool_version", "machine", "model")}, "rows": rows}
    sweep |= {"schema": "colret-eval-sweep", "schema_version": 1, "random": {"nDCG@10": 0.004}}
    sweep |= {"set": {"name": HOSTILE, "n_pages": 635, "n_queries": 12}}
    page = _Page(html_report(sweep))
    assert "binary, 384 dimensions, pool 1" in html_report(sweep)  # said of its mark
    assert "binary 384 1 all pages" in page.text
    assert "▼ worse \N{MINUS SIGN}0.200" in page.text
    assert len([1 for _, attributes in page.elements if attributes.get("class") == "chart"]) == 2


def test_the_command_writes_the_page_beside_the_report(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps(small_report()))
    made = CliRunner().invoke(cli, ["eval", "html", str(tmp_path)])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "report.html").read_text() == html_report(small_report())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "is no report of an evaluation"),
        ('{"schema": "colret-eval-run", "schema_version": 99}', "has version 99 of the report's schema, not 1"),
        ('{"schema": "colret-eval-run", "schema_version": 1}', "lacks 'created'"),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(text)
    refused = subprocess.run(
        [sys.executable, "-m", "colret_cli", "eval", "html", str(file)], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert problem in refused.stderr
    assert refused.stderr.count("\n") == 1


@given(
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.floats(1e-3, 1e6),
    st.sampled_from(["linear", "log"]),
    st.booleans(),
)
def test_ticks_are_on_the_axis_and_in_order(low: float, width: float, kind: str, whole: bool) -> None:
    low = abs(low) + 1e-3 if kind == "log" else low
    values = [low, low + width]
    scale = Scale(Axis("x", "log" if kind == "log" else "linear", whole=whole), values, 0.0, 100.0)
    places = [scale(tick) for tick in scale.ticks]
    assert 2 <= len(places) <= 12
    assert places == sorted(set(places))
    assert all(-1e-6 <= place <= 100 + 1e-6 for place in places)
    assert 0 <= scale(values[0]) <= scale(values[1]) <= 100


ANY = st.floats(-1e12, 1e12, allow_subnormal=False) | st.sampled_from([math.nan, math.inf, -math.inf])


@given(st.lists(st.tuples(ANY, ANY), max_size=12), st.sampled_from(["linear", "log"]))
def test_charts_hold_finite_places_only(values: list[tuple[float, float]], kind: str) -> None:
    x = Axis("x", "log" if kind == "log" else "linear")
    drawn = chart([Series("a", [Point(a, b) for a, b in values], 0)], x, Axis("y"), "any")
    drawable = [
        (a, b) for a, b in values if math.isfinite(a) and math.isfinite(b) and (kind == "linear" or a > 0)
    ]  # fmt: skip
    assert drawn.count('class="mark"') == len(drawable)
    assert not re.search(r"\b(nan|inf)\b", drawn)


def test_numbers_on_axes() -> None:
    shown = [number(value) for value in (0, 0.25, 12, 1500, 20_000, 3e6, 0.002)]
    assert shown == ["0", "0.25", "12", "1,500", "20k", "3M", "0.002"]


def test_the_report_is_left_as_it_was() -> None:
    report = small_report()
    before = copy.deepcopy(report)
    html_report(report)
    assert report == before


def test_a_real_run_has_its_page(tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the evaluation writes is what the page reads: a figure for every part, and its queries by name."""
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    folder, out = write_set(tmp_path / "set", unanswered=UNANSWERED), tmp_path / "out"
    asked = ["eval", "run", str(folder), "--out", str(out), "--model", "embedded", "--systems"]
    made = CliRunner().invoke(cli, [*asked, "late_interaction,two_stage,single_mean,bm25"], catch_exceptions=False)
    assert made.exit_code == 0, made.output
    page = _Page((out / "report.html").read_text())
    assert page.headings == HEADINGS
    assert "Not measured here" not in page.text
    assert "24 queries with an answer and 3 without" in page.text
    assert all(question in page.text for _, question in TOPICS)
    charts = [attributes["aria-label"] for tag, attributes in page.elements if attributes.get("class") == "chart"]
    assert len(charts) == 5 + len(json.loads((out / "report.json").read_text())["sets"][0]["score_floor"]["kinds"])
    assert any(tag == "image" for tag, _ in page.elements)
    compared = CliRunner().invoke(cli, ["eval", "compare", str(out), str(out), "--system", "bm25"])
    assert "set, bm25: 24 queries compared" in compared.output
