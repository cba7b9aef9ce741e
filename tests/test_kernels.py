"""Integer products: every instruction set of this processor, torch and numpy against a naive loop."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from colret import kernels, products
from colret.packing import pack_nibbles, pack_signs
from colret.types import Coding, Int64, Multivectors, Values

ROOT = Path(__file__).parents[1]
COMPILED = kernels.instruction_sets()
WAYS = [*COMPILED, "torch", "numpy"]
FLOATING = [name for name in COMPILED if name not in ("sse4", "portable")]
CODINGS: list[Coding] = ["int8", "int4", "binary"]
DIMS = st.one_of(st.sampled_from([1, 2, 3, 7, 8, 9, 63, 64, 65, 128, 129, 384]), st.integers(1, 300))
LENGTHS = st.lists(st.one_of(st.integers(1, 5), st.integers(30, 70)), max_size=6)
N_TOKENS = st.one_of(st.integers(1, 70), st.sampled_from([15, 16, 17, 32, 33, 48, 49]))
SEEDS = st.integers(0, 2**32 - 1)

needs_library = pytest.mark.skipif(not COMPILED, reason="the kernels are not compiled: no C compiler")


@contextmanager
def by(way: str) -> Iterator[None]:
    """Multiply in one way only."""
    with pytest.MonkeyPatch.context() as patch:
        if way in COMPILED:
            with kernels.forced(way):
                yield
            return
        patch.setenv(kernels.OFF, "1")
        if way == "numpy":
            patch.setattr(products, "torch_product_is_exact", lambda: False)
        yield


def integers(n: int, dim: int, coding: Coding, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return (n, D) integers of the kind that a coding stands for, the extremes often among them."""
    if coding == "binary":
        return rng.integers(0, 2, (n, dim)) * 2 - 1
    if coding == "int4":
        return rng.integers(0, 16, (n, dim)) * 2 - 15
    return np.where(rng.random((n, dim)) < 0.5, rng.choice([-127, 127], (n, dim)), rng.integers(-127, 128, (n, dim)))


