"""How the pages that were found look: as JSON, as plain lines, as lines on a terminal."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from colret.errors import one_line, printable
from colret.wording import RANKED_BY, count
from colret_cli.evidence import evidence_fields, wrapped
from colret_cli.output import is_terminal, show_path

if TYPE_CHECKING:
    from rich.text import Text

    from colret import Hit, Results
    from colret_cli.questions import Question

_INDENT: Final = " " * 5
_NARROWEST, _USUAL, _WIDEST = 20, 80, 120  # columns that an answer takes; the usual where a terminal tells none


def print_results(question: Question, results: Results) -> None:
    """Print an answer, with colours, bold words and links if somebody sees it."""
    if is_styled():
        _print_styled(question, results)
        return
    lines = [_heading(question, results), *filter(None, [_nothing(results)])]
    lines += [line for hit in results for line in _plain(hit, results)]
    click.echo("\n".join(lines) + "\n")


def is_styled() -> bool:
    """Tell whether output goes to somebody who sees colours and wants them."""
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def as_json(question: Question, results: Results, images: list[Path | None] | None, *, with_regions: bool) -> str:
    """Return an answer as a line of JSON.

    Args:
        question: That was asked.
        results: Its answer.
        images: Of the hits, where they were written.
        with_regions: Whether to tell what of the pages matched.
    """
    verdict = results.verdict
    judged: dict[str, Any] | None = None
    if verdict is not None:
        judged = {"basis": verdict.basis, "unanswered": verdict.unanswered}
        judged |= {"probability": verdict.probability, "caveat": verdict.caveat or None}
    answer: dict[str, Any] = {} if question.query_id is None else {"query_id": question.query_id}
    answer |= {"query": question.text, "lane": results.lane, "n_pages": results.n_pages, "n_scored": results.n_scored}
    answer |= {"verdict": judged, "hits": [_fields(hit, with_regions=with_regions) for hit in results]}
    for hit, image in zip(answer["hits"], images or [], strict=False):
        hit["image"] = None if image is None else str(image)
    return json.dumps(answer, ensure_ascii=False)


def _fields(hit: Hit, *, with_regions: bool) -> dict[str, Any]:
    told = evidence_fields(hit.evidence) if with_regions else {}
    return {
        "rank": hit.rank,
        "file": hit.file,
        "paths": list(hit.paths),
        "page": hit.page,
        "page_id": hit.page_id,
        "score": round(hit.score, 6),
        "maxsim": round(hit.maxsim, 6),
        "bm25": round(hit.bm25, 6),
        "contents_page": hit.contents_page,
        "below_floor": hit.below_floor,
        "snippet": hit.snippet,
        "highlights": [list(span) for span in hit.highlights],
    } | {name: value for name, value in told.items() if name not in ("snippet", "highlights")}


def _heading(question: Question, results: Results) -> str:
    everything = results.n_scored == results.n_pages
    how = "all scored" if everything else f"the {results.n_scored:,} likeliest scored"
    return f"{one_line(question.text)}  [{count(results.n_pages, 'page')}, {how}; {RANKED_BY[results.lane]}]"


def _nothing(results: Results) -> str:
    """Return the line that says that no page answers; "" if one may."""
    verdict = results.verdict
    if verdict is None or not verdict.unanswered:
        return ""
    if not results.hits:
        return "     no page has these words"
    if verdict.odds:
        return f"     no page answers this (odds {verdict.odds} that one does)"
    return "     no page answers this (none stands out from the others; colret calibrate says how likely that is)"


def _plain(hit: Hit, results: Results) -> list[str]:
    place = f"{show_path(hit.file)}  page {hit.page}"
    return [f"{hit.rank:>3}. {place}  {_scores(hit, results)}{_remarks(hit)}", *wrapped(hit.snippet)]


def _scores(hit: Hit, results: Results) -> str:
    """Return what a hit is ranked by, and in brackets what that was made of."""
    if results.verdict is None:
        return f"{hit.score:.3f}"
    made_of = {
        "visual": f" ({hit.maxsim:.2f})",
        "text": "",
        "both": f" (MaxSim {hit.maxsim:.2f}, words {hit.bm25:.3f})",
    }
    return f"{hit.score:.3f}{made_of[results.lane]}"


def _remarks(hit: Hit) -> str:
    others = len(hit.paths) - 1
    said = {
        "contents page": hit.contents_page,
        "below the floor": hit.below_floor,
        f"also in {count(others, 'other file')}": others > 0,
    }
    return "".join(f"  ({remark})" for remark, holds in said.items() if holds)


def _print_styled(question: Question, results: Results) -> None:
    from rich.console import Console
    from rich.text import Text

    columns = os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL
    width = max(_NARROWEST, min(columns, _WIDEST))
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
    console.print(_heading(question, results), style="bold")
    if nothing := _nothing(results):
        console.print(nothing, style="yellow")
    for hit in results:
        first = f"{hit.rank:>3}. "
        for paragraph in (_placed(hit, results), _marked(hit)):
            for line in paragraph.wrap(console, width - len(_INDENT)):
                console.print(Text.assemble((first, "dim"), line))
                first = _INDENT
    console.print()


def _placed(hit: Hit, results: Results) -> Text:
    """Return where a hit is, linked to the file, and its scores."""
    from rich.style import Style
    from rich.text import Text

    from colret.places import place_of

    link = Style(color="cyan", link=f"{place_of(hit.file).as_uri()}#page={hit.page}", dim=hit.below_floor)
    place = Text.assemble((show_path(hit.file), link), f"  page {hit.page}  ", (_scores(hit, results), "dim"))
    return place.append(_remarks(hit), "yellow")


def _marked(hit: Hit) -> Text:
    """Return the snippet with what matched in bold."""
    from rich.text import Text

    marked, at = Text(), 0
    for start, end in (*hit.highlights, (len(hit.snippet), len(hit.snippet))):
        marked.append(printable(hit.snippet[at:start]))
        marked.append(printable(hit.snippet[start:end]), "bold")
        at = end
    return marked
