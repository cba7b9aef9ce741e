"""``colret ingest``: bring an index up to date with folders."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from colret_cli.options import (
    EncoderWhenNeeded,
    device_option,
    index_option,
    json_option,
    load_encoder_of,
    open_store,
    usage_errors,
)
from colret_cli.output import ProgressLine, count, show_bytes, show_path

if TYPE_CHECKING:
    from colret.encoders import Encoder
    from colret.report import IngestReport
    from colret.store import PageStore
    from colret.types import Codec, IndexInfo

SOME_SKIPPED = 3  # exit code
FEW_VECTORS = 100  # for each dimension that a projection keeps


class Storage(NamedTuple):
    """How a new index stores vectors, as far as that was said."""

    codec: Codec | None
    dim: int | None
    pool: int | None


def _as_paths(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the paths; an empty one, as an unset variable gives, would be the working folder."""
    if not all(value.strip() for value in values):
        raise click.BadParameter("a path is empty", ctx, parameter)
    return tuple(map(Path, values))


def _as_batch_size(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    """Return the number; None, which the library takes for its own choice, for "auto"."""
    if value == "auto":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither auto nor a number from 1", ctx, parameter)
    return int(value)


@click.command()
@click.argument("paths", nargs=-1, required=True, callback=_as_paths, metavar="PATH...")
@index_option
@click.option(
    "--model", help="embedded, colpali, a checkpoint folder or a hub name.  [default: what the machine suits]"
)
@click.option("--revision", help="Branch, tag or commit of a model on the hub.")
@device_option
@click.option("--dtype", default="auto", show_default=True, help="auto, float32, bfloat16 or float16.")
@click.option(
    "--batch-size",
    default="auto",
    show_default=True,
    callback=_as_batch_size,
    help="Pages that a vision model encodes together: a number, or auto for what suits the device.",
)
@click.option(
    "--codec",
    type=click.Choice(["float16", "int8", "int4", "binary"]),
    help="How vectors are stored in a new index: 2, 1, 1/2 or 1/8 bytes a dimension.  "
    "[default: int4 from 256 dimensions on, else int8]",
)
@click.option(
    "--dim",
    type=click.IntRange(min=1),
    help="Dimensions to store in a new index, by a projection fitted to its first documents.  [default: all]",
)
@click.option(
    "--pool",
    type=click.IntRange(min=1),
    help="Vectors of a page that a new index merges into one, the most alike ones.  [default: 1]",
)
@click.option(
    "--image-tokens-only",
    is_flag=True,
    help="Leave the vectors of a vision model's prompt out of a new index.",
)
@click.option("--retry-failed", is_flag=True, help="Read documents again that could not be used before.")
@json_option
def ingest(
    paths: tuple[Path, ...],
    index_path: Path,
    codec: Codec | None,
    dim: int | None,
    pool: int | None,
    retry_failed: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Index the PDFs and images below each PATH.

    Again, it is a sync: files that have not changed are not read, changed ones replace what was
    there, and what was interrupted goes on. Exit code 3 means that some files or pages were
    skipped; they are listed.

    \b
    Example:
      colret ingest ~/reports
      colret ingest scans/ deck.pdf --index archive --model colqwen2
    """
    from colret.ingest import ingest as run

    started = time.monotonic()
    _check_paths(paths)
    store, encoder = _open_or_create(index_path, Storage(codec, dim, pool), options)
    progress = ProgressLine()
    try:
        report = run(paths, store, encoder, retry_failed=retry_failed, on_progress=progress)
    finally:
        progress.clear()
    seconds = time.monotonic() - started
    _print_report(report, store.info(), index_path, seconds, as_json=as_json)
    if report.skipped:
        sys.exit(SOME_SKIPPED)


def _check_paths(paths: tuple[Path, ...]) -> None:
    """Refuse paths without a single document, before a model is loaded or an index made."""
    from colret.documents import find_documents
    from colret.errors import DocumentError

    sources, problems = find_documents(paths)
    if sources:
        return
    if problems:
        raise problems[0]
    raise DocumentError(paths[0], "no PDFs or images in it", "name a folder that holds some", reason="missing")


def _open_or_create(index_path: Path, storage: Storage, options: dict[str, Any]) -> tuple[PageStore, Encoder]:
    """Open the index with its own encoder, or make one for the encoder that was asked for."""
    from colret.encoders import choose_model, load_encoder
    from colret.errors import StoreError
    from colret.settings import settings_for
    from colret.store import PageStore

    if PageStore.exists(index_path):
        store = open_store(index_path)
        _check_storage(store, storage)
        if options["image_tokens_only"] and store.settings.page_tokens != "image":
            remedy = "leave it out, or ingest into a new --index"
            raise StoreError(index_path, "was made without --image-tokens-only", remedy)
        if options["model"] or options["revision"]:  # insisted on, so checked even if nothing is new
            return store, load_encoder_of(store, **options)
        return store, EncoderWhenNeeded(lambda: load_encoder_of(store, **options))
    if options["model"] is not None and not options["model"].strip():
        raise click.UsageError("--model is empty")
    if options["model"] in (None, "auto"):
        options["model"], why = choose_model()
        click.echo(f"model: {options['model']} ({why}; --model chooses another)", err=True)
    name = options.pop("model")
    encoder = usage_errors(lambda: load_encoder(name, **options))
    settings = usage_errors(lambda: settings_for(encoder.info, storage.codec, dim=storage.dim, pool=storage.pool or 1))
    return PageStore.create(index_path, settings), encoder


def _check_storage(store: PageStore, storage: Storage) -> None:
    """Refuse to store vectors in another way than the index does."""
    from colret.errors import StoreError

    settings = store.settings
    stored = {"codec": settings.codec, "dim": settings.stored_dim, "pool": settings.pool}
    for name, wanted in storage._asdict().items():
        if wanted not in (None, stored[name]):
            remedy = f"leave --{name} out, or ingest into a new --index"
            raise StoreError(store.path, f"was made with --{name} {stored[name]}, not {wanted}", remedy)


def _print_report(report: IngestReport, info: IndexInfo, index_path: Path, seconds: float, *, as_json: bool) -> None:
    if as_json:
        totals = {
            "n_documents": info.n_documents,
            "n_pages": info.n_pages,
            "bytes_on_disk": info.bytes_on_disk,
        }
        values = asdict(report) | {"skipped": [item._asdict() for item in report.skipped]}
        click.echo(json.dumps(values | {"index": totals, "seconds": round(seconds, 3)}))
        return
    rate = f" ({report.n_pages / seconds:.1f} pages/s)" if report.n_pages else ""
    parts = [f"added {count(report.n_added, 'document')} ({count(report.n_pages, 'page')}, {report.n_blank} blank)"]
    parts += [f"{report.n_unchanged} unchanged"]
    parts += [f"{report.n_moved} copied or renamed"] if report.n_moved else []
    parts += [f"{report.n_replaced} replaced"] if report.n_replaced else []
    parts += [f"{len(report.skipped)} skipped"]
    click.echo(f"{', '.join(parts)}, in {seconds:.1f} s{rate}")
    if report.n_fitted:
        dim = info.settings.stored_dim
        few = "" if report.n_fitted >= FEW_VECTORS * dim else ", which is few: better start with more documents"
        click.echo(f"{dim} dimensions chosen by {count(report.n_fitted, 'vector')}{few}; they stay as they are")
    each = f", {show_bytes(info.bytes_on_disk / info.n_pages)} a page" if info.n_pages else ""
    click.echo(
        f"{index_path}: {count(info.n_documents, 'document')}, {count(info.n_pages, 'page')}, "
        f"{show_bytes(info.bytes_on_disk)} on disk{each}"
    )
    for item in report.skipped:
        page = f" page {item.page}" if item.page else ""
        click.echo(f"skipped {show_path(item.path)}{page}: {item.reason}: {item.message}")