def packed(pages: Sequence[NDArray[np.int64]], dim: int, coding: Coding) -> Multivectors:
    numbers = np.concatenate([*pages, np.empty((0, dim), np.int64)])
    values: Values = numbers.astype(np.int8)
    if coding != "int8":
        values = pack_signs(numbers) if coding == "binary" else pack_nibbles(((numbers + 15) // 2).astype(np.uint8))
    offsets = np.cumsum([0, *map(len, pages)])
    return Multivectors(values, offsets, np.ones(len(pages), np.float32), coding, dim)


def float_pages(pages: Sequence[NDArray[np.floating]], dim: int, coding: Coding) -> Multivectors:
    numbers = np.concatenate([*pages, np.empty((0, dim), np.float32)])
    values: Values = numbers.astype(np.float16) if coding == "float16" else numbers.astype(np.float32)
    return Multivectors(values, np.cumsum([0, *map(len, pages)]), np.ones(len(pages), np.float32), coding, dim)


def naive(query: NDArray[np.int64], pages: Sequence[NDArray[np.int64]]) -> list[list[int]]:
    """For each page and token, look at every vector: no matrix product, no packing, no blocks."""
    return [[max(int(vector @ token) for vector in page) for token in query] for page in pages]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("coding", CODINGS)
@settings(deadline=None)
@given(lengths=LENGTHS, n_tokens=N_TOKENS, dim=DIMS, seed=SEEDS)
@example(lengths=[3000, 1], n_tokens=2, dim=5, seed=0)
@example(lengths=[1, 33], n_tokens=70, dim=1030, seed=0)
@example(lengths=[2], n_tokens=1, dim=4001, seed=0)
def test_equals_a_naive_loop(way: str, coding: Coding, lengths: list[int], n_tokens: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = integers(n_tokens, dim, "int8", rng)
    pages = [integers(length, dim, coding, rng) for length in lengths]
    with by(way):
        best = products.best_products(query.astype(np.int8), packed(pages, dim, coding))
    assert best.dtype == np.int32
    assert best.shape == (len(lengths), n_tokens)
    assert best.tolist() == naive(query, pages)


@pytest.mark.parametrize("way", WAYS)
@settings(deadline=None)
@given(lengths=LENGTHS, n_tokens=N_TOKENS, dim=DIMS, seed=SEEDS)
@example(lengths=[3000, 1], n_tokens=2, dim=5, seed=0)
@example(lengths=[40], n_tokens=7, dim=4001, seed=0)
def test_sums_of_agreements_equal_a_naive_loop(
    way: str, lengths: list[int], n_tokens: int, dim: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    query = integers(n_tokens, dim, "binary", rng)
    pages = [integers(length, dim, "binary", rng) for length in lengths]
    with by(way):
        sums = products.agreement_sums(query.astype(np.int8), packed(pages, dim, "binary"))
    assert sums.dtype == np.int64
    assert sums.tolist() == [sum(best) for best in naive(query, pages)]


@pytest.mark.parametrize("way", FLOATING)
@pytest.mark.parametrize("coding", ["float16", "float32"])
@settings(deadline=None)
@given(lengths=LENGTHS, n_tokens=N_TOKENS, dim=DIMS, seed=SEEDS)
@example(lengths=[3000, 1], n_tokens=2, dim=5, seed=0)
@example(lengths=[1, 33], n_tokens=70, dim=1030, seed=0)
def test_floats_equal_a_naive_loop_whose_sums_run_in_order(
    way: str, coding: Coding, lengths: list[int], n_tokens: int, dim: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    query = rng.normal(size=(n_tokens, dim)).astype(np.float32) / np.float32(dim**0.5)
    numbers = [rng.normal(size=(length, dim)).astype(coding) for length in lengths]
    pages = float_pages(numbers, dim, coding)
    with by(way):
        best = kernels.best_similarities(query, pages)
    assert best.dtype == np.float32
    expected = [[max((vector.astype(np.float64) @ token) for vector in page) for token in query] for page in numbers]
    assert best == pytest.approx(np.array(expected).reshape(len(lengths), n_tokens), abs=1e-5)
    with by(FLOATING[-1]):
        assert np.array_equal(kernels.best_similarities(query, pages), best)  # every processor rounds alike


@pytest.mark.parametrize("way", FLOATING)
@given(half=arrays(np.float16, 9, elements=st.floats(width=16, allow_nan=False, allow_infinity=False)))
def test_every_half_is_widened_exactly(way: str, half: NDArray[np.float16]) -> None:
    pages = float_pages([half[:, None]], 1, "float16")
    with by(way):
        assert kernels.best_similarities(np.ones((1, 1), np.float32), pages).tolist() == [[float(half.max())]]
        row = float_pages([half[None]], 9, "float16")
        units = kernels.best_similarities(np.eye(9, dtype=np.float32), row)
    assert units.tolist() == [half.astype(np.float64).tolist()]


@needs_library
@pytest.mark.parametrize("way", COMPILED)
@settings(deadline=None)
@given(lengths=LENGTHS, n_tokens=N_TOKENS, dim=DIMS, seed=SEEDS)
def test_agreements_equal_a_naive_loop(way: str, lengths: list[int], n_tokens: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = integers(n_tokens, dim, "binary", rng)
    pages = [integers(length, dim, "binary", rng) for length in lengths]
    with by(way):
        assert kernels.best_agreements(pack_signs(query), packed(pages, dim, "binary")).tolist() == naive(query, pages)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("dim", [1, 7, 128, 129])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_numbers_neither_saturate_nor_lift_a_negative_product(
    way: str, coding: Coding, dim: int, sign: int
) -> None:
    largest = {"int8": 127, "int4": 15, "binary": 1}[coding]
    pages = packed([np.full((n, dim), -largest) for n in (1, 40)], dim, coding)
    with by(way):
        best = products.best_products(np.full((3, dim), sign * 127, np.int8), pages)
    assert best.tolist() == [[-sign * 127 * largest * dim] * 3] * 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("coding", CODINGS)
@settings(deadline=None)
@given(n_pages=st.integers(1, 9), data=st.data(), seed=SEEDS)
def test_rows_pick_pages_in_any_order_and_as_often_as_wanted(
    way: str, coding: Coding, n_pages: int, data: st.DataObject, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pages = packed([integers(int(rng.integers(1, 50)), 20, coding, rng) for _ in range(n_pages)], 20, coding)
    query = integers(5, 20, "int8", rng).astype(np.int8)
    rows = np.array(data.draw(st.lists(st.integers(0, n_pages - 1), max_size=20)), np.int64)
    with by(way):
        assert np.array_equal(products.best_products(query, pages, rows), products.best_products(query, pages)[rows])
        if coding == "binary":
            signs = np.where(query < 0, np.int8(-1), np.int8(1))
            everything = products.agreement_sums(signs, pages)
            assert np.array_equal(products.agreement_sums(signs, pages, rows), everything[rows])


@needs_library
@pytest.mark.parametrize("rows", [[-1], [3], [0, 2**40]])
def test_pages_that_are_not_there_are_refused(rows: list[int]) -> None:
    pages = packed([np.ones((2, 8), np.int64)] * 3, 8, "binary")
    with pytest.raises(IndexError, match="from 0 to 2"):
        kernels.best_products(np.ones((1, 8), np.int8), pages, np.array(rows))
    with pytest.raises(IndexError, match="from 0 to 2"):
        kernels.agreement_sums(np.ones((1, 1), np.uint8), pages, np.array(rows))


@needs_library
def test_dimensions_that_could_overflow_are_refused() -> None:
    pages = packed([np.ones((1, kernels.MAX_DIM + 1), np.int64)], kernels.MAX_DIM + 1, "int8")
    with pytest.raises(ValueError, match="at most"):
        kernels.best_products(np.ones((1, kernels.MAX_DIM + 1), np.int8), pages)


@needs_library
@pytest.mark.parametrize("way", COMPILED)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_most_dimensions_do_not_overflow(way: str, sign: int) -> None:
    dim = kernels.MAX_DIM
    with kernels.forced(way):
        best = kernels.best_products(
            np.full((2, dim), 127, np.int8), packed([np.full((3, dim), sign * 127)], dim, "int8")
        )
    assert best.tolist() == [[sign * 127 * 127 * dim] * 2]


@needs_library
@pytest.mark.parametrize("n_threads", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("coding", CODINGS)
def test_the_number_of_threads_changes_nothing(n_threads: int, coding: Coding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_WORTH_A_THREAD", 1)
    rng = np.random.default_rng(0)
    pages = packed([integers(int(rng.integers(1, 90)), 33, coding, rng) for _ in range(40)], 33, coding)
    query, rows = integers(9, 33, "int8", rng).astype(np.int8), rng.integers(0, 40, 100)
    for wanted in (None, rows, rows[:1], rows[:0]):
        alone = kernels.best_products(query, pages, wanted, n_threads=1)
        assert np.array_equal(kernels.best_products(query, pages, wanted, n_threads=n_threads), alone)


@given(lengths=st.lists(st.integers(1, 9), max_size=30), n_threads=st.integers(1, 40), work=st.sampled_from([1, 2**24]))
def test_threads_share_pages_evenly_and_leave_none_out(lengths: list[int], n_threads: int, work: int) -> None:
    cuts = kernels._cuts(np.cumsum(lengths), work, n_threads)
    assert cuts[0] == 0
    assert cuts[-1] == len(lengths)
    assert len(cuts) - 1 <= max(n_threads, 1)
    assert all(first < last for first, last in pairwise(cuts)) or cuts == [0, 0]
    for first, last in pairwise(cuts):
        assert sum(lengths[first:last]) <= sum(lengths) / (len(cuts) - 1) * 2 + 9


@needs_library
def test_several_threads_may_ask_at_once() -> None:
    rng = np.random.default_rng(0)
    pages = packed([integers(200, 128, "int8", rng) for _ in range(50)], 128, "int8")
    queries = [integers(n, 128, "int8", rng).astype(np.int8) for n in range(1, 9)]
    expected = [kernels.best_products(query, pages, n_threads=1) for query in queries]
    found: dict[int, NDArray[np.int32]] = {}

    def ask(i: int) -> None:
        found[i] = kernels.best_products(queries[i], pages)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(queries))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(found[i], best) for i, best in enumerate(expected))


@needs_library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    code = (
        "import os, numpy as np\n"
        "from colret import kernels\n"
        "from colret.types import Multivectors\n"
        "kernels._WORTH_A_THREAD = 1\n"
        "pages = Multivectors(np.ones((8, 4), np.int8), np.arange(9), np.ones(8, np.float32), 'int8')\n"
        "ask = lambda: kernels.best_products(np.ones((1, 4), np.int8), pages, n_threads=3).sum()\n"
        "assert ask() == 32\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if ask() == 32 else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


@needs_library
@pytest.mark.parametrize("coding", [*CODINGS, "float16", "float32"])
def test_nothing_is_read_beyond_the_last_vector(coding: Coding) -> None:
    """Its bytes end where a page of memory does that may not be read: reading on would kill the process."""
    code = (
        "import ctypes, mmap, sys, numpy as np\n"
        "from colret import kernels\n"
        "from colret.types import Multivectors\n"
        "size = mmap.PAGESIZE\n"
        "memory = mmap.mmap(-1, 2 * size)\n"
        "start = ctypes.addressof(ctypes.c_char.from_buffer(memory))\n"
        "assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(size), 0) == 0\n"
        "whole = np.frombuffer(memory, np.uint8)\n"
        f"coding = {coding!r}\n"
        "for dim in range(1, 140):\n"
        "    widths = {'int8': dim, 'int4': -(-dim // 2), 'binary': -(-dim // 8), 'float16': 2 * dim}\n"
        "    width, n = widths.get(coding, 4 * dim), 5\n"
        "    values = whole[size - n * width : size].reshape(n, width)\n"
        "    values = values.view(getattr(np, coding, np.uint8))\n"
        "    pages = Multivectors(values, np.array([0, 2, n]), np.ones(2, np.float32), coding, dim)\n"
        "    for name in kernels.instruction_sets():\n"
        "        with kernels.forced(name):\n"
        "            if coding.startswith('float'):\n"
        "                if kernels.has_floats():\n"
        "                    kernels.best_similarities(np.ones((3, dim), np.float32), pages)\n"
        "                continue\n"
        "            kernels.best_products(np.ones((3, dim), np.int8), pages)\n"
        "            if coding == 'binary':\n"
        "                kernels.agreement_sums(np.ones((3, width), np.uint8), pages)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_without_the_library_the_rest_still_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernels, "LIBRARY", tmp_path / "none.so")
    kernels._library.cache_clear()
    try:
        assert not kernels.available()
        assert kernels.instruction_sets() == ()
        pages = packed([np.full((2, 8), 3)], 8, "int8")
        assert products.best_products(np.ones((1, 8), np.int8), pages).tolist() == [[24]]
    finally:
        kernels._library.cache_clear()


def test_a_library_of_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library")
    monkeypatch.setattr(kernels, "LIBRARY", tmp_path / "text.so")
    kernels._library.cache_clear()
    try:
        assert not kernels.available()
    finally:
        kernels._library.cache_clear()


@needs_library
def test_they_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.available()
    monkeypatch.setenv(kernels.OFF, "1")
    assert not kernels.available()


@needs_library
def test_an_unknown_instruction_set_is_refused() -> None:
    with pytest.raises(ValueError, match="abacus is none of"), kernels.forced("abacus"):
        pass


@needs_library
def test_torch_is_not_imported_for_scoring() -> None:
    code = (
        "import sys, numpy as np\n"
        "from colret.scoring import hamming_maxsim, maxsim\n"
        "from colret.types import Multivectors\n"
        "query, ends = np.ones((2, 8), np.float32), np.array([0, 1])\n"
        "maxsim(query, Multivectors(np.ones((1, 8), np.int8), ends, np.ones(1, np.float32), 'int8'))\n"
        "hamming_maxsim(query, Multivectors(np.ones((1, 1), np.uint8), ends, np.ones(1, np.float32), 'binary', 8))\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")), reason="no C compiler")
def test_the_source_compiles_without_a_warning(tmp_path: Path) -> None:
    compiler = next(name for name in ("cc", "gcc", "clang") if shutil.which(name))
    source = ROOT / "colret" / "kernels" / "kernels.c"
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wno-psabi", "-Werror", "-fPIC", "-shared"]
    done = subprocess.run([compiler, *flags, source, "-o", tmp_path / "k.so"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def rows_of(*numbers: int) -> Int64:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize("way", WAYS)
def test_ties_and_values_by_hand(way: str) -> None:
    pages = packed([np.array([[1, 2], [2, 1]]), np.array([[-3, 0], [-3, 0], [0, -4]])], 2, "int8")
    with by(way):
        best = products.best_products(np.array([[1, 1], [1, -1]], np.int8), pages, rows_of(1, 0, 1))
    assert best.tolist() == [[-3, 4], [3, 1], [-3, 4]]


@needs_library
def test_a_query_of_another_type_or_width_is_refused() -> None:
    """The library would read past its end."""
    pages = Multivectors(np.zeros((3, 16), np.int8), np.array([0, 3]), np.ones(1, np.float32), "int8", 16)
    bits = Multivectors(np.zeros((3, 2), np.uint8), np.array([0, 3]), np.ones(1, np.float32), "binary", 16)
    floats = Multivectors.pack([np.zeros((3, 16), np.float32)])
    wrong: list[Any] = [np.zeros((2, 15), np.int8), np.zeros((2, 16), np.float32), np.zeros(16, np.int8)]
    for query in wrong:
        with pytest.raises(ValueError, match=r"query|product"):
            kernels.best_products(query, pages)
    with pytest.raises(ValueError, match="query"):
        kernels.agreement_sums(np.zeros((2, 1), np.uint8), bits)
    with pytest.raises(ValueError, match="product"):
        kernels.best_products(np.zeros((2, 16), np.int8), floats)
    with pytest.raises(IndexError, match="whole numbers"):
        kernels.best_products(np.zeros((2, 16), np.int8), pages, np.zeros((1, 9), np.int64))
