"""Run prepared pages or queries through a model, as many at a time as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colret.encoders.devices import is_out_of_memory, release_memory
from colret.encoders.sources import OTHERWISE
from colret.errors import ModelError
from colret.types import Float32

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Prepared:
    """One page or query, ready for the model."""

    name: str  # for messages
    inputs: dict[str, torch.Tensor]  # each (1, ...)

    @property
    def length(self) -> int:
        """Number of tokens."""
        return int(self.inputs["input_ids"].shape[1])


Forward = Callable[[Sequence[Prepared]], list[Float32]]
"""Encodes items of equal length together: one (n, D) float32 for each."""


def run_batches(items: Sequence[Prepared], forward: Forward, batch_size: int) -> tuple[list[Float32], int]:
    """Encode ``items``, those of equal length together, halving the batch when memory runs out.

    Args:
        items: Pages or queries, in any order of lengths.
        forward: What encodes some of them.
        batch_size: How many to try at once.

    Returns:
        The result for each item, and the batch size that memory was enough for.

    Raises:
        ModelError: If memory runs out for a single item.
    """
    results: dict[int, Float32] = {}
    for indices in _by_length(items):
        while indices:
            taken = indices[:batch_size]
            rows = _try_forward([items[index] for index in taken], forward)
            if rows is None:
                batch_size = len(taken) // 2
                release_memory()
                continue
            results.update(zip(taken, rows, strict=True))
            indices = indices[len(taken) :]
    return [results[index] for index in range(len(items))], batch_size


def _by_length(items: Sequence[Prepared]) -> Iterable[list[int]]:
    groups: dict[int, list[int]] = {}
    for index, item in enumerate(items):
        groups.setdefault(item.length, []).append(index)
    return groups.values()


def _try_forward(batch: list[Prepared], forward: Forward) -> list[Float32] | None:
    """Return what ``forward`` makes of ``batch``, or None if memory ran out for so many."""
    try:
        return forward(batch)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        if len(batch) == 1:
            remedy = f"use a machine with more memory, --dtype bfloat16, {OTHERWISE}"
            raise ModelError(batch[0].name, "memory ran out even for this alone", remedy) from error
    return None


def unpad(outputs: Float32, attention_mask: NDArray[np.int64]) -> list[Float32]:
    """Split a batch of token vectors into items, leaving out what only filled it up.

    Args:
        outputs: (B, L, D) float32.
        attention_mask: (B, L), 1 where a token is real, whichever side the padding is on.

    Returns:
        For each item its (n, D) float32, zero rows included: those are for others to refuse.
    """
    return [rows[mask == 1] for rows, mask in zip(outputs, attention_mask, strict=True)]
