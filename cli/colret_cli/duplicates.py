"""``colret duplicates``: pages that are nearly one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from colret.wording import count
from colret_cli.options import NumberRange, index_option, json_option, open_store
from colret_cli.output import show_path

if TYPE_CHECKING:
    from colret.location import Location
    from colret.near_duplicates import DuplicateGroup


@click.command()
@index_option
@click.option(
    "--threshold",
    type=NumberRange(0.5, 1),
    default=0.8,
    show_default=True,
    help="Share of their runs of three words that two pages have in common; 1 is the same words.",
)
@json_option
def duplicates(index_path: Location, threshold: float, as_json: bool) -> None:
    """List pages that are nearly one, by their words, or by their images where they have none.

    Files with the same content are one document, and are not listed: see colret list.

    \b
    Example:
      colret duplicates
      colret duplicates --threshold 1 --json
    """
    from colret.near_duplicates import near_duplicates
    from colret.search import fresh

    store = open_store(index_path)
    groups = fresh(store, lambda: near_duplicates(store, threshold))
    paths = store.paths([page.ref.doc_id for group in groups for page in group.pages])
    if as_json:
        found = {"n_pages": store.n_pages(), "threshold": threshold}
        click.echo(json.dumps(found | {"groups": [_as_json(group, paths) for group in groups]}, ensure_ascii=False))
        return
    for group in groups:
        alike = "the same words" if group.by == "words" and group.similarity == 1 else f"{group.similarity:.2f} alike"
        click.echo(f"{count(len(group.pages), 'page')}, {alike}{'' if group.by == 'words' else ' by image'}")
        for page in group.pages:
            click.echo(f"  {show_path(paths[page.ref.doc_id][0])}  page {page.ref.number}")
    n_in_groups = sum(len(group.pages) for group in groups)
    click.echo(
        f"{count(len(groups), 'group')} of {count(n_in_groups, 'page')}, {count(store.n_pages(), 'page')} in all"
    )


def _as_json(group: DuplicateGroup, paths: dict[str, list[str]]) -> dict[str, Any]:
    pages = [
        {"file": paths[page.ref.doc_id][0], "page": page.ref.number, "page_id": page.ref.page_id}
        for page in group.pages
    ]
    return {"similarity": round(group.similarity, 6), "by": group.by, "pages": pages}
