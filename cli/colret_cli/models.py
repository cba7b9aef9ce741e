"""``colret models``: what can be named by one word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from colret_cli.options import json_option

if TYPE_CHECKING:
    from colret.encoders.catalogue import CatalogueEntry


@click.command()
@json_option
def models(as_json: bool) -> None:
    """List the models that have a short name, with licence, score and wanted hardware.

    Any other checkpoint of the ColPali family, or of a BERT-type or ColBERT-type text model,
    can be used by its folder or hub name.

    \b
    Example:
      colret models
      colret ingest scans --model colmodernvbert
    """
    from colret.encoders.catalogue import CATALOGUE

    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in CATALOGUE]))
        return
    for line in _table(CATALOGUE):
        click.echo(line)


def _table(entries: Sequence[CatalogueEntry]) -> list[str]:
    sources = list(dict.fromkeys(entry.source for entry in entries if entry.source))
    rows = [_HEADINGS, *(_row(entry, sources) for entry in entries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    notes = [f"[{number}] {source}" for number, source in enumerate(sources, start=1)]
    return [*lines, "", "ViDoRe: nDCG@5, mean over ViDoRe v1, as published; colret has not measured it.", *notes]


def _row(entry: CatalogueEntry, sources: Sequence[str]) -> tuple[str, ...]:
    score = "-" if entry.ndcg5_vidore1 is None else f"{entry.ndcg5_vidore1} [{sources.index(entry.source) + 1}]"
    return (
        entry.short_name,
        entry.hub_name or "(comes with colret)",
        entry.reads,
        f"{entry.n_parameters / 1e6:,.0f} M",
        str(entry.dim),
        entry.vectors_per_page,
        score,
        entry.licence,
        entry.hardware,
    )


_HEADINGS = ("name", "model", "reads", "size", "D", "vectors/page", "ViDoRe", "licence", "wants")
