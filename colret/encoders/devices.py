"""Where a model runs, in which precision, and what running out of memory looks like there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from colret.errors import ModelError

if TYPE_CHECKING:
    import torch

DTYPES = ("auto", "float32", "bfloat16", "float16")
_BATCH_SIZES = {"cuda": 8, "mps": 4, "cpu": 1}  # pages at a time; more does not help a busy CPU


class Placement(NamedTuple):
    """A resolved device, the precision to use on it, and how many pages to encode together."""

    device: torch.device
    dtype: torch.dtype
    batch_size: int


def choose_placement(device: str = "auto", dtype: str = "auto", batch_size: int | None = None) -> Placement:
    """Resolve what the user asked for, ``"auto"`` meaning the best that this machine has.

    Args:
        device: "auto", or a torch device such as "cpu", "cuda", "cuda:1" or "mps".
        dtype: "auto" (bfloat16 on CUDA, float32 elsewhere), or one of ``DTYPES``.
        batch_size: Pages encoded together; by default what suits the device.

    Raises:
        ValueError: If the device or the dtype is unknown, or the batch size is below 1.
        ModelError: If this machine does not have that device.
    """
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    chosen = _choose_device(device)
    return Placement(chosen, _choose_dtype(dtype, chosen), batch_size or _BATCH_SIZES.get(chosen.type, 1))


def check_choice(device: str, dtype: str) -> None:
    """Refuse what ``choose_placement`` would, without importing torch for what every machine has.

    Raises:
        ValueError: If the device or the dtype is unknown.
        ModelError: If this machine does not have that device.
    """
    if device not in ("auto", "cpu") or dtype not in DTYPES:
        choose_placement(device, dtype)


def _choose_device(name: str) -> torch.device:
    import torch

    if name == "auto":
        return torch.device("cuda" if _has_cuda() else "mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r}: use auto, cpu, cuda, cuda:N or mps") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"unknown device {name!r}: use auto, cpu, cuda, cuda:N or mps")
    missing = (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()) or (
        device.type == "mps" and not torch.backends.mps.is_available()
    )
    if missing:
        raise ModelError(name, "this machine has no such device", "use --device cpu, or leave it at auto")
    return device


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available() and torch.cuda.device_count() > 0


def _choose_dtype(name: str, device: torch.device) -> torch.dtype:
    import torch

    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}: use one of {', '.join(DTYPES)}")
    if name != "auto":
        dtype: torch.dtype = getattr(torch, name)
        return dtype
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.float32


def is_out_of_memory(error: RuntimeError) -> bool:
    """Tell whether ``error`` says that memory ran out, on the device or in the CPU's allocator."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return True
    text = str(error)
    return "DefaultCPUAllocator" in text or "out of memory" in text or "not enough memory" in text


def release_memory() -> None:
    """Give cached blocks of the accelerator back, so that a smaller batch finds room."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()
