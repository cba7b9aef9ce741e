"""``colret index``: LanceDB's indexes over the pages, which make prefilters faster."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from colret.wording import count
from colret_cli.options import (
    TextFile,
    device_option,
    index_option,
    json_option,
    load_encoder_of,
    open_store,
    usage_errors,
)
from colret_cli.output import show_bytes
from colret_cli.questions import read_questions

if TYPE_CHECKING:
    from colret.ann import AnnReport
    from colret.column_indexes import AnnKind
    from colret.location import Location
    from colret.store import PageStore
    from colret.types import Float32

_KINDS = ("ivf_flat", "ivf_rq", "ivf_sq", "ivf_pq", "hnsw_sq")
_MEANINGS = {"single": "nearest single vectors", "terms": "words"}


@click.group()
def index() -> None:
    """Build, drop and list what makes prefilters faster.

    \b
    Example:
      colret index build --type ivf_flat
    """


@index.command()
@index_option
@click.option(
    "--type",
    "kind",
    type=click.Choice(["auto", *_KINDS]),
    default="auto",
    show_default=True,
    help="What is kept of each vector, and how they are walked.",
)
@click.option(
    "--partitions", type=click.IntRange(1, 1_000_000), help="Clusters of vectors.  [default: square root of pages]"
)
@click.option(
    "--nprobes", type=click.IntRange(1, 1_000_000), help="Clusters that a query looks into.  [default: measured]"
)
@click.option(
    "--refine",
    type=click.IntRange(1, 1000),
    help="Score this many times as many pages again by their exact vectors.  [default: measured]",
)
@click.option(
    "--queries",
    "queries_file",
    type=TextFile(),
    help="Measure with these, one a line or JSON lines; half choose the settings.  [default: made of the pages]",
)
@click.option("--model", help="Another name for the index's model, to encode --queries.")
@device_option
@json_option
def build(
    index_path: Location,
    kind: str,
    partitions: int | None,
    nprobes: int | None,
    refine: int | None,
    queries_file: IO[str] | None,
    model: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Build an ANN index over the pages' single vectors, for --prefilter single.

    Without one, every single vector is compared: exact, and fast up to some 50,000 pages. The
    index is then measured against that, and keeps the settings it was measured with. Ingests
    build it anew, and measure it again, when too many pages are missing in it; until then these
    are found without it.

    \b
    Example:
      colret index build
      colret index build --type ivf_rq --refine 4 --queries questions.txt
    """
    texts = [question.text for question in read_questions(queries_file)] if queries_file else None
    if texts is not None and len(texts) < 2:
        raise click.UsageError("--queries needs two queries: some choose the settings, others measure")
    store = open_store(index_path)
    chosen = _choose(store, kind)
    if chosen is None:
        pages = count(store.n_pages(), "page")
        if as_json:
            click.echo(json.dumps({"type": None, "n_pages": store.n_pages()}))
        else:
            click.echo(f"{pages}: comparing every vector is exact and fast enough; --type builds an index all the same")
        return
    queries = None if texts is None else _encode(store, texts, model, device)

    from colret.ann import build as run

    with _elapsed() as show:
        report = run(
            store, chosen, n_partitions=partitions, n_probes=nprobes, refine=refine, queries=queries, on_phase=show
        )
    click.echo(json.dumps(_fields(report)) if as_json else _as_text(report))


@index.command()
@index_option
def drop(index_path: Location) -> None:
    """Drop the ANN index: every single vector is compared again.

    \b
    Example:
      colret index drop
    """
    store = open_store(index_path)
    with store.writing():
        if "single" not in store.column_indexes():
            click.echo("there is no ANN index")
            return
        store.drop_index("single")
    click.echo("dropped the ANN index")


