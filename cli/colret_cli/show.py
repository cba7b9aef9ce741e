"""``colret show``: one page, and why a query finds it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from colret.characters import running_text
from colret.errors import FilterError
from colret_cli.asking import named_page
from colret_cli.evidence import evidence_fields, evidence_lines, shortened, wrapped
from colret_cli.hits import is_styled
from colret_cli.options import (
    complete_files,
    device_option,
    index_option,
    json_option,
    load_encoder_of,
    model_option,
    open_store,
    usage_errors,
)
from colret_cli.output import show_path
from colret_cli.terminal_images import show_image

if TYPE_CHECKING:
    from PIL.Image import Image

    from colret.addresses import Place
    from colret.evidence import Evidence
    from colret.location import Location
    from colret.store import PageStore
    from colret.types import Candidate, PageRef, Words


class _Target(NamedTuple):
    """A page, in the index or not."""

    path: Place  # of the file that was named, or of the first that holds the document
    ref: PageRef
    store: PageStore | None  # None: the document is not in the index
    place: Candidate | None  # None: the page is not
    file: Path | None  # on this machine, of a document that is not in the index


@click.command()
@click.argument("page", metavar="FILE#PAGE", shell_complete=complete_files)
@index_option
@click.option("--query", "text", metavar="TEXT", help="Show what of the page matches TEXT.")
@click.option("--token", type=click.IntRange(min=1), help="Show the heat of one token of TEXT, by its number.")
@click.option(
    "--image-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="PNG to write.  [default: shown in the terminal where it can, else a temporary file]",
)
@click.option(
    "--size",
    type=click.IntRange(64, 4096),
    default=1200,
    show_default=True,
    help="Long side of the image in pixels.",
)
@model_option
@device_option
@json_option
def show(
    page: str,
    index_path: Location,
    text: str | None,
    token: int | None,
    image_out: Path | None,
    size: int,
    model: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Show a page and, for a query, the regions and words that match it.

    FILE is a path, or the first eight or more digits of a document's id. Heat is what the best
    token finds, and rectangles are numbered by what they contribute. The image appears in the
    terminal if that speaks the protocol of kitty or iTerm2 or sixels. With --json an image is
    written only where --image-out says.

    \b
    Example:
      colret show report.pdf#12 --query "net revenue by segment"
      colret show report.pdf#12 --query "net revenue" --token 2 --image-out heat.png
    """
    if token is not None and text is None:
        raise click.UsageError("--token needs --query")
    if text is not None and not text.strip():
        raise click.UsageError("the query is empty")
    if image_out is not None and image_out.suffix.lower() != ".png":
        raise click.UsageError(f"--image-out writes PNG: name a .png file, not {image_out}")
    target = _find_target(index_path, page)
    evidence = None if text is None else _evidence(target, text, model, device)
    if token is not None and evidence is not None and token > len(evidence.tokens):
        raise click.UsageError(f"--token {token}: the query has {len(evidence.tokens)} tokens that have a place")
    words = None if evidence else _words(target)
    _warn(target, text, evidence)
    if not as_json:
        click.echo(f"{show_path(str(target.path))}  page {target.ref.number}")
        lines = evidence_lines(evidence) if evidence else wrapped(_beginning(words))
        click.echo("\n".join(lines), color=is_styled())
    image = None
    if image_out is not None or not as_json:
        image = _show_image(_draw(target, evidence, token, size), target, image_out)
    if as_json:
        click.echo(json.dumps(_fields(target, evidence, words, image), ensure_ascii=False))
    elif image is not None:
        click.echo(show_path(str(image)))


def _find_target(index_path: Location, page: str) -> _Target:
    """Find the page that FILE#PAGE names: in the index, else in the file alone."""
    named = named_page(page)
    if named is None:
        raise click.UsageError(f"{page!r} is not FILE#PAGE, such as report.pdf#12")
    from colret.object_storage import is_remote
    from colret.originals import local_file
    from colret.places import absolute_place
    from colret.store import PageStore
    from colret.types import PageRef

    name, number = named
    store = open_store(index_path) if PageStore.exists(index_path) else None
    if store is not None:
        try:
            return _in_index(store, name, number)
        except FilterError:
            if not (is_remote(name) or os.path.exists(name)):
                raise
    path = absolute_place(name, index_path.options)
    return _Target(path, PageRef("", number), None, None, local_file(path))


def _in_index(store: PageStore, name: str, number: int) -> _Target:
    from colret.page_names import page_named
    from colret.places import place_of

    ref, place = page_named(store, name, number)
    return _Target(place_of(store.paths([ref.doc_id])[ref.doc_id][0]), ref, store, place, None)


def _evidence(target: _Target, text: str, model: str | None, device: str) -> Evidence | None:
    store = target.store
    if store is None or target.place is None:
        return None
    from colret.encoders import blamed_on_model
    from colret.evidence import find_evidence
    from colret.search import embed

    encoder = load_encoder_of(store, device=device, model=model, queries_only=True)
    with blamed_on_model(store.settings.model, but=(click.UsageError,)):
        [query] = usage_errors(lambda: embed(store, encoder, [text]))
        [evidence] = find_evidence(store, query, [target.place], encoder=encoder)
    return evidence


def _warn(target: _Target, text: str | None, evidence: Evidence | None) -> None:
    """Say on stderr what is less than was asked for."""
    if evidence is not None and evidence.coarse:
        click.echo(f"colret: regions are coarse: {evidence.coarse}", err=True)
    if evidence is None and text is not None:
        name = f"{show_path(str(target.path))} page {target.ref.number}"
        click.echo(f"colret: {name}: not in the index, so shown without heat; ingest it, or see: colret list", err=True)


def _words(target: _Target) -> Words:
    """Return the words of a page that nothing is asked of."""
    if target.store is not None and target.place is not None:
        return target.store.details([target.place.row_id])[0].words
    from colret.originals import read_page_of

    return read_page_of(_file(target), target.ref, pixels=0).words


def _draw(target: _Target, evidence: Evidence | None, token: int | None, size: int) -> Image:
    from colret.page_images import page_image

    file = _file(target)
    return page_image(file, target.ref, size=size, evidence=evidence, token=None if token is None else token - 1)


def _file(target: _Target) -> Path:
    from colret.originals import find_original

    if target.file is not None:
        return target.file
    assert target.store is not None
    return find_original(target.store, target.ref.doc_id)


def _show_image(image: Image, target: _Target, image_out: Path | None) -> Path | None:
    """Write the image where it is asked for, or show it, or write it to a temporary file; return that path."""
    from colret.overlay import write_png

    if image_out is None:
        return show_image(image, f"{target.path.stem}-{target.ref.number}")
    write_png(image, image_out)
    return image_out


def _fields(target: _Target, evidence: Evidence | None, words: Words | None, image: Path | None) -> dict[str, Any]:
    from colret.documents import display_path

    known = {"file": display_path(target.path), "page": target.ref.number}
    if target.place is not None:
        known["page_id"] = target.ref.page_id
    told = evidence_fields(evidence) if evidence else {"text": running_text(words.texts) if words else ""}
    return known | told | {"image": None if image is None else str(image)}


def _beginning(words: Words | None) -> str:
    return shortened(running_text(words.texts) if words else "", 600) or "(no words)"
