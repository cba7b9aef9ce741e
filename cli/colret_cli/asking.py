"""What ``colret query`` asks of an index, and how."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from colret.errors import ColretError
from colret_cli.options import usage_errors
from colret_cli.page_filters import naming_options
from colret_cli.terminal_images import file_name

if TYPE_CHECKING:
    from colret import Hit, Index, Results
    from colret.lanes import Lane


@dataclass
class Asking:
    """How an index is searched: what options of ``colret query`` say."""

    k: int
    lane: Lane | None
    where: str | None
    docs: tuple[str, ...]
    per_document: bool
    prefilter: str | None
    n_candidates: int | None

    def texts(self, index: Index, texts: Sequence[str]) -> list[Results]:
        """Return the answers to texts."""
        options = vars(self)
        with naming_options(self.where):
            return usage_errors(lambda: index.search_many(texts, **options))

    def example(self, index: Index, name: str, *, in_index: bool) -> Results:
        """Return the pages like an example, FILE or FILE#PAGE."""
        file, page = example_of(name)
        search = index.like if in_index else index.search_image
        with naming_options(self.where):
            return search(file, page, self.k, where=self.where, docs=self.docs, per_document=self.per_document)


def example_of(name: str) -> tuple[str, int]:
    """Return the file and the page that FILE or FILE#PAGE name."""
    return named_page(name) or (name, 1)


def named_page(name: str) -> tuple[str, int] | None:
    """Return the file and the page that FILE#PAGE names; None if it names no page."""
    found = re.fullmatch("(.+)#([1-9][0-9]{0,8})", name, re.DOTALL)
    return (found[1], int(found[2])) if found else None


def write_images(results: Results, folder: Path, token: int | None, prefix: str) -> list[Path | None]:
    """Write each hit's page as PNG, with heat and regions on it, into ``folder``.

    Args:
        results: Of a query.
        folder: Made where it is missing.
        token: The number, from 1, of the one token of the query whose heat to show.
        prefix: What the names of the files begin with.

    Returns:
        The files; None for a page whose document cannot be read any more, which is told on stderr.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ColretError(folder, f"cannot be made ({error.strerror})", "name another folder") from error
    names = [f"{prefix}{hit.rank:02}-{file_name(Path(hit.file).stem)}-{hit.page}.png" for hit in results]
    return [_write_image(hit, folder / name, token) for hit, name in zip(results, names, strict=True)]


def _write_image(hit: Hit, path: Path, token: int | None) -> Path | None:
    from colret.errors import DocumentError
    from colret.overlay import write_png

    try:
        image = usage_errors(lambda: hit.image(token=None if token is None else token - 1))
    except DocumentError as error:
        click.echo(f"colret: no image of hit {hit.rank}: {error}", err=True)
        return None
    write_png(image, path)
    return path
