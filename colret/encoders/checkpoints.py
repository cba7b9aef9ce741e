"""The parts of a vision checkpoint: a full model, or an adapter and the model that it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colret.encoders.families import Family, find_family
from colret.encoders.sources import OTHERWISE, Source, find_source, read_json
from colret.errors import ModelError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where the parts of a model lie, and which exact weights they are."""

    name: str  # as the user gave it
    model: Path  # folder of the full model: for an adapter, its base
    adapter: Path | None
    processor: Path
    revision: str
    family: Family


def resolve_checkpoint(source: Source, find: Callable[[str, dict[str, Any]], Family] = find_family) -> Checkpoint:
    """Find the parts of the checkpoint in ``source``; the base of an adapter may be downloaded.

    Args:
        source: Its files.
        find: Tells the family by name and ``config.json``, as ``find_family``.

    Raises:
        ModelError: If a part cannot be had, or it is not a model that colret can use.
    """
    name, folder = source.name, source.folder
    if not is_adapter(source):
        family = find(name, read_json(name, folder / "config.json"))
        return Checkpoint(name, folder, None, folder, source.revision(), family)
    base = _find_base(source)
    family = find(base.name, read_json(base.name, base.folder / "config.json"))
    processor = folder if _has_processor(folder) else base.folder
    return Checkpoint(name, base.folder, folder, processor, f"{source.revision()}+{base.revision()}", family)


def is_adapter(source: Source) -> bool:
    """Tell whether the files are those of an adapter to another model."""
    return (source.folder / "adapter_config.json").is_file()


def _find_base(adapter: Source) -> Source:
    config = read_json(adapter.name, adapter.folder / "adapter_config.json")
    base_name = config.get("base_model_name_or_path")
    if not base_name:
        problem = "its adapter_config.json names no base model"
        raise ModelError(adapter.name, problem, f"choose another model, {OTHERWISE}")
    beside = adapter.folder / str(base_name)  # a relative path may be meant from the adapter's folder
    try:
        base = find_source(str(beside if beside.is_dir() else base_name), config.get("revision"))
    except ModelError as error:
        raise ModelError(adapter.name, f"its base model {base_name}: {error.problem}", error.remedy) from error
    if is_adapter(base):
        problem = f"its base model {base_name} is an adapter too"
        raise ModelError(adapter.name, problem, f"merge the two first, {OTHERWISE}")
    return base


def _has_processor(folder: Path) -> bool:
    has_image_part = any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json"))
    return has_image_part and (folder / "tokenizer_config.json").is_file()
