"""``colret export``: an index's pages for other engines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from colret.errors import printable
from colret.wording import count
from colret_cli.options import index_option, json_option, open_store
from colret_cli.output import ProgressLine, show_bytes, show_path

if TYPE_CHECKING:
    from colret.formats import Dtype, Format
    from colret.location import Location

_ADDRESS = re.compile("[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # a drive of Windows has one letter


def _as_folder(ctx: click.Context, parameter: click.Parameter, value: str) -> Path:
    """Return the path; an empty one, as an unset variable gives, would be the working folder."""
    if not value.strip():
        raise click.BadParameter("the path is empty", ctx, parameter)
    if _ADDRESS.match(value):
        problem = f"{printable(value)}: an export is a folder of this machine; name one, and copy it there yourself"
        raise click.BadParameter(problem, ctx, parameter)
    return Path(value)


@click.command()
@click.argument("dest", callback=_as_folder)
@index_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["parquet", "lancedb", "npy"]),
    default="parquet",
    show_default=True,
    help="A Parquet file, a LanceDB table with native multivectors, or NumPy arrays.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float16", "float32"]),
    default="float16",
    show_default=True,
    help="Type of the vectors' components; LanceDB searches float32 faster.",
)
@click.option("--where", metavar="SQL", help="Export only pages that satisfy a condition, as for colret query.")
@click.option("--doc", "docs", multiple=True, metavar="NAME", help="Export only this file, id or pattern; repeatable.")
@click.option("--force", is_flag=True, help="Replace an earlier export.")
@json_option
def export(
    dest: Path,
    index_path: Location,
    format_: Format,
    dtype: Dtype,
    where: str | None,
    docs: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Write the index's pages, their text and their vectors into a new folder DEST, for other engines.

    Vectors are decoded and have unit length. DEST/settings.json says which model made them and
    how a query has to be encoded.

    \b
    Example:
      colret export vectors
      colret export lance --format lancedb --dtype float32
    """
    from colret.export import export as run

    progress = ProgressLine()
    try:
        report = run(
            open_store(index_path),
            dest,
            format=format_,
            dtype=dtype,
            where=where,
            docs=docs,
            force=force,
            on_progress=progress,
        )
    finally:
        progress.clear()
    if as_json:
        click.echo(json.dumps({"dest": str(dest), "format": format_, "dtype": dtype, **report._asdict()}))
        return
    written = [count(report.n_documents, "document"), count(report.n_pages, "page"), count(report.n_vectors, "vector")]
    click.echo(f"{show_path(str(dest))}: {', '.join(written)}, {show_bytes(report.n_bytes)}")
