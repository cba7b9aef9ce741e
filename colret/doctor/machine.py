"""Checks of the machine: libraries, poppler, torch and its device."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib import metadata

import colret
from colret.doctor.checks import Check, failed
from colret.encoders.devices import choose_placement
from colret.encoders.torchvision_guard import import_torchvision, needed_declarations
from colret.errors import ModelError
from colret.poppler import poppler_available

_PACKAGES = ("torch", "torchvision", "transformers", "colpali-engine", "peft", "lancedb", "pypdfium2", "rapidocr")
_SECONDS = 10  # for poppler to say its version


def check_versions() -> Check:
    """List the versions of what colret stands on; what is not installed is an error."""
    versions, missing = [], []
    for package in _PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        return Check("versions", "error", f"not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    own = f"colret {colret.__version__}, Python {platform.python_version()}"
    return Check("versions", "ok", ", ".join([own, *versions]))


def check_poppler() -> Check:
    """Ask poppler for its version; without it, pypdfium2 renders alone."""
    remedy = "apt install poppler-utils, or brew install poppler"
    if not poppler_available():
        return Check("poppler", "warning", "not on the PATH: pypdfium2 renders all pages", remedy)
    try:
        run = subprocess.run(["pdftoppm", "-v"], capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("poppler", "warning", f"does not run, so pypdfium2 renders all pages: {error}", remedy)
    version = (run.stderr or run.stdout).partition("\n")[0]  # poppler says it on stderr
    return Check("poppler", "ok", f"{version}, at {shutil.which('pdftoppm')}")


def check_torch() -> Check:
    """Import torch."""
    try:
        import torch
    except (ImportError, OSError, RuntimeError) as error:  # a missing or foreign shared library is an OSError
        return Check(
            "torch", "error", f"cannot be loaded: {error}", "reinstall it: see https://pytorch.org/get-started"
        )
    return Check("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads")


def check_torchvision() -> Check:
    """Import torchvision as colret does, telling whether it needed help."""
    try:
        import_torchvision()
    except ModelError as error:
        return failed("torchvision", error)
    if needed_declarations():
        found = "built for another torch; colret imports it all the same, and needs none of its compiled operators"
        return Check("torchvision", "warning", found, "if other programs fail, install both from one package index")
    return Check("torchvision", "ok", "loads")


def check_device(device: str, dtype: str) -> Check:
    """Resolve where vision models run and in which precision."""
    try:
        placement = choose_placement(device, dtype)
    except ModelError as error:
        return failed("device", error)
    except ValueError as error:
        return Check("device", "error", str(error), "leave --device and --dtype at auto")
    return Check(
        "device", "ok", f"{_device_name(str(placement.device))}, {str(placement.dtype).removeprefix('torch.')}"
    )


def _device_name(device: str) -> str:
    import torch

    if not device.startswith("cuda"):
        return device
    free, total = torch.cuda.mem_get_info(device)
    return f"{device} ({torch.cuda.get_device_name(device)}, {free / 1e9:.0f} of {total / 1e9:.0f} GB free)"
