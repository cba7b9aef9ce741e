"""report.html from report.json alone: one page that loads nothing, and can be read without its script.

Queries, file names and pictures come from whoever made the set, so that nothing of them is trusted:
all text is escaped, pictures are embedded JPEG or PNG or none, and the page's own policy lets
no script run but the one whose hash it names.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup

from colret_eval.explanations import conformal, near_duplicates, resampling, shipped
from colret_eval.page_text import FILTERS, shown
from colret_eval.plots import (
    STAGES,
    Figure,
    Row,
    cost_figures,
    floor_figure,
    hub_figure,
    size_figure,
    stage_figure,
    sweep_figures,
)
from colret_eval.report_file import SWEEP, Report
from colret_eval.synth import WORTH

PREFERRED = ("nDCG@10", "nDCG@5", "MRR@10", "Success@1")
"""The measure that stands for all where there is room for one: the first of these that was measured."""

CHOSEN = ("nDCG@10", "Success@1", "Success@5", "Recall@10", "MRR@10")
"""Measures of the first table; the others fold out."""

N_OPEN = 5
"""Findings, and skipped pages, that are shown; the others fold out."""

BYTE_ROWS = (
    ("on_disk_per_page", "all of the index"),
    ("pages_table_per_page", "of it, vectors and page texts"),
    ("side_files_per_page", "of it, files that speed up search"),
    ("predicted_vectors_per_page", "vectors, as predicted from their number and codec"),
    ("predicted_float32_per_page", "vectors, had they been kept as float32"),
    ("single_vector_per_page", "a single float32 vector"),
)
_PICTURE = re.compile(r"data:image/(?:jpeg|png);base64,[A-Za-z0-9+/]+={0,2}")


class Picture(NamedTuple):
    """A page's thumbnail, which the page holds once and shows where it is named."""

    id: str
    data: str  # data:image/...


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows of one set, beside the set itself."""

    labels: Mapping[str, str]  # by system id
    measures: Sequence[str]
    chosen: Sequence[str]
    main_first: Sequence[str]  # for tables with a row per measure
    compared: Sequence[Row]  # systems with a difference from the reference
    ranking: Sequence[Row]  # systems that the queries have ranks of
    costs: Sequence[Figure]
    size: Figure | None
    stages: Figure | None
    hubs: Figure | None
    floors: Sequence[Figure | None]
    worst: Sequence[Row]  # queries
    regressions: Sequence[Row]
    pictures: Mapping[str, Picture]  # by page key
    n_folded: int  # findings and skipped pages beyond the first few
    resampling: str
    shipped: str


def html_report(report: Report) -> str:
    """Return the page of a report of ``colret eval run`` or ``colret eval sweep``.

    Parts that the report lacks are said to be unmeasured, or left out.
    """
    if report["schema"] == SWEEP:
        names = list(report["random"])
        main = main_measure(names)
        found: Row = next((row["measures"][main] for row in report["rows"] if main in row["measures"]), {})
        shown = {"figures": sweep_figures(report, main), "measures": _among(CHOSEN, names)[:3]}
        return _render("sweep.html", report=report, main=main, resampling=resampling(found), **shown)
    names = [measure["name"] for measure in report["measures"]]
    main = main_measure(names)
    views = [_view(data, names, main, place) for place, data in enumerate(report["sets"], start=1)]
    return _render(
        "report.html",
        report=report,
        main=main,
        views=views,
        stages=STAGES,
        byte_rows=BYTE_ROWS,
        n_open=N_OPEN,
    )


def main_measure(names: Sequence[str]) -> str:
    """Return the measure that stands for all where there is room for one, "" of none."""
    return next((name for name in (*PREFERRED, *names) if name in names), "")


def _view(data: Row, names: Sequence[str], main: str, place: int) -> View:
    systems = data["systems"]
    queries = {query["id"]: query for query in data.get("queries") or []}
    ranked = {system for query in queries.values() for system in query.get("ranks") or {}}
    return View(
        labels={system["id"]: system["label"] for system in systems},
        measures=names,
        chosen=_among(CHOSEN, names),
        main_first=[name for name in dict.fromkeys([main, "Success@1"]) if name in names],
        compared=[system for system in systems if system.get("differences")],
        ranking=[system for system in systems if system["id"] in ranked],
        costs=cost_figures(data, main),
        size=size_figure(data),
        stages=stage_figure(data),
        hubs=hub_figure(data),
        floors=[floor_figure(kind) for kind in (data.get("score_floor") or {}).get("kinds") or []],
        worst=[queries[name] for name in data.get("worst") or [] if name in queries],
        regressions=[queries[name] for name in data.get("regressions") or [] if name in queries],
        n_folded=sum(max(len(data.get(part) or []) - N_OPEN, 0) for part in ("findings", "skipped")),
        pictures=_pictures(data.get("thumbnails") or {}, f"picture-{place}"),
        resampling=_resampling(data, main),
        shipped=shipped(data["n_pages"]),
    )


def _resampling(data: Row, main: str) -> str:
    """Return what the reference's interval resamples, which all of the set do."""
    measures: Row = next((each["measures"] for each in data["systems"] if each["id"] == data["reference"]), {})
    return resampling(measures[main], data["n_sources"]) if main in measures else ""


def _pictures(thumbnails: Mapping[str, Any], prefix: str) -> dict[str, Picture]:
    """Return the pictures that are embedded ones, not addresses of others."""
    embedded = [(key, data) for key, data in thumbnails.items() if _PICTURE.fullmatch(str(data))]
    return {key: Picture(f"{prefix}-{n}", data) for n, (key, data) in enumerate(embedded)}


def _among(wanted: Sequence[str], names: Sequence[str]) -> list[str]:
    return [name for name in wanted if name in names] or list(names[:5])


def _render(template: str, **values: Any) -> str:
    script = _part("tables.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    own = {"style": Markup(_part("report.css")), "script": Markup(script), "script_hash": f"sha256-{digest}"}
    return _environment().get_template(template).render(worth=WORTH, **values, **own)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("colret_eval"),
        autoescape=True,
        finalize=shown,
        undefined=ChainableUndefined,  # what a report lacks is not shown
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS, conformal=conformal, near_duplicates=near_duplicates)
    return environment


def _part(name: str) -> str:
    return (files("colret_eval") / "templates" / name).read_text(encoding="utf-8")