@index.command("list")
@index_option
@json_option
def list_indexes(index_path: Location, as_json: bool) -> None:
    """List the indexes, how many pages were added since, and the recall that was measured.

    \b
    Example:
      colret index list
    """
    from colret.ann import kept_report

    store = open_store(index_path)
    found = store.column_indexes()
    settings = store.ann_settings()
    report = kept_report(store)
    if as_json:
        ann = settings._asdict() if settings else None
        measured = _fields(report) if report else None
        indexes = [each._asdict() for each in found.values()]
        click.echo(json.dumps({"indexes": indexes, "ann": ann, "measured": measured}))
        return
    for each in sorted(found.values()):
        asked = (
            f", {settings.n_probes:,} of {settings.n_partitions:,} partitions probed, refine {settings.refine}"
            if settings and each.column == "single"
            else ""
        )
        click.echo(
            f"{_MEANINGS[each.column]:<22}  {each.kind}  {count(each.n_indexed, 'page')} "
            f"({each.n_unindexed:,} more without it)  {show_bytes(each.n_bytes)}{asked}"
        )
        if each.column == "single":
            click.echo("\n".join(_measured(report) if report else ["its recall was not measured: colret index build"]))
    if "single" not in found:
        click.echo(f"{_MEANINGS['single']:<22}  none: every vector is compared")


def _choose(store: PageStore, kind: str) -> AnnKind | None:
    from colret.ann import choose_kind
    from colret.column_indexes import ANN_KINDS

    if kind == "auto":
        return choose_kind(store.n_pages(), store.settings.stored_dim)
    return next(each for each in ANN_KINDS if each == kind)


def _encode(store: PageStore, texts: list[str], model: str | None, device: str) -> Float32:
    """Return the single vectors of queries as the index stores those of pages, (n, d) float32."""
    import numpy as np

    from colret.compression import Compression
    from colret.scoring import mean_direction
    from colret.search import embed

    encoder = load_encoder_of(store, device=device, model=model, queries_only=True)
    embeddings = usage_errors(lambda: embed(store, encoder, texts))
    compression = Compression(matrix=store.projection())
    return np.stack([mean_direction(compression.query(query).vectors) for query in embeddings])


def _fields(report: AnnReport) -> dict[str, Any]:
    return report.settings._asdict() | {
        "n_pages": report.n_pages,
        "n_bytes": report.n_bytes,
        "build_seconds": round(report.build_seconds, 3),
        "n_queries": report.n_queries,
        "made_of": report.made_of,
        "created": report.created,
        "recalls": [recall._asdict() for recall in report.recalls],
    }


def _as_text(report: AnnReport) -> str:
    settings = report.settings
    lines = [
        f"{settings.kind} over {count(report.n_pages, 'page')}: {show_bytes(report.n_bytes)}, "
        f"built in {report.build_seconds:.1f} s",
        f"{settings.n_probes:,} of {settings.n_partitions:,} partitions probed, refine {settings.refine}",
        *_measured(report),
    ]
    if all(each.index_seconds > each.flat_seconds for each in report.recalls):
        lines.append("it is slower than comparing every vector; to be rid of it: colret index drop")
    return "\n".join(lines)


def _measured(report: AnnReport) -> list[str]:
    """Return the recall that was measured and how, in lines."""
    questions = f"{count(report.n_queries, 'question')} ({report.made_of}; others chose the settings)"
    return [
        f"measured at {count(report.n_pages, 'page')} with {questions}",
        *(
            f"recall@{each.n_candidates} {each.recall:.3f} [{each.low:.3f}, {each.high:.3f}] of the flat search's, "
            f"{each.index_seconds * 1000:.1f} ms against {each.flat_seconds * 1000:.1f} ms: "
            f"{each.flat_seconds / each.index_seconds:.1f} times as fast"
            for each in report.recalls
        ),
    ]


@contextmanager
def _elapsed() -> Iterator[Any]:
    """Give what shows, on stderr, the phase that began and the seconds since: LanceDB tells no progress."""
    redraws = sys.stderr.isatty()
    phase, started, over = "", time.monotonic(), threading.Event()

    def draw() -> None:
        while not over.wait(0.5):
            click.echo(f"\r\x1b[K{phase}  {time.monotonic() - started:.0f} s", err=True, nl=False)

    def show(text: str) -> None:
        nonlocal phase, started
        phase, started = text, time.monotonic()
        if not redraws:
            click.echo(text, err=True)

    drawing = threading.Thread(target=draw, daemon=True)
    if redraws:
        drawing.start()
    try:
        yield show
    finally:
        over.set()
        if redraws:
            drawing.join()
            click.echo("\r\x1b[K", err=True, nl=False)
