"""The compiled part of MaxSim: optional, loaded through ctypes, which releases the interpreter's lock.

``kernels.c`` is compiled when colret is installed, if there is a C compiler (``hatch_build.py``).
Without the library, or with COLRET_NO_KERNELS set, ``products`` does the same arithmetic slower.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from colret.types import Float32, Int64, Multivectors

LIBRARY: Final = Path(__file__).with_name("_kernels.so")  # by this name on every system: no linker looks for it
INTERFACE: Final = 1  # as in kernels.c
OFF: Final = "COLRET_NO_KERNELS"

MAX_DIM: Final = 65_000  # 255 * 127 * D must stay below 2**31
_CODINGS: Final = {"int8": 0, "int4": 1, "binary": 2, "float16": 4, "float32": 5}  # as in kernels.c
_SIGNS: Final = 3
_WORTH_A_THREAD: Final = 2**25  # multiplications, about 0.3 ms

_forced: str | None = None  # the instruction set that ``forced`` asks for


def available() -> bool:
    """Tell whether the library is there and wanted."""
    return not os.environ.get(OFF) and _library() is not None


def instruction_sets() -> tuple[str, ...]:
    """Return the names of the instruction sets of this processor that the library knows, the best first."""
    library = _library()
    if library is None:
        return ()
    names = iter(range(2**31))
    return tuple(name.decode() for name in iter(lambda: library.colret_instructions(next(names)), None))


@contextmanager
def forced(name: str) -> Iterator[None]:
    """Use the instruction set ``name`` meanwhile: for tests and measurements."""
    global _forced
    if name not in instruction_sets():
        raise ValueError(f"{name} is none of {', '.join(instruction_sets())}")
    before, _forced = _forced, name
    try:
        yield
    finally:
        _forced = before


def best_products(
    codes: NDArray[np.int8], pages: Multivectors, rows: Int64 | None = None, *, n_threads: int | None = None
) -> NDArray[np.int32]:
    """Return, for each page and query token, the largest product with one of the page's vectors.

    Args:
        codes: (T, D) int8 from -127 to 127.
        pages: int8, int4 or binary; products are with the integers that their codes stand for.
        rows: (C,) which pages, in any order; all by default.
        n_threads: At most; by default as many as this process may use processors.

    Returns:
        (C, T) int32. The number of threads does not change it.

    Raises:
        IndexError: If ``rows`` names pages that are not there.
    """
    out = np.empty((len(pages) if rows is None else len(rows), len(codes)), np.int32)
    _run(_CODINGS[pages.coding], codes, pages, rows, out, None, n_threads)
    return out


def has_floats() -> bool:
    """Tell whether ``best_similarities`` works here."""
    library = _library()
    return available() and library is not None and bool(library.colret_has_floats(_level()))


def best_similarities(
    query: Float32, pages: Multivectors, rows: Int64 | None = None, *, n_threads: int | None = None
) -> Float32:
    """Return, for each page and query token, the largest dot product with one of the page's vectors.

    Sums run over the dimensions in order, rounded once a step (fused multiply-add), so they are
    the same on every processor.

    Args:
        query: (T, D) float32.
        pages: float16 or float32; their scales are left out.
        rows: As for ``best_products``.
        n_threads: As for ``best_products``.

    Returns:
        (C, T) float32.
    """
    out = np.empty((len(pages) if rows is None else len(rows), len(query)), np.float32)
    _run(_CODINGS[pages.coding], query, pages, rows, out, None, n_threads)
    return out


def best_agreements(
    bits: NDArray[np.uint8], pages: Multivectors, rows: Int64 | None = None, *, n_threads: int | None = None
) -> NDArray[np.int32]:
    """Return, for each page and token, D - 2h of the smallest Hamming distance h: the product of signs.

    Args:
        bits: (T, ceil(D/8)) uint8, the tokens' signs as ``packing.pack_signs`` gives them.
        pages: binary.
        rows: As for ``best_products``.
        n_threads: As for ``best_products``.

    Returns:
        (C, T) int32.
    """
    out = np.empty((len(pages) if rows is None else len(rows), len(bits)), np.int32)
    _run(_SIGNS, bits, pages, rows, out, None, n_threads)
    return out


def agreement_sums(
    bits: NDArray[np.uint8], pages: Multivectors, rows: Int64 | None = None, *, n_threads: int | None = None
) -> Int64:
    """Return the sum over tokens of ``best_agreements``, (C,) int64."""
    sums = np.empty(len(pages) if rows is None else len(rows), np.int64)
    _run(_SIGNS, bits, pages, rows, None, sums, n_threads)
    return sums


def _run(
    coding: int,
    query: NDArray[np.int8] | NDArray[np.uint8] | Float32,
    pages: Multivectors,
    rows: Int64 | None,
    out: NDArray[np.int32] | Float32 | None,
    sums: Int64 | None,
    n_threads: int | None,
) -> None:
    """Score pages into ``out`` or ``sums``, each thread a run of them with about as many vectors."""
    if pages.dim > MAX_DIM:
        raise ValueError(f"kernels take {MAX_DIM} dimensions at most")
    wanted = np.arange(len(pages)) if rows is None else np.ascontiguousarray(rows, np.int64)
    if wanted.ndim != 1:
        raise IndexError("rows must be (C,) whole numbers")
    if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(pages):
        raise IndexError(f"rows must be from 0 to {len(pages) - 1}")
    width = -(-pages.dim // 8) if coding == _SIGNS else pages.dim
    floats = pages.coding in ("float16", "float32")
    if floats == (query.dtype != np.float32) or (coding == _SIGNS) > (pages.coding == "binary"):
        raise ValueError(f"pages in {pages.coding} have no such product")
    dtype = np.float32 if floats else np.uint8 if coding == _SIGNS else np.int8
    if query.ndim != 2 or query.shape[1] != width or query.dtype != dtype:
        raise ValueError(f"a query for these pages is (T, {width}) {np.dtype(dtype)}, not {query.shape} {query.dtype}")
    tokens, codes = np.ascontiguousarray(query), np.ascontiguousarray(pages.values)
    offsets = np.ascontiguousarray(pages.offsets, np.int64)
    library, level = _library(), _level()
    assert library is not None

    def score(first: int, last: int) -> int:
        return int(
            library.colret_best_products(
                level,
                coding,
                tokens.ctypes.data,
                len(tokens),
                pages.dim,
                codes.ctypes.data,
                offsets.ctypes.data,
                wanted[first:last].ctypes.data,
                last - first,
                None if out is None else out[first:last].ctypes.data,
                None if sums is None else sums[first:last].ctypes.data,
            )
        )

    ends = np.cumsum(np.diff(offsets)[wanted])
    cuts = _cuts(ends, len(query) * pages.dim, n_threads or _n_processors())
    if len(cuts) == 2:
        failed = score(0, len(wanted))
    else:
        failed = max(_threads(n_threads or _n_processors()).map(score, cuts[:-1], cuts[1:]))
    if failed:
        raise MemoryError("no memory for a query")


def _cuts(ends: Int64, work: int, n_threads: int) -> list[int]:
    """Return where to cut pages into runs of about as many vectors, one run a thread.

    Args:
        ends: (C,) the number of vectors up to each page's end.
        work: Multiplications a vector.
        n_threads: At most.
    """
    n_vectors = int(ends[-1]) if len(ends) else 0
    n_runs = max(min(n_threads, len(ends), n_vectors * work // _WORTH_A_THREAD), 1)
    inner = np.searchsorted(ends, np.arange(1, n_runs) * n_vectors / n_runs, side="left") + 1
    return [0, *np.unique(inner[inner < len(ends)]).tolist(), len(ends)]


def _level() -> int:
    return 0 if _forced is None else instruction_sets().index(_forced)


@functools.cache
def _library() -> ctypes.CDLL | None:
    """Load the library; None where it was not compiled, or for another processor, system or version."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
        if library.colret_interface() != INTERFACE:
            return None
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        library.colret_instructions.argtypes = [ctypes.c_int]
        library.colret_instructions.restype = ctypes.c_char_p
        library.colret_has_floats.argtypes = [ctypes.c_int]
        library.colret_best_products.argtypes = [
            *(ctypes.c_int, ctypes.c_int, pointer, size, size),
            *(pointer, pointer, pointer, size, pointer, pointer),
        ]
        return library
    except (OSError, AttributeError):
        return None


def _n_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _threads(n: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n, thread_name_prefix="colret-kernels")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork
