"""Find a checkpoint: a local folder or a name on the hub, a full model or an adapter to one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colret.encoders.families import Family, find_family
from colret.errors import ModelError

OTHERWISE = "or use --model embedded"
_PATTERNS = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where the parts of a model lie, and which exact weights they are."""

    name: str  # as the user gave it
    model: Path  # folder of the full model: for an adapter, its base
    adapter: Path | None
    processor: Path
    revision: str
    family: Family


def resolve_checkpoint(name: str, revision: str | None = None) -> Checkpoint:
    """Find, and where needed download, the checkpoint called ``name``.

    Args:
        name: A local folder, or a name on the Hugging Face hub.
        revision: A branch, tag or commit of the hub's repository.

    Raises:
        ModelError: If it cannot be had, or is not a model that colret can use.
    """
    folder, exact = _fetch(name, revision)
    if not (folder / "adapter_config.json").is_file():
        return Checkpoint(name, folder, None, folder, exact, find_family(name, read_json(name, folder / "config.json")))
    base_name, base, base_exact = _fetch_base(name, folder)
    family = find_family(base_name, read_json(base_name, base / "config.json"))
    processor = folder if _has_processor(folder) else base
    return Checkpoint(name, base, folder, processor, f"{exact}+{base_exact}", family)


def _fetch_base(name: str, adapter: Path) -> tuple[str, Path, str]:
    config = read_json(name, adapter / "adapter_config.json")
    base_name = config.get("base_model_name_or_path")
    if not base_name:
        raise ModelError(name, "its adapter_config.json names no base model", f"choose another model, {OTHERWISE}")
    beside = adapter / str(base_name)  # a relative path may be meant from the adapter's folder
    try:
        base, exact = _fetch(str(beside if beside.is_dir() else base_name), config.get("revision"))
    except ModelError as error:
        raise ModelError(name, f"its base model {base_name}: {error.problem}", error.remedy) from error
    if (base / "adapter_config.json").is_file():
        problem = f"its base model {base_name} is an adapter too"
        raise ModelError(name, problem, f"merge the two first, {OTHERWISE}")
    return str(base_name), base, exact


def _fetch(name: str, revision: str | None) -> tuple[Path, str]:
    """Return the folder that holds the files of ``name``, and which exact ones they are."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise ModelError(name, "a local folder has no revisions", "leave --revision out, or give a hub name")
        return folder, digest_of(folder)
    if not _HUB_NAME.fullmatch(name):
        raise ModelError(name, "no such folder, and not a hub name", f"check the path, {OTHERWISE}")
    folder = _download(name, revision)
    return folder, folder.name if _COMMIT.fullmatch(folder.name) else digest_of(folder)


def _download(name: str, revision: str | None) -> Path:
    from huggingface_hub import errors, snapshot_download

    try:
        with _no_download_bars():
            folder = snapshot_download(name, revision=revision, allow_patterns=_PATTERNS, ignore_patterns=["*/*"])
        return Path(folder)
    except errors.GatedRepoError as error:
        remedy = f"accept its licence at https://huggingface.co/{name} and run `hf auth login`, {OTHERWISE}"
        raise ModelError(name, "the hub gives it only to those who accepted its licence", remedy) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(name, f"has no revision {revision}", f"check --revision, {OTHERWISE}") from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(name, "not on the hub, or private", f"check the name, {OTHERWISE}") from error
    except errors.LocalEntryNotFoundError as error:
        problem = "not downloaded yet, and the hub cannot be reached"
        raise ModelError(name, problem, f"go online once, give a local folder, {OTHERWISE}") from error
    except (OSError, ValueError) as error:
        raise ModelError(name, f"cannot be downloaded: {error}", f"try again, {OTHERWISE}") from error


@contextmanager
def _no_download_bars() -> Iterator[None]:
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    were_disabled = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not were_disabled:
            enable_progress_bars()


def digest_of(folder: Path) -> str:
    """Return a digest of the weights, configurations and vocabulary in ``folder``."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in {".safetensors", ".json"}):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()[:16]}"


def _has_processor(folder: Path) -> bool:
    has_image_part = any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json"))
    return has_image_part and (folder / "tokenizer_config.json").is_file()


def read_json(name: str, path: Path) -> dict[str, Any]:
    """Return the settings in the JSON file at ``path``, part of the checkpoint called ``name``.

    Raises:
        ModelError: If the file is missing, damaged or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(name, f"has no {path.name}", f"choose a complete checkpoint, {OTHERWISE}") from error
    except (OSError, ValueError) as error:
        raise ModelError(name, f"{path.name} cannot be read: {error}", f"download it again, {OTHERWISE}") from error
    if not isinstance(content, dict):
        raise ModelError(name, f"{path.name} holds no settings", f"download it again, {OTHERWISE}")
    return content
