"""``colret bench``: what prefilters keep and take on the user's own index."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

import click

from colret.wording import count
from colret_cli.options import (
    TextFile,
    device_option,
    index_option,
    json_option,
    load_encoder_of,
    model_option,
    open_store,
    usage_errors,
)
from colret_cli.output import show_bytes
from colret_cli.questions import read_questions

if TYPE_CHECKING:
    from colret.location import Location
    from colret.store import PageStore
    from colret.types import QueryEmbedding

_HEAD = ("prefilter", "C", "top-1", "top-5", "top-10", "p50 ms", "p95 ms", "bytes a page")


@click.command()
@index_option
@click.option(
    "--queries",
    "queries_file",
    type=TextFile(),
    required=True,
    help='Questions like those to come: one a line, or JSON lines with "text"; - is stdin.',
)
@click.option(
    "--prefilter",
    "prefilters",
    multiple=True,
    metavar="NAME",
    help="Measure this one, as for query; repeatable.  [default: single, sketch, binary, single+binary]",
)
@click.option(
    "--candidates",
    multiple=True,
    type=click.IntRange(min=1),
    help="Pages that it keeps for exact scoring; repeatable.  [default: 20, 50, 100, 200]",
)
@model_option
@device_option
@json_option
def bench(
    index_path: Location,
    queries_file: IO[str],
    prefilters: tuple[str, ...],
    candidates: tuple[int, ...],
    model: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Measure what each prefilter keeps of exact search on your own index, and how fast it is.

    For each prefilter and number of candidates C: the share of the exact top-1, top-5 and
    top-10 that it keeps, and the time of a query without encoding, one at a time. What it keeps
    of the right answers, only labels can tell: see colret eval.

    \b
    Example:
      colret bench --queries questions.txt
      colret bench --queries questions.txt --prefilter binary --candidates 50 --json
    """
    texts = [question.text for question in read_questions(queries_file)]

    from colret_eval.bench.prefilters import CANDIDATES, PREFILTERS, measure_prefilters

    store = open_store(index_path)
    queries = _encode(store, texts, model, device)
    rows = usage_errors(
        lambda: measure_prefilters(store, queries, prefilters or PREFILTERS, sorted(set(candidates or CANDIDATES)))
    )
    rows = [row | {"bytes_a_page": _bytes_a_page(store, row["prefilter"])} for row in rows]
    n_pages = store.n_pages()
    if as_json:
        click.echo(json.dumps({"n_pages": n_pages, "n_queries": len(queries), "rows": rows}))
        return
    info = store.info()
    kept = f"{info.settings.codec}, {show_bytes(info.bytes_on_disk / n_pages)} a page on disk"
    click.echo(f"N = {count(n_pages, 'page')}, {count(len(queries), 'question')}; {kept}\n")
    click.echo(_as_text(rows))


def _encode(store: PageStore, texts: list[str], model: str | None, device: str) -> list[QueryEmbedding]:
    from colret.search import embed

    encoder = load_encoder_of(store, device=device, model=model, queries_only=True)
    return usage_errors(lambda: embed(store, encoder, texts))


def _bytes_a_page(store: PageStore, prefilter: str) -> float:
    """Return the bytes that a prefilter reads of each page: signatures, and the single vector."""
    from colret.prefilter import Prefilter
    from colret.signatures import FOLDER

    plan = Prefilter.parse(prefilter)
    files = [file for kind in plan.kinds for file in (store.side_files / FOLDER).glob(f"{kind}-*/*")]
    single = 4 * store.settings.stored_dim if "single" in plan.stages else 0
    return sum(file.stat().st_size for file in files) / store.n_pages() + single


def _as_text(rows: list[dict[str, Any]]) -> str:
    lines = [
        [
            "exact" if row["prefilter"] == "none" else row["prefilter"],
            f"{row['n_candidates']:,}",
            *(f"{row[f'top{k}']:.3f}" for k in (1, 5, 10)),
            *(f"{row[name]:.1f}" for name in ("p50_ms", "p95_ms")),
            show_bytes(row["bytes_a_page"]) if row["prefilter"] != "none" else "-",
        ]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(_HEAD, *lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in [_HEAD, *lines]
    )
