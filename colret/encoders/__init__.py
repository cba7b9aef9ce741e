"""Encoders turn pages and queries into multivectors; ``load_encoder`` picks one by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from colret.types import EncoderInfo, Page, PageEmbedding, QueryEmbedding


class Encoder(Protocol):
    """What ingest and search need of a model."""

    info: EncoderInfo

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Return one multivector per page, independent of which pages come together.

        A page with nothing to encode gets zero vectors.

        Raises:
            ModelError: If the model returns something that is not a direction (NaN, zero norm).
        """
        ...

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Return one multivector per query, independent of which queries come together.

        Raises:
            ValueError: If a text has no tokens.
        """
        ...


def load_encoder(
    name: str,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    batch_size: int | None = None,
) -> Encoder:
    """Load the encoder called ``name``.

    Args:
        name: "embedded", a short-cut of ``SHORTCUTS``, a local checkpoint folder, or a hub name.
        revision: A branch, tag or commit, for a hub name.
        device: "auto", or a torch device such as "cpu" or "cuda:1".
        dtype: "auto", "float32", "bfloat16" or "float16".
        batch_size: Pages encoded together; by default what suits the device.

    Raises:
        ModelError: If the model cannot be had, or its weights do not fit it.
    """
    if name == "embedded":
        from colret.encoders.text import load_embedded

        return load_embedded(device=device, dtype=dtype)
    from colret.encoders.colpali import load_colpali

    return load_colpali(SHORTCUTS.get(name, name), revision=revision, device=device, dtype=dtype, batch_size=batch_size)


def pinned_revision(revision: str) -> str | None:
    """Return what to ask the hub for to get the weights an index was made with, if it was the hub."""
    commit = revision.partition("+")[0]  # an adapter's own commit comes before its base's
    return commit if re.fullmatch(r"[0-9a-f]{40}", commit) else None


def choose_model() -> tuple[str, str]:
    """Return the model that suits this machine, and why."""
    import torch

    if torch.cuda.is_available() or torch.backends.mps.is_available():
        return SHORTCUTS["colqwen2"], "a GPU is there to see pages as they look"
    return "embedded", "no GPU is there, and it reads pages' words fast on a CPU"


SHORTCUTS = {
    "colpali": "vidore/colpali-v1.3",
    "colqwen2": "vidore/colqwen2-v1.0",
    "colqwen2.5": "vidore/colqwen2.5-v0.2",
    "colsmol": "vidore/colSmol-256M",
    "colmodernvbert": "ModernVBERT/colmodernvbert",
}
"""Short names of published checkpoints on the Hugging Face hub."""
