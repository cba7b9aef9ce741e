"""What a new index is made with."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import metadata
from typing import Final

import colret
from colret.schema import FORMAT_VERSION
from colret.types import Codec, EncoderInfo, IndexSettings

COARSE_CODECS = ("int4", "binary")  # which want the variance of a projection spread over its dimensions
WIDE: Final = 256
"""Dimensions from which int4 is the default: its error in a similarity falls with their square root."""

_LIBRARIES = ("colpali-engine", "lancedb", "pypdfium2", "rapidocr", "torch", "transformers")


def default_codec(dim: int) -> Codec:
    """Return how vectors of so many dimensions are stored unless something else is asked for."""
    return "int4" if dim >= WIDE else "int8"


def settings_for(
    encoder: EncoderInfo, codec: Codec | None = None, *, dim: int | None = None, pool: int = 1
) -> IndexSettings:
    """Return the settings of a new index that ``encoder`` will fill.

    Args:
        encoder: What the index must know of it.
        codec: How vectors are stored; by default as ``default_codec`` says.
        dim: Dimensions to store, fewer than the encoder's; by default all of them.
        pool: Vectors of a page that become one.

    Raises:
        ValueError: If the encoder has fewer dimensions, or ``pool`` is below 1.
    """
    stored = encoder.dim if dim is None else dim
    if not 1 <= stored <= encoder.dim:
        raise ValueError(f"{encoder.name} has {encoder.dim} dimensions: {stored} of them cannot be stored")
    if pool < 1:
        raise ValueError("a pool factor is at least 1")
    codec = codec or default_codec(stored)
    return IndexSettings(
        model=encoder.name,
        revision=encoder.revision,
        family=encoder.family,
        dim=encoder.dim,
        query_template=encoder.query_template,
        codec=codec,
        format_version=FORMAT_VERSION,
        tool_version=colret.__version__,
        created=datetime.now(UTC).isoformat(),
        page_tokens=encoder.page_tokens,
        render_pixels=encoder.render_pixels,
        stored_dim=stored,
        pool=pool,
        projected=stored < encoder.dim or codec == "binary",
        libraries={name: metadata.version(name) for name in _LIBRARIES},
    )
