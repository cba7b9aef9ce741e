"""The model and the processor of a vision checkpoint, as colpali-engine has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from colret.encoders.adapters import adapter_tensors, attach_adapter
from colret.encoders.checkpoints import Checkpoint
from colret.encoders.families import ported_config
from colret.encoders.sources import read_json
from colret.encoders.torchvision_guard import import_torchvision
from colret.encoders.weights import REMEDY, check_keys, load_pretrained, place, quiet_transformers
from colret.errors import ModelError

if TYPE_CHECKING:
    import torch

# Tensors that older checkpoints hold and a retriever never reads: the generator's output layer,
# and tables that are computed from the configuration.
_UNUSED = re.compile(r"(^|\.)(lm_head\.weight|rotary_emb\.inv_freq|embeddings\.position_ids)$")


def load_processor(checkpoint: Checkpoint) -> Any:
    """Return the processor that prepares pages and queries for the model.

    Raises:
        ModelError: If its files are missing or unreadable.
    """
    processor_class = getattr(_engine(), checkpoint.family.processor_class)
    try:
        with quiet_transformers():
            processor = processor_class.from_pretrained(str(checkpoint.processor), local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        # transformers has no error of its own for a missing or unfit tokenizer or image processor.
        raise ModelError(checkpoint.name, f"its processor cannot be loaded: {error}", REMEDY) from error
    known = processor.tokenizer.tokenize("page")
    if not known or set(known) == {processor.tokenizer.unk_token}:
        # Without its files transformers makes an empty one, which turns every query into nothing.
        raise ModelError(checkpoint.name, "its tokenizer is missing, or knows no words", REMEDY)
    size = processor.image_processor.size
    if checkpoint.family.max_pixels:
        size["longest_edge"] = min(size["longest_edge"], checkpoint.family.max_pixels)
    return processor


def load_model(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Any:
    """Return the model on ``device``, with each of its weights read from the checkpoint.

    Raises:
        ModelError: If a tensor is missing, unexpected or wrongly shaped, or a file is unreadable.
    """
    model_class = getattr(_engine(), checkpoint.family.model_class)
    supplied = adapter_tensors(checkpoint, model_class) if checkpoint.adapter else {}
    options = {"dtype": dtype, "attn_implementation": "sdpa"} | _layout_options(checkpoint, model_class)
    model, report = load_pretrained(checkpoint.name, checkpoint.model, model_class, options)
    _drop_generator(model)
    never_filled = {name for name, parameter in model.named_parameters() if parameter.is_meta}
    check_keys(
        checkpoint.name,
        # An adapter may bring a layer whole, most often the projection that its base never had.
        missing=(set(report["missing_keys"]) | never_filled) - supplied.keys(),
        unexpected=(key for key in report["unexpected_keys"] if not _UNUSED.search(key)),
        misshapen=(entry[0] for entry in report["mismatched_keys"]),
    )
    if checkpoint.adapter:
        attach_adapter(checkpoint, model, supplied)
    return place(checkpoint.name, model, device).eval()


def _engine() -> Any:
    import_torchvision()
    from colpali_engine import models

    return models


def _layout_options(checkpoint: Checkpoint, model_class: Any) -> dict[str, Any]:
    """Return how to read the layouts of other times and of transformers' own ports."""
    renames = checkpoint.family.ported_names() | getattr(model_class, "_checkpoint_conversion_mapping", {})
    config = read_json(checkpoint.name, checkpoint.model / "config.json")
    backbone = ported_config(config)
    if backbone is config:
        return {"key_mapping": renames}
    return {"key_mapping": renames, "config": model_class.config_class.from_dict(backbone)}


def _drop_generator(model: Any) -> None:
    # ColPali keeps PaliGemma's output layer and calls it for every token, only to throw away
    # 257,000 scores for each; under transformers 5 it is moreover left without storage.
    import torch

    inner: Any = getattr(model, "model", None)
    if hasattr(inner, "lm_head"):
        inner.lm_head = torch.nn.Identity()
