"""colret: late-interaction retrieval of document pages.

``colret.open`` opens an index and ``colret.create`` makes one: see docs/python.md. What they need
is imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from colret.api import Index as Index
    from colret.errors import ColretError as ColretError
    from colret.opening import create_index as create
    from colret.opening import open_index as open
    from colret.results import Hit as Hit
    from colret.results import Results as Results

__version__ = "0.1.0"

__all__ = ["ColretError", "Hit", "Index", "Results", "create", "open"]

_PLACES: Final = {
    "ColretError": "colret.errors:ColretError",
    "Hit": "colret.results:Hit",
    "Index": "colret.api:Index",
    "Results": "colret.results:Results",
    "create": "colret.opening:create_index",
    "open": "colret.opening:open_index",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value
