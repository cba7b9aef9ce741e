"""``colret list``: the documents of an index."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, get_args

import click

from colret.errors import Reason
from colret.wording import count
from colret_cli.options import index_option, json_option, open_store
from colret_cli.output import show_path

if TYPE_CHECKING:
    from colret.location import Location
    from colret.types import DocumentRecord


@click.command("list")
@index_option
@click.option("--failed", is_flag=True, help="Only documents that could not be used, whole or in part.")
@click.option("--reason", type=click.Choice(get_args(Reason)), metavar="CODE", help="Only those that failed for it.")
@json_option
def list_documents(index_path: Location, failed: bool, reason: str | None, as_json: bool) -> None:
    """List the documents of the index with their status.

    \b
    Example:
      colret list --failed
      colret list --reason password_required
    """
    from colret.search import fresh

    # What was replaced is of no path any more, and goes with the end of the ingest that is at it.
    store = open_store(index_path)
    records = [record for record in fresh(store, store.documents) if record.status != "replaced"]
    listed = records
    if failed:
        listed = [record for record in listed if record.status == "failed" or record.skipped]
    if reason:
        listed = [record for record in listed if reason in reasons_of(record)]
    for record in listed:
        click.echo(json.dumps(_as_json(record), ensure_ascii=False) if as_json else _as_text(record))
    if records and not listed:
        why = f"for {reason}" if reason else "in whole or in part"
        click.echo(f"none of {count(len(records), 'document')} failed {why}", err=True)


def reasons_of(record: DocumentRecord) -> set[str]:
    """Return the reasons for which a document, or pages of it, could not be used."""
    return {record.reason} if record.status == "failed" else {page.reason for page in record.skipped}


def _as_json(record: DocumentRecord) -> dict[str, object]:
    return asdict(record) | {
        "files": [file._asdict() for file in record.files],
        "skipped": [page._asdict() for page in record.skipped],
    }


def _as_text(record: DocumentRecord) -> str:
    lines = [f"{record.doc_id[:12]}  {record.status:<6}  {count(record.n_pages, 'page'):>10}  "]
    lines[0] += "  =  ".join(show_path(file.path) for file in record.files)
    if record.reason:
        lines.append(f"{'':14}{record.reason}: {record.message}")
    if record.status == "failed":  # told above, by its first page
        return "\n".join(lines)
    lines += [f"{'':14}page {page.number}: {page.reason}: {page.message}" for page in record.skipped]
    return "\n".join(lines)
