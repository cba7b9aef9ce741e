"""Load a checkpoint's weights, and refuse it unless every tensor found its place.

transformers fills what a checkpoint lacks with random numbers and only logs a report, so a
renamed or truncated file would give a model that runs and retrieves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colret.encoders.devices import is_out_of_memory
from colret.encoders.sources import OTHERWISE
from colret.errors import ModelError

if TYPE_CHECKING:
    import torch

REMEDY = f"download it again or report it to its author, {OTHERWISE}"
"""What to do about a checkpoint that is not whole."""

_SHOWN = 5  # keys in a message; the rest is counted


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


def load_pretrained(name: str, folder: Path, model_class: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Read weights into a model of transformers, and report which of them had no place or no match.

    Args:
        name: The checkpoint, for messages.
        folder: Where its safetensors lie.
        model_class: The model.
        options: What else its ``from_pretrained`` needs to know.

    Raises:
        ModelError: If a file is missing or unreadable.
    """
    from safetensors import SafetensorError

    if not any(folder.glob("*.safetensors")):
        raise ModelError(name, f"has no weights (*.safetensors) in {folder.name}", REMEDY)
    try:
        with quiet_transformers():
            loaded: tuple[Any, dict[str, Any]] = model_class.from_pretrained(
                str(folder),
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # so that they are listed, to be refused by check_keys
                **options,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(name, f"its weights cannot be loaded: {error}", REMEDY) from error
    return loaded


def check_keys(name: str, *, missing: Iterable[str], unexpected: Iterable[str], misshapen: Iterable[str]) -> None:
    """Refuse weights that do not fit their model, by the names of the tensors.

    Raises:
        ModelError: If there is any name.
    """
    found = {
        "missing": sorted(missing),
        "unexpected": sorted(unexpected),
        "wrongly shaped": sorted(misshapen),
    }
    problems = [f"{kind}: {_abridge(keys)}" for kind, keys in found.items() if keys]
    if problems:
        raise ModelError(name, "the weights do not fit the model: " + "; ".join(problems), REMEDY)


def _abridge(keys: list[str]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more


def place(name: str, model: Any, device: torch.device) -> Any:
    """Return ``model`` on ``device``.

    Raises:
        ModelError: If it does not fit there.
    """
    try:
        return model.to(device)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise ModelError(name, f"does not fit into the memory of {device}", f"try --device cpu, {OTHERWISE}") from error
