"""Import torchvision even where its compiled operators do not fit the installed torch.

colpali-engine's processors need torchvision's transforms, which are pure Python. Yet a
torchvision linked against CUDA beside a CPU build of torch (what two package indexes easily
give) fails on import with ``operator torchvision::nms does not exist``: it describes two
operators whose library it could not load. Declaring those two operators, without any
implementation, is enough for the import; calling one of them would still fail, and nothing
here does.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any

from colret.errors import ModelError

_REMEDY = "install the torchvision that belongs to your torch: see https://pytorch.org/get-started"
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_lock = threading.Lock()
_library: object = None  # keeps the declarations alive: torch drops them with the object


def import_torchvision() -> None:
    """Import torchvision, declaring its two missing operators only if the import needs them.

    Raises:
        ModelError: If torchvision is not installed, or cannot be loaded for another reason.
    """
    with _lock:
        try:
            _import()
        except (ImportError, OSError, RuntimeError) as error:
            raise ModelError("torchvision", f"cannot be loaded: {error}", _REMEDY) from error


def needed_declarations() -> bool:
    """Tell whether torchvision was imported with its operators declared here."""
    return _library is not None


def _import() -> None:
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error) or _library is not None:
            raise
        _forget_partial_import()
        _declare_operators()
        importlib.import_module("torchvision")


def _forget_partial_import() -> None:
    # A failed import leaves submodules behind that the next one would find without their package.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]


def _declare_operators() -> None:
    global _library
    import torch

    library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in _SCHEMAS:
        library.define(schema)
    _library = library
