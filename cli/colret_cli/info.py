"""``colret info``: what an index holds."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from colret_cli.listing import reasons_of
from colret_cli.options import index_option, json_option, open_store
from colret_cli.output import show_bytes

if TYPE_CHECKING:
    from colret.calibration import Calibration
    from colret.location import Location


@click.command()
@index_option
@json_option
def info(index_path: Location, as_json: bool) -> None:
    """Show what the index holds: model, pages, vectors, bytes, and whether its score floor is calibrated.

    \b
    Example:
      colret info --index archive
    """
    from colret.calibration import load_calibration
    from colret.codecs import bytes_per_vector
    from colret.search import fresh

    store = open_store(index_path)
    found = fresh(store, store.info)
    calibration = load_calibration(store)
    misfit = "" if calibration is None else calibration.misfit(found.settings, found.n_pages)
    settings = found.settings
    reasons = Counter(reason for record in store.documents() for reason in reasons_of(record))
    if as_json:
        more = {"index": str(index_path), "live_bytes": found.live_bytes, "reasons": dict(sorted(reasons.items()))}
        fitted = None if calibration is None else asdict(calibration) | {"misfit": misfit or None}
        click.echo(json.dumps(asdict(found) | more | {"calibration": fitted}))
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
        "calibrated": _calibrated(calibration, misfit),
        "made": f"{settings.created} by colret {settings.tool_version}, format {settings.format_version}",
    }
    for name, value in rows.items():
        click.echo(f"{name:<10} {value}")


def _calibrated(calibration: Calibration | None, misfit: str) -> str:
    if calibration is None:
        return "no; colret calibrate fits the score below which a page is no answer"
    if misfit:
        return f"no longer: {misfit}; calibrate it again with: colret calibrate"
    floors = ", ".join(f"{lane} {floor.floor:.3f}" for lane, floor in calibration.lanes.items())
    return f"{calibration.created}, {calibration.n_pages:,} pages; floors {floors}"
