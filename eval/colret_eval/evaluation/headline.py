"""The few sentences that a report begins with."""

from __future__ import annotations

from typing import Any, Final

from colret.prefilter import SMALL
from colret.wording import count
from colret_eval.evaluation.cells import probability
from colret_eval.evaluation.systems import BASELINES, BOTH, TEXT

MEASURE: Final = "nDCG@10"
FEW_QUERIES: Final = 20
_CHANCE, _TIMES = 0.001, 2.0  # of a hub worth a sentence: at most, and at least so many times the expectation


def headline(report: dict[str, Any]) -> list[str]:
    """Return what a set's report shows, the most important first."""
    return [
        *_synthetic(report),
        *_few(report),
        _main(report),
        *_comparisons(report),
        *_cost(report),
        *_losses(report),
        *_leakage(report),
        *_hubs(report),
        *_floor(report),
        *_labels(report),
    ]


def _few(report: dict[str, Any]) -> list[str]:
    n = report["n_queries"]
    if n >= FEW_QUERIES:
        return []
    asked = "There is one query" if n == 1 else f"There are only {n} queries"
    return [
        f"{asked}: too few to tell systems apart. Where all outcomes are alike, an interval has no width because it "
        "has seen nothing else, and not because the figure is sure."
    ]


def _main(report: dict[str, Any]) -> str:
    success = _system(report, report["reference"])["measures"]["Success@1"]
    return (
        f"Late interaction puts a right page first for {_percent(success)} of {report['n_queries']:,} queries "
        f"among N = {report['n_pages']:,} pages; a random order would for {report['random']['Success@1']:.1%}."
    )


def _comparisons(report: dict[str, Any]) -> list[str]:
    said: dict[str, list[str]] = {"better": [], "worse": [], "tie": []}
    for system in report["systems"]:
        if system["id"] in (*BASELINES, TEXT, BOTH) and system["differences"]:
            difference = system["differences"][MEASURE]
            p = probability(difference["p_holm"])
            said[difference["verdict"]].append(f"{system['label']} ({_signed(difference)}, {p})")
    openings = {
        "better": f"In {MEASURE} it is better than",
        "worse": f"In {MEASURE} it is worse than",
        "tie": f"No difference in {MEASURE} can be shown (a tie) to",
    }
    return [f"{openings[verdict]}: {'; '.join(names)}." for verdict, names in said.items() if names]


def _cost(report: dict[str, Any]) -> list[str]:
    if not report.get("cost"):
        return []
    latency = report["cost"]["latency"]
    found, total = report["cost"]["bytes"], latency["exact" if report["n_pages"] <= SMALL else "stages"][-1]
    return [
        f"It costs {found['on_disk_per_page'] / 1000:.0f} kB a page on disk (its vectors take "
        f"{found['ratio_to_single']:.0f} times the bytes of a single vector) and {total['p50_ms']:.0f} ms a query "
        f"({total['p95_ms']:.0f} ms for the slowest 5 %)."
    ]


def _losses(report: dict[str, Any]) -> list[str]:
    stages = report["stages"]
    lost = {row["name"]: row["lost"] for row in stages["rows"] if row["lost"] is not None}
    parts = ", ".join(f"{n} by the {name}" for name, n in lost.items())
    return [
        f"{stages['found']:,} of {stages['n_queries']:,} queries have a right page among the first {stages['k']} in "
        f"the end; lost: {parts}."
    ]


def _leakage(report: dict[str, Any]) -> list[str]:
    found = report["leakage"]
    if not found["n_groups"]:
        return []
    [row] = [row for row in found["systems"] if row["system"] == report["reference"]]
    change = row["measures"][MEASURE]["difference"]
    effect = (
        f"{MEASURE} changes by {_signed(change)}" if change["low"] or change["high"] else f"{MEASURE} stays the same"
    )
    pages, groups = count(found["n_pages_in_groups"], "page"), count(found["n_groups"], "group")
    return [f"{pages} in {groups} are near-duplicates; merged, {effect}."]


def _hubs(report: dict[str, Any]) -> list[str]:
    found = report["hubness"]
    if not found["hubs"]:
        return []
    largest = max(found["hubs"], key=lambda hub: int(hub["wrong"]))
    if largest["chance"] > _CHANCE or largest["wrong"] < _TIMES * found["expected"]:
        return []
    return [
        f"A hub: {largest['file']} page {largest['page']} is among the first {found['k']} for "
        f"{largest['occurrences']} queries and answers {largest['occurrences'] - largest['wrong']} of them; by chance "
        f"a page is there for {found['expected']:.1f}."
    ]


def _floor(report: dict[str, Any]) -> list[str]:
    rows = [kind for kind in report["score_floor"]["kinds"] if kind["chosen"]]
    return [
        f"Queries without an answer ({kind['what']}): a floor on the {kind['chosen']['signal']} that answers at "
        f"least {kind['chosen']['guarantee']:.0%} of answerable ones lets {kind['chosen']['false_answers']:.0%} of "
        "these through."
        for kind in rows
    ]


def _synthetic(report: dict[str, Any]) -> list[str]:
    warning = "The labels were made from headings and captions: do not choose a system by these figures."
    return [warning] if report["synthetic"] else []


def _labels(report: dict[str, Any]) -> list[str]:
    said = []
    n_warnings = len(report["findings"])
    if n_warnings:
        kinds = ", ".join(dict.fromkeys(finding["kind"].replace("_", " ") for finding in report["findings"]))
        said.append(f"The check of the labels has {count(n_warnings, 'warning')} ({kinds}): see below.")
    if report["n_relevant_unsearchable"]:
        n = report["n_relevant_unsearchable"]
        said.append(
            f"{count(n, 'labelled page')} without anything to search (blank or unreadable), which no system can find."
        )
    return said


def _system(report: dict[str, Any], system_id: str) -> dict[str, Any]:
    [system] = [system for system in report["systems"] if system["id"] == system_id]
    return dict(system)


def _percent(interval: dict[str, Any]) -> str:
    return f"{interval['mean']:.0%} (95 % interval {interval['low']:.0%} to {interval['high']:.0%})"


def _signed(interval: dict[str, Any]) -> str:
    mean, low, high = (f"{interval[name]:+z.3f}" for name in ("mean", "low", "high"))
    return f"{mean}, {low} to {high}"
