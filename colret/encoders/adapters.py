"""Put an adapter's weights into its base model, each one where it belongs."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colret.encoders.checkpoints import Checkpoint
from colret.encoders.weights import REMEDY, check_keys
from colret.errors import ModelError

if TYPE_CHECKING:
    import torch


def adapter_tensors(checkpoint: Checkpoint, model_class: Any) -> dict[str, torch.Tensor]:
    """Return the adapter's tensors under the names that the model's modules have today.

    Raises:
        ModelError: If its file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(str(checkpoint.adapter)) / "adapter_model.safetensors"
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(checkpoint.name, f"its {path.name} cannot be read: {error}", REMEDY) from error
    renames = getattr(model_class, "_checkpoint_conversion_mapping", {})
    return {_current_name(key, renames): tensor for key, tensor in tensors.items()}


def _current_name(key: str, renames: dict[str, str]) -> str:
    key = key.removeprefix("base_model.model.")
    for pattern, replacement in renames.items():
        key = re.sub(pattern, replacement, key)
    return key


def attach_adapter(checkpoint: Checkpoint, model: Any, tensors: dict[str, torch.Tensor]) -> None:
    """Add the adapter to its base ``model``, merged into the weights where that loses nothing.

    Args:
        checkpoint: The adapter and its base.
        model: The base, changed in place.
        tensors: What ``adapter_tensors`` read.

    Raises:
        ModelError: If the adapter is of an unknown kind, or a tensor does not fit.
    """
    import torch
    from peft import inject_adapter_in_model
    from peft.tuners.tuners_utils import BaseTunerLayer

    try:
        inject_adapter_in_model(_adapter_config(checkpoint), model, "default")
    except ValueError as error:
        problem = f"its adapter does not fit its base model: {error}"
        raise ModelError(checkpoint.name, problem, REMEDY) from error
    slots = {_saved_name(name): slot for name, slot in model.named_parameters() if ".default." in name}
    check_keys(
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
        raise ModelError(checkpoint.name, f"its adapter_config.json is not usable: {error}", REMEDY) from error
    if not isinstance(config, LoraConfig):
        raise ModelError(checkpoint.name, f"adapters of type {config.peft_type} are not supported", REMEDY)
    config.inference_mode = True
    return config


def _saved_name(name: str) -> str:
    name = name.replace(".modules_to_save.default", "").replace(".default", "")
    return name.replace(".lora_magnitude_vector.weight", ".lora_magnitude_vector")
