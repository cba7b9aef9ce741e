"""Sets by their name on the Hugging Face hub: their parquet files are downloaded, and then read as any."""

from __future__ import annotations

import re
from pathlib import Path

from colret_eval.datasets.dataset import DatasetError

_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def is_hub_name(name: str) -> bool:
    """Return whether ``name`` could be that of a set on the hub: owner/name."""
    return _HUB_NAME.fullmatch(name) is not None


def download(name: str) -> Path:
    """Return the folder of the set's parquet files, downloaded where they are not yet.

    Raises:
        DatasetError: It cannot be had.
    """
    import huggingface_hub
    from huggingface_hub import errors

    remedy = "check the name, or give a folder that holds the set"
    try:
        folder = Path(huggingface_hub.snapshot_download(name, repo_type="dataset", allow_patterns=["*.parquet"]))
    except errors.LocalEntryNotFoundError as error:
        raise DatasetError(name, "no such folder, and the hub cannot be reached", remedy) from error
    except errors.GatedRepoError as error:
        agree = f"accept its licence at https://huggingface.co/datasets/{name} and run `hf auth login`"
        raise DatasetError(name, "the hub gives it only to those who accepted its licence", agree) from error
    except errors.RepositoryNotFoundError as error:
        raise DatasetError(name, "no such folder, and no such set on the hub", remedy) from error
    except (OSError, errors.HfHubHTTPError, errors.HFValidationError) as error:
        raise DatasetError(name, f"cannot be downloaded ({error})", remedy) from error
    if not any(folder.rglob("*.parquet")):
        raise DatasetError(name, "the hub has no parquet files of it", "download it, and give its folder")
    return folder
