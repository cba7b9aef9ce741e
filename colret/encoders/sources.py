"""Where a checkpoint's files lie, in a local folder or on the hub, and which exact ones they are."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from colret.errors import ModelError

OTHERWISE = "or use --model embedded"
_SUFFIXES = (".json", ".safetensors", ".jinja", ".model", ".txt", ".metadata")
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Source:
    """A folder that holds a checkpoint's files."""

    name: str  # as the user gave it
    folder: Path
    commit: str | None  # of the hub's repository; None for a local folder

    def revision(self) -> str:
        """Return which exact files these are: the commit, or a digest of them all."""
        return self.commit or digest_of(self.folder)


def find_source(name: str, revision: str | None = None) -> Source:
    """Find, and where needed download, the files of the checkpoint called ``name``.

    Args:
        name: A local folder, or a name on the Hugging Face hub.
        revision: A branch, tag or commit of the hub's repository.

    Raises:
        ModelError: If it cannot be had.
    """
    folder = _as_folder(name)
    if folder:
        if revision is not None:
            raise ModelError(name, "a local folder has no revisions", "leave --revision out, or give a hub name")
        # Absolute, for an index to find it again from anywhere.
        return Source(os.path.abspath(folder), folder, None)
    if not _HUB_NAME.fullmatch(name):
        raise ModelError(name, "no such folder, and not a hub name", f"check the path, {OTHERWISE}")
    folder = _download(name, revision)
    return Source(name, folder, folder.name if _COMMIT.fullmatch(folder.name) else None)


def _as_folder(name: str) -> Path | None:
    try:
        folder = Path(name).expanduser()
        return folder if folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # a name too long for a path, or of nobody's home
        return None


def digest_of(folder: Path) -> str:
    """Return a digest of the weights, configurations and vocabulary in ``folder``."""
    digest = hashlib.sha256()
    for part in ("", *module_folders(folder)):
        for path in sorted(path for path in (folder / part).glob("*") if path.suffix in _SUFFIXES):
            digest.update(f"{part}/{path.name}".encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()[:16]}"


def module_folders(folder: Path) -> list[str]:
    """Return the folders inside ``folder`` that its modules.json names: sentence-transformers' layout.

    A path that would lead out of the folder is left out.
    """
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        paths = [PurePosixPath(module["path"]) for module in modules]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # without the file, or with a damaged one, which whoever needs it will refuse
    return [str(path) for path in paths if path.parts and not path.is_absolute() and ".." not in path.parts]


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


def _download(name: str, revision: str | None) -> Path:
    from huggingface_hub import errors

    try:
        with _no_download_bars():
            folder = _snapshot(name, revision, [f"*{suffix}" for suffix in _SUFFIXES], ignored=["*/*"])
            parts = module_folders(folder)
            if any(not (folder / part).is_dir() for part in parts):
                _snapshot(name, folder.name, [f"{part}/*{suffix}" for part in parts for suffix in _SUFFIXES])
        return folder
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


def _snapshot(name: str, revision: str | None, wanted: Sequence[str], ignored: Sequence[str] = ()) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, revision=revision, allow_patterns=list(wanted), ignore_patterns=list(ignored)))


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
