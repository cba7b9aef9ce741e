"""``colret info``: what an index holds."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from colret_cli.listing import reasons_of
from colret_cli.options import index_option, json_option, open_store
from colret_cli.output import show_bytes


@click.command()
@index_option
@json_option
def info(index_path: Path, as_json: bool) -> None:
    """Show what the index holds: model, pages, vectors, bytes.

    \b
    Example:
      colret info --index archive
    """
    from colret.codecs import bytes_per_vector
    from colret.search import fresh

    store = open_store(index_path)
    found = fresh(store, store.info)
    settings = found.settings
    reasons = Counter(reason for record in store.documents() for reason in reasons_of(record))
    if as_json:
        more = {"index": str(index_path), "live_bytes": found.live_bytes, "reasons": dict(sorted(reasons.items()))}
        click.echo(json.dumps(asdict(found) | more))
        return
    per_page = f"{found.n_vectors / found.n_pages:.0f} a page" if found.n_pages else "none yet"
    codes = found.n_vectors * bytes_per_vector(settings.stored_dim, settings.codec)
    each = f", {show_bytes(found.bytes_on_disk / found.n_pages)} a page" if found.n_pages else ""
    kept = ", without those of the prompt" if settings.page_tokens == "image" else ""
    kept += f", {settings.pool} pooled into one" if settings.pool > 1 else ""
    of = f" of {settings.dim}" if settings.stored_dim < settings.dim else ""
    rows = {
        "index": str(index_path),
        "model": f"{settings.model} ({settings.revision})",
        "query": "as it is" if settings.query_template == "{}" else settings.query_template,
        "documents": f"{found.n_documents:,} ({found.n_failed} that could not be used)",
        "failures": ", ".join(f"{n} {reason}" for reason, n in reasons.most_common()) or "none",
        "pages": f"{found.n_pages:,} ({found.n_blank} blank and {found.n_skipped_pages} unreadable ones left out)",
        "vectors": f"{found.n_vectors:,} of {settings.stored_dim}{of} dimensions, {per_page}{kept}",
        "codec": f"{settings.codec}, {show_bytes(codes)} of codes",
        "on disk": f"{show_bytes(found.bytes_on_disk)}{each}; {show_bytes(found.dead_bytes)} of it dead",
        "made": f"{settings.created} by colret {settings.tool_version}, format {settings.format_version}",
    }
    for name, value in rows.items():
        click.echo(f"{name:<10} {value}")
