"""Indexes opened and made for ``colret.open`` and ``colret.create``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from colret import encoders
from colret.api import Index
from colret.encoders import choose_model
from colret.index_encoder import EncoderWhenNeeded, load_encoder_of
from colret.location import Location, StrPath
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import Codec


def open_index(
    path: Location | StrPath = ".colret",
    *,
    device: str = "auto",
    model: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Index:
    """Open an index; its model is loaded by the first search that needs it.

    Args:
        path: The folder that ``colret ingest`` or ``create`` made, or its address in an object
            store, such as ``s3://BUCKET/PREFIX``.
        device: Where the model runs: "auto", "cpu", "cuda", "cuda:N" or "mps".
        model: Another name for the index's model, such as its folder after a move.
        storage_options: For an object store: see ``object_storage``. What is not given comes from
            the environment.

    Raises:
        StoreError: If there is no index, or another format version wrote it.
    """
    store = PageStore.open(Location.of(path, storage_options))
    load = functools.partial(load_encoder_of, store, device=device, model=model, queries_only=True)
    return Index(store, EncoderWhenNeeded(load), device=device)


def create_index(
    path: Location | StrPath = ".colret",
    *,
    model: str = "auto",
    device: str = "auto",
    codec: Codec | None = None,
    dim: int | None = None,
    pool: int = 1,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> Index:
    """Make an empty index, which its model and the way it stores vectors are fixed for.

    Args:
        path: A folder that is not there yet, or empty; or an address without objects.
        model: "embedded", a short name of ``colret models``, a hub name or a folder; "auto" takes
            what suits the machine.
        device: As for ``open_index``.
        codec: How vectors are stored, as are ``dim`` and ``pool``: see ``settings.settings_for``.
        dim: Dimensions to store.
        pool: Vectors of a page that become one.
        storage_options: As for ``open_index``.
        options: What else ``encoders.load_encoder`` takes.

    Raises:
        ValueError: If an option has no such value.
        ModelError: If the model cannot be had.
        StoreError: If something is there already, or the folder cannot be written.
    """
    name = choose_model()[0] if model == "auto" else model
    location = Location.of(path, storage_options)
    encoder = encoders.load_encoder(name, device=device, **options)
    store = PageStore.create(location, settings_for(encoder.info, codec, dim=dim, pool=pool))
    return Index(store, encoder, device=device)
