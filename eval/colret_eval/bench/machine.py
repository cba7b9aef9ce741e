"""What the figures were measured on, and with."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

_DISTRIBUTIONS = ("colret", "colpali-engine", "fast-plaid", "lancedb", "maxsim-cpu", "numkong", "numpy", "onnxruntime")
_MORE = ("qdrant-edge-py", "torch")
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_vpopcntdq", "amx_int8", "asimd", "asimddp", "sve")


def facts() -> dict[str, object]:
    """Return processor, cores, memory and system."""
    model, flags = _processor()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    return {
        "processor": model,
        "instructions": [name for name in _INSTRUCTIONS if name in flags],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": pages,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else (),
    }


def versions() -> dict[str, str]:
    """Return the versions of what is measured, "not installed" among them."""
    return {name: _version(name) for name in (*_DISTRIBUTIONS, *_MORE)}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> tuple[str, set[str]]:
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return platform.processor() or platform.machine(), set()
    lines = [line.partition(":") for line in info.read_text().splitlines()]
    found = {key.strip(): value.strip() for key, _, value in reversed(lines)}
    flags = set((found.get("flags") or found.get("Features") or "").split())
    return found.get("model name") or platform.machine(), flags
