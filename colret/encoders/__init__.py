"""Encoders turn pages and queries into multivectors; ``load_encoder`` picks one by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from colret.encoders.catalogue import SHORTCUTS
from colret.encoders.devices import choose_placement
from colret.encoders.embedded import EMBEDDED
from colret.encoders.sources import find_source
from colret.encoders.text_checkpoints import is_text_checkpoint
from colret.errors import ColretError, ModelError
from colret.types import EncoderInfo, Page, PageEmbedding, QueryEmbedding


class Encoder(Protocol):
    """What ingest and search need of a model."""

    @property
    def info(self) -> EncoderInfo:
        """What an index must know of this encoder."""
        ...

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
    image_tokens_only: bool = False,
    queries_only: bool = False,
) -> Encoder:
    """Load the encoder called ``name``: what its checkpoint's files say it is, never its name.

    Args:
        name: "embedded", a short-cut of ``SHORTCUTS``, a local checkpoint folder, or a hub name.
        revision: A branch, tag or commit, for a hub name.
        device: "auto", or a torch device such as "cpu" or "cuda:1".
        dtype: "auto", "float32", "bfloat16" or "float16".
        batch_size: Pages encoded together by a vision model; by default what suits the device.
        image_tokens_only: Leave out the vectors of a vision model's prompt around the image.
        queries_only: Load what pages need only when the first come, where that is a part of its
            own: the embedded encoder's queries need no torch.

    Raises:
        ValueError: If an option has no such value.
        ModelError: If the model cannot be had, its weights do not fit it, or it reads words
            and is asked for image tokens.
    """
    if name == EMBEDDED:
        from colret.encoders.text import load_embedded

        _refuse_image_tokens(name, image_tokens_only)
        return load_embedded(device=device, dtype=dtype, queries_only=queries_only)
    placement = choose_placement(device, dtype, batch_size)  # refuses nonsense before a long download
    with blamed_on_model(name):
        source = find_source(SHORTCUTS.get(name, name), revision)
        if is_text_checkpoint(source):
            from colret.encoders.text import open_text

            _refuse_image_tokens(source.name, image_tokens_only)
            return open_text(source, device=device, dtype=dtype)
        from colret.encoders.colpali import open_colpali

        return open_colpali(source, placement, image_tokens_only=image_tokens_only)


@contextmanager
def blamed_on_model(subject: str, *, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn whatever a model's own code raises into one line about ``subject``.

    Checkpoints run a good part of transformers, peft and torch, which have no common error for a
    damaged or unfit one: this is the boundary where all of it is told.

    Args:
        subject: The model, or the page it was to encode.
        but: Exceptions that mean something else and pass.

    Raises:
        ModelError: Instead of any other exception.
    """
    try:
        yield
    except ColretError:
        raise
    except but:
        raise
    except Exception as error:
        problem = f"the model failed: {type(error).__name__}: {error}"
        raise ModelError(subject, problem, "choose another checkpoint, or use --model embedded") from error


def _refuse_image_tokens(name: str, image_tokens_only: bool) -> None:
    if image_tokens_only:
        raise ModelError(name, "reads words, so its pages have no image tokens", "leave --image-tokens-only out")


def pinned_revision(revision: str) -> str | None:
    """Return what to ask the hub for to get the weights an index was made with, if it was the hub."""
    commit = revision.partition("+")[0]  # an adapter's own commit comes before its base's
    return commit if re.fullmatch(r"[0-9a-f]{40}", commit) else None


def choose_model() -> tuple[str, str]:
    """Return the model that suits this machine, and why."""
    import torch

    if torch.cuda.is_available() or torch.backends.mps.is_available():
        return SHORTCUTS["colqwen2"], "a GPU is there to see pages as they look"
    return EMBEDDED, "no GPU is there, and it reads pages' words fast on a CPU"
