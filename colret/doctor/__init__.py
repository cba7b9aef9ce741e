"""Find out what keeps colret from working here, and say what to do about it.

Each check probes one thing the way the product uses it, and turns what goes wrong into a line.
A check that depends on a failed one is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from colret.doctor.checks import Check
from colret.doctor.index import check_folder, check_match, check_text, open_index
from colret.doctor.machine import check_device, check_poppler, check_torch, check_torchvision, check_versions
from colret.doctor.model import check_batches, check_maxsim, check_model
from colret.encoders import choose_model, pinned_revision
from colret.encoders.catalogue import SHORTCUTS
from colret.location import Location, StrPath
from colret.store import PageStore

__all__ = ["Check", "examine"]


def examine(
    model: str | None,
    index: Location | StrPath,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
) -> Iterator[Check]:
    """Check this machine, a model and an index; yield what each check found.

    Args:
        model: As for ``load_encoder``; by default the index's model, or what suits the machine.
        index: Where the index is, or will be.
        revision: As for ``load_encoder``.
        device: As for ``load_encoder``.
        dtype: As for ``load_encoder``.
    """
    index = Location.of(index)
    yield check_versions()
    yield check_poppler()
    yield check_folder(index)
    store, opened = open_index(index)
    if store:
        yield check_text(store)
    loaded = None
    torch = check_torch()
    yield torch
    if torch.status != "error":
        yield check_torchvision()
        yield check_device(device, dtype)
        yield check_maxsim()
        name, revision = _named(model, revision, store)
        only_image = store is not None and store.settings.page_tokens == "image"
        loaded, check = check_model(name, revision=revision, device=device, dtype=dtype, image_tokens_only=only_image)
        yield check
    if loaded:
        yield check_batches(loaded)
    yield check_match(store, loaded.info, opened) if store and loaded else opened


def _named(model: str | None, revision: str | None, store: PageStore | None) -> tuple[str, str | None]:
    """Return which model is meant: the one named, the index's, or what suits the machine."""
    model = SHORTCUTS.get(model, model) if model else None
    if store is not None and model in (None, store.settings.model):
        return store.settings.model, revision or pinned_revision(store.settings.revision)
    return model or choose_model()[0], revision
