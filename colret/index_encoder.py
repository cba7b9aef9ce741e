"""The encoder of an index: found by what the index says of it, loaded when there is something to encode."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from colret import encoders
from colret.encoders import Encoder, pinned_revision
from colret.encoders.catalogue import SHORTCUTS
from colret.encoders.devices import choose_placement
from colret.encoders.embedded import EMBEDDED
from colret.errors import StoreError
from colret.store import PageStore
from colret.types import EncoderInfo, Page, PageEmbedding, QueryEmbedding


def load_encoder_of(
    store: PageStore,
    *,
    model: str | None = None,
    revision: str | None = None,
    load: Callable[..., Encoder] | None = None,
    **options: Any,
) -> Encoder:
    """Load the encoder that made an index, keeping the vectors that it kept.

    Args:
        store: The index.
        model: Another name for the index's model, such as that of a folder that moved.
        revision: As for ``load_encoder``; by default the one that made the index.
        load: What loads it, elsewhere than ``encoders.load_encoder`` does.
        options: What else ``load_encoder`` takes.

    Raises:
        ValueError: If an option has no such value.
        ColretError: If the model cannot be had, or is another one.
    """
    name = SHORTCUTS.get(model, model) if model else store.settings.model
    if name != store.settings.model and not os.path.isdir(os.path.expanduser(name)):  # no download to refuse it
        problem = f"was made by {store.settings.model}, not {name}"
        raise StoreError(store.location, problem, "leave --model out, or ingest into a new --index")
    if name == store.settings.model:
        revision = revision or pinned_revision(store.settings.revision)
    options["image_tokens_only"] = store.settings.page_tokens == "image"
    encoder = (load or encoders.load_encoder)(name, revision=revision, **options)
    store.check_encoder(encoder.info)
    return encoder


class EncoderWhenNeeded:
    """An encoder that is loaded when there is something to encode: a sync of nothing new loads no model."""

    def __init__(self, load: Callable[[], Encoder]) -> None:
        self._load = functools.cache(load)

    @property
    def info(self) -> EncoderInfo:
        """What the index must know of the encoder."""
        return self._load().info

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Encode pages with the encoder."""
        return self._load().encode_pages(pages)

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Encode queries with the encoder."""
        return self._load().encode_queries(texts)


def scoring_device(device: str, model: str) -> str:
    """Return where to compute MaxSim: with the model, where that is a GPU.

    Raises:
        ValueError: If the device is unknown.
        ModelError: If this machine does not have it.
    """
    if device == "cpu" or (device == "auto" and model == EMBEDDED):  # whose queries are encoded on the CPU
        return "cpu"  # without importing torch to ask for it
    chosen = choose_placement(device).device
    return str(chosen) if chosen.type == "cuda" else "cpu"  # torch has no segment maximum elsewhere
