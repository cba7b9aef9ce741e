"""The index of an ingest and its encoder: opened, or made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from colret_cli.options import check_model_name, load_encoder_of, open_store, usage_errors, when_free

if TYPE_CHECKING:
    from colret.encoders import Encoder
    from colret.location import Location
    from colret.store import PageStore
    from colret.types import Codec, IndexSettings


class Storage(NamedTuple):
    """How a new index stores vectors, as far as that was said."""

    codec: Codec | None
    dim: int | None
    pool: int | None


def open_or_create(
    index_path: Location,
    storage: Storage,
    options: dict[str, Any],
    wait: float,
    load: Callable[..., Encoder] | None = None,
) -> tuple[PageStore, Encoder]:
    """Open the index with its own encoder, or make one for the encoder that was asked for.

    Where that runs on other machines, ``load`` loads it there.
    """
    from colret.encoders import choose_model, load_encoder
    from colret.errors import StoreError
    from colret.index_encoder import EncoderWhenNeeded
    from colret.settings import settings_for
    from colret.store import PageStore

    check_model_name(options["model"])
    if options["model"] == "auto":
        options["model"] = None
    if PageStore.exists(index_path):
        store = open_store(index_path)
        _check_storage(store, storage)
        if options["image_tokens_only"] and store.settings.page_tokens != "image":
            remedy = "leave it out, or ingest into a new --index"
            raise StoreError(index_path, "was made without --image-tokens-only", remedy)
        if options["model"] or options["revision"]:  # insisted on, so checked even if nothing is new
            return store, load_encoder_of(store, load=load, **options)
        return store, EncoderWhenNeeded(lambda: load_encoder_of(store, load=load, **options))
    if options["model"] is None:
        options["model"], why = choose_model()
        click.echo(f"model: {options['model']} ({why}; --model chooses another)", err=True)
    name = options.pop("model")
    encoder = usage_errors(lambda: (load or load_encoder)(name, **options))
    settings = usage_errors(lambda: settings_for(encoder.info, storage.codec, dim=storage.dim, pool=storage.pool or 1))
    store = when_free(lambda: _create(index_path, settings), wait)
    _check_storage(store, storage)
    return store, encoder


def _create(path: Location, settings: IndexSettings) -> PageStore:
    """Make the index; open it if another process has made it while the model was loaded."""
    from colret.store import PageStore

    return PageStore.open(path) if PageStore.exists(path) else PageStore.create(path, settings)


def _check_storage(store: PageStore, storage: Storage) -> None:
    """Refuse to store vectors in another way than the index does."""
    from colret.errors import StoreError

    settings = store.settings
    stored = {"codec": settings.codec, "dim": settings.stored_dim, "pool": settings.pool}
    for name, wanted in storage._asdict().items():
        if wanted not in (None, stored[name]):
            remedy = f"leave --{name} out, or ingest into a new --index"
            raise StoreError(store.location, f"was made with --{name} {stored[name]}, not {wanted}", remedy)
