"""Load a checkpoint's weights, and refuse it unless every tensor found its place.

transformers fills what a checkpoint lacks with random numbers and only logs a report, so a
renamed or truncated file would give a model that runs and retrieves nothing.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colret.encoders.checkpoints import OTHERWISE, Checkpoint, read_json
from colret.encoders.devices import is_out_of_memory
from colret.encoders.families import ported_config
from colret.encoders.torchvision_guard import import_torchvision
from colret.errors import ModelError

if TYPE_CHECKING:
    import torch

_REMEDY = f"download it again or report it to its author, {OTHERWISE}"
_SHOWN = 5  # keys in a message; the rest is counted

# Tensors that older checkpoints hold and a retriever never reads: the generator's output layer,
# and tables that are computed from the configuration.
_UNUSED = re.compile(r"(^|\.)(lm_head\.weight|rotary_emb\.inv_freq|embeddings\.position_ids)$")


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from logging below errors and from drawing progress bars meanwhile."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


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
        raise ModelError(checkpoint.name, f"its processor cannot be loaded: {error}", _REMEDY) from error
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
    supplied = _adapter_tensors(checkpoint, model_class) if checkpoint.adapter else {}
    model, report = _load_full(checkpoint, model_class, dtype)
    _drop_generator(model)
    never_filled = {name for name, parameter in model.named_parameters() if parameter.is_meta}
    _check(
        checkpoint.name,
        # An adapter may bring a layer whole, most often the projection that its base never had.
        missing=(set(report["missing_keys"]) | never_filled) - supplied.keys(),
        unexpected=(key for key in report["unexpected_keys"] if not _UNUSED.search(key)),
        misshapen=(entry[0] for entry in report["mismatched_keys"]),
    )
    if checkpoint.adapter:
        _attach_adapter(checkpoint, model, supplied)
    return _place(checkpoint.name, model, device).eval()


def _place(name: str, model: Any, device: torch.device) -> Any:
    try:
        return model.to(device)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise ModelError(name, f"does not fit into the memory of {device}", f"try --device cpu, {OTHERWISE}") from error


def _engine() -> Any:
    import_torchvision()
    from colpali_engine import models

    return models


def _load_full(checkpoint: Checkpoint, model_class: Any, dtype: torch.dtype) -> tuple[Any, dict[str, Any]]:
    from safetensors import SafetensorError

    if not any(checkpoint.model.glob("*.safetensors")):
        raise ModelError(checkpoint.name, f"has no weights in {checkpoint.model.name}", _REMEDY)
    try:
        with quiet_transformers():
            loaded: tuple[Any, dict[str, Any]] = model_class.from_pretrained(
                str(checkpoint.model),
                dtype=dtype,
                attn_implementation="sdpa",
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # so that they are listed, to be refused here
                **_layout_options(checkpoint, model_class),
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(checkpoint.name, f"its weights cannot be loaded: {error}", _REMEDY) from error
    return loaded


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


def _check(name: str, *, missing: Iterable[str], unexpected: Iterable[str], misshapen: Iterable[str]) -> None:
    found = {
        "missing": sorted(missing),
        "unexpected": sorted(unexpected),
        "wrongly shaped": sorted(misshapen),
    }
    problems = [f"{kind}: {_abridge(keys)}" for kind, keys in found.items() if keys]
    if problems:
        raise ModelError(name, "the weights do not fit the model: " + "; ".join(problems), _REMEDY)


def _abridge(keys: list[str]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more


def _adapter_tensors(checkpoint: Checkpoint, model_class: Any) -> dict[str, torch.Tensor]:
    """Return the adapter's tensors under the names that the model's modules have today."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(str(checkpoint.adapter)) / "adapter_model.safetensors"
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(checkpoint.name, f"its {path.name} cannot be read: {error}", _REMEDY) from error
    renames = getattr(model_class, "_checkpoint_conversion_mapping", {})
    return {_current_name(key, renames): tensor for key, tensor in tensors.items()}


def _current_name(key: str, renames: dict[str, str]) -> str:
    key = key.removeprefix("base_model.model.")
    for pattern, replacement in renames.items():
        key = re.sub(pattern, replacement, key)
    return key


def _attach_adapter(checkpoint: Checkpoint, model: Any, tensors: dict[str, torch.Tensor]) -> None:
    import torch
    from peft import inject_adapter_in_model
    from peft.tuners.tuners_utils import BaseTunerLayer

    try:
        inject_adapter_in_model(_adapter_config(checkpoint), model, "default")
    except ValueError as error:
        problem = f"its adapter does not fit its base model: {error}"
        raise ModelError(checkpoint.name, problem, _REMEDY) from error
    slots = {_saved_name(name): slot for name, slot in model.named_parameters() if ".default." in name}
    _check(
        checkpoint.name,
        missing=slots.keys() - tensors.keys(),
        unexpected=tensors.keys() - slots.keys(),
        misshapen=(key for key in slots.keys() & tensors.keys() if slots[key].shape != tensors[key].shape),
    )
    with torch.no_grad():
        for key, slot in slots.items():
            slot.copy_(tensors[key])
    if model.dtype == torch.float32:  # in half precision a merge would round small updates away
        for module in model.modules():
            if isinstance(module, BaseTunerLayer):
                module.merge()


def _adapter_config(checkpoint: Checkpoint) -> Any:
    from peft import LoraConfig, PeftConfig

    try:
        with warnings.catch_warnings():  # about settings that this version of peft does not know
            warnings.filterwarnings("ignore", "Unexpected keyword arguments", UserWarning)
            config = PeftConfig.from_pretrained(str(checkpoint.adapter))
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(checkpoint.name, f"its adapter_config.json is not usable: {error}", _REMEDY) from error
    if not isinstance(config, LoraConfig):
        raise ModelError(checkpoint.name, f"adapters of type {config.peft_type} are not supported", _REMEDY)
    config.inference_mode = True
    return config


def _saved_name(name: str) -> str:
    name = name.replace(".modules_to_save.default", "").replace(".default", "")
    return name.replace(".lora_magnitude_vector.weight", ".lora_magnitude_vector")
