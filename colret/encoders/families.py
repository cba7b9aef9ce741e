"""The late-interaction page models of colpali-engine, as an explicit table.

A checkpoint's ``config.json`` decides, never its name: the architecture where it is one of
these, else the type of the backbone, which is what an adapter's base may state.

Queries follow the protocol under which the published models are evaluated, ``"Query: "``, the
text and ten augmentation tokens, although colpali-engine from 0.3.11 on leaves the prefix out
unless the caller adds it. What else each family was trained with:

- ColPali: versions 1.1 to 1.3 were trained by engine 0.2 with ``"Question: "`` and a newline
  at the end; engines 0.3.0 to 0.3.10 evaluated them with ``"Query: "``, newline included.
- ColQwen2, ColQwen2.5, ColIdefics3 (ColSmol): trained and evaluated with ``"Query: "``.
- ColQwen3, ColQwen3.5, ColModernVBert: came after the prefix's default had become empty.
- ColGemma3: the processor itself puts ``"Query: "`` inside a chat turn; the augmentation
  tokens are those of the engine's training collator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from colret.errors import ModelError

Layout = Literal["grid", "merged_grid", "tiles"]
"""How image tokens cover a page: one fixed grid, a grid by page shape, or tiles and an overview."""

N_AUGMENTATION = 10


@dataclass(frozen=True, slots=True)
class Family:
    """What the encoder needs to know of one kind of checkpoint."""

    name: str
    model_class: str  # of colpali_engine.models
    processor_class: str
    backbone: str  # config.json's model_type
    layout: Layout
    backbone_prefix: str = ""  # where the model keeps its backbone
    projection: str = "custom_text_proj"  # and its last layer
    query_prefix: str = "Query: "  # what we put before the text
    wrapper: str = "{}"  # what the processor puts around it, for the template that people read
    prefix_attention: bool = False  # every token sees every other, in queries too
    max_pixels: int = 0  # a bound where checkpoints state none that is practical; 0 is theirs

    def ported_names(self) -> dict[str, str]:
        """Return patterns that turn a transformers-native checkpoint's keys into this model's."""
        return {
            r"^vlm\.language_model\.model\.": f"{self.backbone_prefix}language_model.",
            r"^vlm\.model\.": self.backbone_prefix,
            r"^vlm\.": self.backbone_prefix,
            r"^embedding_proj_layer": self.projection,
        }

    def query_template(self, augmentation_token: str) -> str:
        """Return in readable form how a query is wrapped: ``Query: {}<pad>x10``."""
        return self.wrapper.replace("{}", f"{self.query_prefix}{{}}{augmentation_token}x{N_AUGMENTATION}")


_TABLE = (
    Family(
        "colpali",
        "ColPali",
        "ColPaliProcessor",
        "paligemma",
        "grid",
        backbone_prefix="model.model.",
        prefix_attention=True,
    ),
    Family("colqwen2", "ColQwen2", "ColQwen2Processor", "qwen2_vl", "merged_grid"),
    Family("colqwen2.5", "ColQwen2_5", "ColQwen2_5_Processor", "qwen2_5_vl", "merged_grid"),
    # The backbones of these two allow 16 million pixels; the retrievers were trained with
    # 768 to 1,280 visual tokens of 32 x 32 pixels.
    Family("colqwen3", "ColQwen3", "ColQwen3Processor", "qwen3_vl", "merged_grid", max_pixels=1280 * 32 * 32),
    Family("colqwen3.5", "ColQwen3_5", "ColQwen3_5Processor", "qwen3_5", "merged_grid", max_pixels=1280 * 32 * 32),
    Family(
        "colidefics3",
        "ColIdefics3",
        "ColIdefics3Processor",
        "idefics3",
        "tiles",
        backbone_prefix="model.",
        projection="linear",
    ),
    Family(
        "colmodernvbert",
        "ColModernVBert",
        "ColModernVBertProcessor",
        "modernvbert",
        "tiles",
        backbone_prefix="model.",
    ),
    Family(
        "colgemma3",
        "ColGemma3",
        "ColGemmaProcessor3",
        "gemma3",
        "grid",
        query_prefix="",
        wrapper="user turn: Query: {}",
    ),
)
_BY_ARCHITECTURE = {family.model_class: family for family in _TABLE}
_BY_BACKBONE = {family.backbone: family for family in _TABLE}

FAMILY_NAMES = tuple(family.name for family in _TABLE)


def find_family(name: str, config: dict[str, Any]) -> Family:
    """Return the family of the checkpoint whose ``config.json`` holds ``config``.

    Args:
        name: The checkpoint, for the message.
        config: The parsed ``config.json``.

    Raises:
        ModelError: If it is another kind of model, such as a single-vector one.
    """
    architectures = [str(value) for value in config.get("architectures") or ()]
    backbone = str(ported_config(config).get("model_type"))
    for architecture in architectures:
        if architecture in _BY_ARCHITECTURE:
            return _BY_ARCHITECTURE[architecture]
    is_single_vector = any(value.startswith("Bi") for value in architectures)
    if backbone in _BY_BACKBONE and not is_single_vector:
        return _BY_BACKBONE[backbone]
    raise ModelError(
        name,
        f"a model of type {backbone!r} ({', '.join(architectures) or 'no architecture'}) is not one of "
        + ", ".join(FAMILY_NAMES)
        + ", nor a text encoder that colret knows",
        "choose a colpali-engine, BERT-type or ColBERT-type checkpoint, or use --model embedded",
    )


def ported_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the backbone's part of a transformers-native checkpoint's configuration.

    Such checkpoints, named "-hf" or "-merged" on the hub, hold the same weights in a model
    around the backbone; other configurations come back as they are.
    """
    inner = config.get("vlm_config")
    return inner if isinstance(inner, dict) else config
