"""``colret remove``: take documents out of an index."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from colret.wording import count
from colret_cli.options import complete_files, index_option, json_option, open_store, wait_option, when_free
from colret_cli.output import show_path

if TYPE_CHECKING:
    from colret.location import Location


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="PATH|ID...", shell_complete=complete_files)
@index_option
@wait_option
@json_option
def remove(targets: tuple[str, ...], index_path: Location, wait: float, as_json: bool) -> None:
    """Remove documents from the index by file, folder or id; the files stay.

    A file that is still in a folder comes back when that folder is ingested again.

    \b
    Example:
      colret remove reports/draft.pdf 3f9a01c2
    """
    from colret.removal import remove as run

    store = open_store(index_path)
    removal = when_free(lambda: run(store, targets), wait)
    if as_json:
        removed = [record.doc_id for record in removal.documents]
        click.echo(json.dumps({"removed": removed, "n_paths_forgotten": removal.n_paths}))
        return
    for record in removal.documents:
        held = ", ".join(show_path(file.path) for file in record.files)
        click.echo(f"removed {record.doc_id[:12]}  {held}  ({count(record.n_pages, 'page')})")
    if removal.n_paths:
        click.echo(f"forgot {count(removal.n_paths, 'path')} of documents that other paths still hold")
