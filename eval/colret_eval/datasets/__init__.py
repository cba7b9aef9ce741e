"""Labelled sets in the layouts people have them: see ``docs/datasets.md``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colret_eval.datasets import beir, hub, jsonl, own, vidore
from colret_eval.datasets.contents import Contents, assemble
from colret_eval.datasets.dataset import Dataset, DatasetError, PageDocument, page_key, read_pages, union

__all__ = [
    "Dataset",
    "DatasetError",
    "PageDocument",
    "load_dataset",
    "page_key",
    "read_contents",
    "read_pages",
    "union",
]


def load_dataset(folder: Path, *, extra_folders: Sequence[str] = ()) -> Dataset:
    """Read a labelled set, whichever layout it has, and check every line of it. No document is opened.

    Args:
        folder: Of the set; or, where there is none such, its name on the hub.
        extra_folders: Further folders inside ``folder`` whose PDFs join the corpus without
            labels, such as ``pdfs_distractors``; their names start with the folder's.

    Raises:
        DatasetError: At the first line that cannot be used, or if the set has no queries.
    """
    return assemble(read_contents(folder, extra_folders=extra_folders))


def read_contents(folder: Path, *, extra_folders: Sequence[str] = ()) -> Contents:
    """Return what the files of a set say, right or wrong; the arguments are those of ``load_dataset``.

    Raises:
        DatasetError: There is no set, or a file of it is missing.
    """
    if not folder.is_dir():
        if folder.exists() or not hub.is_hub_name(str(folder)):
            raise DatasetError(folder, "is not a folder", "give the folder of a labelled set, or its name on the hub")
        contents = vidore.read(hub.download(str(folder)))
        contents.name = folder.name
        return contents
    for file, read in (("qrels.jsonl", jsonl.read), ("qrels.tsv", own.read), ("qrels/*.tsv", beir.read)):
        if any(folder.glob(file)):
            return read(folder, tuple(extra_folders))
    if any(folder.rglob("*.parquet")):
        return vidore.read(folder)
    raise DatasetError(folder, "holds no labels (qrels.jsonl, qrels.tsv, qrels/*.tsv or parquet files)", "add them")
