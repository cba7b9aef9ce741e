"""MaxSim: shapes, values by hand, a naive triple loop, the padding trap, the fast path's checks."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from colret import kernels, products
from colret.codecs import CODECS, decode, encode
from colret.encoders.torchvision_guard import import_torchvision
from colret.products import BLOCK_VECTORS, torch_product_is_exact
from colret.scoring import (
    float_vectors,
    hamming_maxsim,
    int8_scale,
    maxima,
    maxsim,
    mean_direction,
    normalize_rows,
    quantize,
)
from colret.types import Codec, Float32, Int64, Multivectors

IntProduct = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

DEVICES = ["cpu", "cpu:0"]  # the second is not named "cpu", so it goes the way of a GPU, in float32
LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=8)
SEEDS = st.integers(0, 2**32 - 1)
STEP = 2.0**-10  # a power of two: scaling by it is exact
INT_MM: IntProduct = torch._int_mm


def unit_rows(n: int, dim: int, seed: int) -> Float32:
    rows = np.random.default_rng(seed).normal(size=(n, dim))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def unit_pages(lengths: Sequence[int], dim: int, seed: int) -> list[Float32]:
    return [unit_rows(length, dim, seed + i + 1) for i, length in enumerate(lengths)]


def small_integers(n: int, dim: int, seed: int, largest: int = 2) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(-largest, largest + 1, (n, dim))


def int8_pages(codes: Sequence[NDArray[np.int64]], scales: Sequence[float]) -> Multivectors:
    offsets = np.cumsum([0, *map(len, codes)])
    return Multivectors(np.concatenate(codes).astype(np.int8), offsets, np.array(scales, np.float32), "int8")


def encoded(codec: Codec, pages: Sequence[Float32]) -> Multivectors:
    stored = [encode(page, codec) for page in pages]
    codes = np.frombuffer(b"".join(page.codes for page in stored), np.uint8)
    sizes = np.array([len(page.codes) for page in stored], np.int64)
    return decode(codes, sizes, np.array([page.scale for page in stored], np.float32), pages[0].shape[1], codec)


as_int8 = functools.partial(encoded, "int8")
as_binary = functools.partial(encoded, "binary")
PACKERS = {"float32": Multivectors.pack} | {codec: functools.partial(encoded, codec) for codec in CODECS}
ROUNDED = ("int8", "int4", "binary")  # the query is rounded for these, but not on a device


def naive_maxima(query: NDArray[np.generic], pages: Sequence[NDArray[np.generic]]) -> list[list[float]]:
    """For each page and token, look at every vector: no matrix product, no packing, no padding."""
    best: list[list[float]] = []
    for page in pages:
        best.append([])
        for token in query.tolist():
            similarities = [sum(a * b for a, b in zip(token, vector, strict=True)) for vector in page.tolist()]
            best[-1].append(max(similarities))
    return best


def naive_maxsim(query: NDArray[np.generic], pages: Sequence[NDArray[np.generic]]) -> list[float]:
    return [sum(best) for best in naive_maxima(query, pages)]


def in_blocks_of(monkeypatch: pytest.MonkeyPatch, n_vectors: int) -> None:
    """Have blocks of ``n_vectors`` on a device, and of the same in place of the compiled kernels."""
    blocks = products.blocks
    for module in ("products", "scoring"):
        monkeypatch.setattr(f"colret.{module}.blocks", lambda pages, rows, _=0: blocks(pages, rows, n_vectors))
    monkeypatch.setenv(kernels.OFF, "1")


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do without kernels, and let torch's integer product be checked anew, now and after the test."""
    monkeypatch.setenv(kernels.OFF, "1")
    torch_product_is_exact.cache_clear()
    yield
    torch_product_is_exact.cache_clear()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_shapes(pack: Callable[[Sequence[Float32]], Multivectors], device: str) -> None:
    query, pages = unit_rows(3, 5, 0), pack(unit_pages([1, 4], 5, 0))
    assert maxsim(query, pages, device=device).shape == (2,)
    assert maxsim(query, pages, device=device).dtype == np.float32
    assert maxima(query, pages, device=device).shape == (2, 3)
    assert maxima(query, pages, device=device).dtype == np.float32


@pytest.mark.parametrize("device", DEVICES)
def test_no_pages_have_no_scores(device: str) -> None:
    assert maxsim(unit_rows(3, 5, 0), Multivectors.pack([]), device=device).shape == (0,)
    assert maxima(unit_rows(3, 5, 0), Multivectors.pack([]), device=device).shape == (0, 3)


@pytest.mark.parametrize("device", DEVICES)
def test_values_by_hand(device: str) -> None:
    query = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    pages = [[[0.6, 0.8]], [[1, 0], [-0.6, 0.8]], [[-1, 0], [0, -1], [0, -1]]]
    packed = Multivectors.pack([np.array(page, np.float32) for page in pages])
    expected = [[0.6, 0.8, -0.6], [1, 0.8, 0.6], [0, 0, 1]]
    assert maxima(query, packed, device=device) == pytest.approx(np.array(expected))
    assert maxsim(query, packed, device=device) == pytest.approx([0.8, 2.4, 1])


@pytest.mark.parametrize("device", DEVICES)
def test_each_page_has_its_own_scale(device: str) -> None:
    pages = int8_pages([np.array([[100, 0]]), np.array([[100, 0], [-100, 0]])], [0.01, 0.005])
    assert maxsim(np.array([[1, 0]], np.float32), pages, device=device) == pytest.approx([1, 0.5])


@pytest.mark.parametrize("device", DEVICES)
@given(
    lengths=LENGTHS, n_tokens=st.integers(1, 5), dim=st.integers(1, 9), seed=SEEDS, kind=st.sampled_from(list(PACKERS))
)
@example(lengths=[1], n_tokens=1, dim=1, seed=0, kind="int8")
@example(lengths=[1, 3000, 1], n_tokens=2, dim=2, seed=0, kind="float32")
@example(lengths=[3000, 1], n_tokens=2, dim=3, seed=0, kind="int8")
def test_equals_a_naive_triple_loop(
    device: str, lengths: list[int], n_tokens: int, dim: int, seed: int, kind: str
) -> None:
    query, pages = unit_rows(n_tokens, dim, seed), PACKERS[kind](unit_pages(lengths, dim, seed))
    tolerance = dim / 127 if kind in ROUNDED and device == "cpu" else 1e-5
    expected = naive_maxima(query, [float_vectors(pages, i) for i in range(len(pages))])
    assert maxima(query, pages, device=device) == pytest.approx(np.array(expected), abs=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@given(lengths=LENGTHS, n_tokens=st.integers(1, 5), dim=st.integers(1, 4), seed=SEEDS)
def test_equals_it_exactly_where_products_are_exact_and_often_tied(
    device: str, lengths: list[int], n_tokens: int, dim: int, seed: int
) -> None:
    query = small_integers(n_tokens, dim, seed)
    pages = [small_integers(length, dim, seed + i + 1) for i, length in enumerate(lengths)]
    packed = Multivectors.pack([page.astype(np.float32) for page in pages])
    assert maxima(query.astype(np.float32), packed, device=device).tolist() == naive_maxima(query, pages)
    assert maxsim(query.astype(np.float32), packed, device=device).tolist() == naive_maxsim(query, pages)


@pytest.mark.parametrize("device", DEVICES)
@given(lengths=LENGTHS, n_tokens=st.integers(1, 5), dim=st.integers(1, 40), seed=SEEDS)
@example(lengths=[3, 1], n_tokens=2, dim=1030, seed=0)
def test_int8_equals_the_product_of_the_integers_exactly(
    device: str, lengths: list[int], n_tokens: int, dim: int, seed: int
) -> None:
    query = small_integers(n_tokens, dim, seed, 127)
    query[:, 0] = 127  # so that a token's step is exactly STEP, and its codes are these integers
    codes = [small_integers(length, dim, seed + i + 1, 127) for i, length in enumerate(lengths)]
    scales = [STEP * 2.0**-i for i in range(len(codes))]
    expected = [np.array(best) * STEP * scale for best, scale in zip(naive_maxima(query, codes), scales, strict=True)]
    best = maxima(np.asarray(query * STEP, np.float32), int8_pages(codes, scales), device=device)
    assert best.tolist() == np.array(expected).tolist()


@given(lengths=LENGTHS, n_tokens=st.integers(1, 5), dim=st.integers(1, 130), seed=SEEDS)
def test_int8_stays_within_the_bound_of_its_rounding(lengths: list[int], n_tokens: int, dim: int, seed: int) -> None:
    query, pages = unit_rows(n_tokens, dim, seed), unit_pages(lengths, dim, seed)
    rounded = as_int8(pages)
    # |qp - q'p'| <= |q - q'| |p| + |q'| |p - p'|, each component being off by half a step at most.
    query_errors = np.array([int8_scale(token) for token in query]) / 2 * dim**0.5  # (T,)
    page_errors = rounded.scales / 2 * dim**0.5  # (C,)
    bound = query_errors + (1 + query_errors) * page_errors[:, None] + 1e-5
    assert np.all(np.abs(maxima(query, rounded) - np.array(naive_maxima(query, pages))) <= bound)


def test_a_small_token_is_rounded_no_more_coarsely_than_a_large_one() -> None:
    query, pages = unit_rows(2, 64, 0), as_int8(unit_pages([5], 64, 0))
    query[1] *= 1e-3
    best = maxima(query, pages)[0]
    assert best[1] == pytest.approx(float((float_vectors(pages, 0) @ query[1]).max()), rel=0.05)


def test_a_negative_score_stays_negative_beside_a_longer_page() -> None:
    """colpali-engine pads the shorter page with zeros, and a zero beats what is below it."""
    import_torchvision()
    from colpali_engine.utils.processing_utils import BaseVisualRetrieverProcessor

    query = np.array([[1, 0], [0.6, 0.8]], np.float32)
    short, long = np.array([[-1, 0]], np.float32), np.array([[-0.8, -0.6], [0, 1]], np.float32)

    def engine(*pages: Float32) -> list[float]:
        tensors = [torch.from_numpy(page) for page in pages]
        scores = BaseVisualRetrieverProcessor.score_multi_vector([torch.from_numpy(query)], tensors, device="cpu")
        return list(scores[0].tolist())

    assert engine(short) == pytest.approx([-1.6])
    assert engine(short, long) == pytest.approx([0, 0.8])
    for device in DEVICES:
        for pack in PACKERS.values():
            alone, beside = (maxsim(query, pack(pages), device=device) for pages in ([short], [short, long]))
            assert alone[0] == beside[0] < -0.1
            assert beside[1] > 0.1


@pytest.mark.parametrize("length", [1, 17, 1030])
def test_equals_colpali_engine_on_a_page_by_itself(length: int) -> None:
    import_torchvision()
    from colpali_engine.utils.processing_utils import BaseVisualRetrieverProcessor

    query, page = unit_rows(24, 128, 0), unit_rows(length, 128, 1)
    theirs = BaseVisualRetrieverProcessor.score_multi_vector(
        [torch.from_numpy(query)], [torch.from_numpy(page)], device="cpu"
    )
    assert maxsim(query, Multivectors.pack([page])) == pytest.approx(theirs[0].numpy(), rel=1e-5)


@pytest.mark.parametrize("kind", PACKERS)
@given(lengths=LENGTHS, n_tokens=st.integers(1, 9), seed=SEEDS)
@example(lengths=[700, 1, 300, 2], n_tokens=24, seed=0)
def test_a_score_is_the_same_to_the_last_bit_whatever_is_scored_with_it(
    kind: str, lengths: list[int], n_tokens: int, seed: int
) -> None:
    query, pages = unit_rows(n_tokens, 16, seed), unit_pages(lengths, 16, seed)
    together = maxsim(query, PACKERS[kind](pages))
    assert [float(maxsim(query, PACKERS[kind]([page]))[0]) for page in pages] == together.tolist()
    assert maxsim(query, PACKERS[kind](pages[::-1])).tolist() == together[::-1].tolist()


@pytest.mark.parametrize("n_vectors", [1, 2, 7, 1000])
@pytest.mark.parametrize("rows", [None, np.array([5, 0, 0, 3, 6])])
def test_a_score_does_not_depend_on_the_size_of_a_block(
    monkeypatch: pytest.MonkeyPatch, n_vectors: int, rows: Int64 | None
) -> None:
    query, pages = unit_rows(4, 16, 0), unit_pages([3, 1, 9, 2, 2, 30, 1], 16, 0)
    kinds = {kind: pack(pages) for kind, pack in PACKERS.items()}
    in_one = {kind: maxima(query, packed, rows=rows) for kind, packed in kinds.items()}
    on_device = {kind: maxima(query, packed, rows=rows, device="cpu:0") for kind, packed in kinds.items()}
    in_blocks_of(monkeypatch, n_vectors)
    for kind, packed in kinds.items():
        best = maxima(query, packed, rows=rows)
        assert np.array_equal(best, in_one[kind]) if kind in ROUNDED else best == pytest.approx(in_one[kind], abs=1e-6)
        assert maxima(query, packed, rows=rows, device="cpu:0") == pytest.approx(on_device[kind], abs=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_corpus_of_several_blocks_equals_its_pages_one_by_one(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [BLOCK_VECTORS - 1, 2, 1, BLOCK_VECTORS, 3, 17 * BLOCK_VECTORS, 1]
    rng = np.random.default_rng(0)
    codes = [rng.integers(-127, 128, (length, 2)) for length in lengths]
    query = np.array([[127, 3], [-5, 127]]) * STEP
    expected = [(query @ page.T * STEP).max(axis=1) for page in codes]
    pages = int8_pages(codes, [STEP] * len(codes))
    assert maxima(query.astype(np.float32), pages, device=device) == pytest.approx(np.array(expected), rel=1e-6)
    if device == "cpu":
        monkeypatch.setenv(kernels.OFF, "1")
        assert maxima(query.astype(np.float32), pages) == pytest.approx(np.array(expected), rel=1e-6)


@given(lengths=st.lists(st.integers(1, 9), max_size=20), n_vectors=st.integers(1, 12), some=st.booleans())
def test_blocks_hold_every_page_once_and_no_more_vectors_than_asked(
    lengths: list[int], n_vectors: int, some: bool
) -> None:
    rng = np.random.default_rng(len(lengths))
    values = np.arange(sum(lengths), dtype=np.float32)[:, None]
    pages = Multivectors(values, np.cumsum([0, *lengths]), np.ones(len(lengths), np.float32))
    rows = rng.integers(0, len(lengths), 2 * len(lengths)) if some and lengths else None
    wanted = np.arange(len(lengths)) if rows is None else rows
    found = list(products.blocks(pages, rows, n_vectors))
    assert [i for place, _, _ in found for i in range(place.start, place.stop)] == list(range(len(wanted)))
    for place, block, starts in found:
        own = [values[pages.offsets[row] : pages.offsets[row + 1]] for row in wanted[place]]
        assert np.array_equal(block, np.concatenate(own))
        assert starts.tolist() == np.cumsum([0, *map(len, own)]).tolist()
        assert len(block) <= n_vectors or len(own) == 1
    sizes = np.array(lengths)[wanted]
    assert all(sizes[place.start : place.stop + 1].sum() > n_vectors for place, _, _ in found[:-1])  # none unfilled


def test_without_kernels_int8_pages_go_through_torchs_integer_product(
    monkeypatch: pytest.MonkeyPatch, unchecked: None
) -> None:
    shapes = []

    def counted(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        shapes.append((*left.shape, *right.shape))
        return INT_MM(left, right)

    assert torch_product_is_exact()
    monkeypatch.setattr(torch, "_int_mm", counted)
    maxsim(unit_rows(3, 16, 0), as_int8(unit_pages([2, 5], 16, 0)))
    maxsim(unit_rows(3, 16, 0), Multivectors.pack(unit_pages([2, 5], 16, 0)))
    assert shapes == [(3, 16, 16, 7)]


def failing(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("no kernel for this processor")


def missing(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError("could not run aten::_int_mm")


def halving(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return INT_MM(left, (right // 2).contiguous()) * 2


def saturating(signed: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Multiply as x86 processors without VNNI do: ``signed`` made unsigned, pairs of products in 16 bits."""
    n_odd = signed.shape[1] % 2
    unsigned = torch.nn.functional.pad(signed.int() + 128, (0, n_odd))  # (n, D), 1 to 255
    factors = torch.nn.functional.pad(other.int(), (0, 0, 0, n_odd))  # (D, m)
    products = unsigned[:, :, None] * factors  # (n, D, m)
    pairs = products.reshape(len(signed), -1, 2, other.shape[1]).sum(2)
    return pairs.clamp(-(2**15), 2**15 - 1).sum(1).int() - 128 * other.int().sum(0).int()


def saturating_left(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return saturating(left, right)


def saturating_right(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return saturating(right.T, left.T).T.contiguous()


@pytest.mark.parametrize("product", [failing, missing, halving, saturating_left, saturating_right])
@pytest.mark.parametrize("sign", [1, -1])
def test_where_the_integer_product_is_wrong_scores_are_right_all_the_same(
    monkeypatch: pytest.MonkeyPatch, unchecked: None, product: IntProduct, sign: int
) -> None:
    monkeypatch.setattr(torch, "_int_mm", product)
    token = np.full((1, 64), sign / 8, np.float32)
    pages = as_int8([token, -token, np.concatenate([-token, unit_rows(3, 64, 0), token])])
    assert maxsim(token, pages) == pytest.approx([1, -1, 1], abs=3e-3)


def test_where_torch_has_no_integer_product_scores_are_right(monkeypatch: pytest.MonkeyPatch, unchecked: None) -> None:
    monkeypatch.delattr(torch, "_int_mm")
    query, pages = unit_rows(3, 16, 0), unit_pages([2, 5], 16, 0)
    assert maxsim(query, as_int8(pages)) == pytest.approx(naive_maxsim(query, pages), abs=0.05)


@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE"])
def test_scores_are_right_on_a_processor_whose_int8_instructions_saturate(instructions: str) -> None:
    """OneDNN obeys this variable as if it ran on an older processor; others ignore it."""
    code = (
        "import numpy as np\n"
        "from colret.scoring import maxsim\n"
        "from colret.types import Multivectors\n"
        "token, scale = np.full((1, 64), 1 / 8, np.float32), np.array([1 / 8 / 127], np.float32)\n"
        "pages = Multivectors(np.full((1, 64), 127, np.int8), np.array([0, 1]), scale, 'int8')\n"
        "print(maxsim(token, pages)[0])\n"
    )
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": instructions, kernels.OFF: "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(1, abs=1e-3)


def test_a_pages_scale_is_not_lost_on_the_device() -> None:
    query, pages = unit_rows(3, 16, 0), unit_pages([2, 5, 1], 16, 0)
    assert maxsim(query, as_int8(pages), device="cpu:0") == pytest.approx(naive_maxsim(query, pages), abs=0.05)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "query", [np.empty((0, 5), np.float32), np.ones(5, np.float32), np.ones((1, 1, 5), np.float32)]
)
def test_a_query_without_vectors_is_refused(query: Float32, device: str) -> None:
    with pytest.raises(ValueError, match="at least one vector"):
        maxsim(query, Multivectors.pack(unit_pages([2], 5, 0)), device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_query_of_another_dimension_is_refused(
    pack: Callable[[Sequence[Float32]], Multivectors], device: str
) -> None:
    with pytest.raises(ValueError, match="query has 4 dimensions, pages have 5"):
        maxsim(unit_rows(2, 4, 0), pack(unit_pages([2], 5, 0)), device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [[2], [-1], [0, 5]])
def test_pages_that_are_not_there_are_refused(rows: list[int], device: str) -> None:
    with pytest.raises(IndexError, match="from 0 to 1"):
        maxsim(unit_rows(2, 5, 0), Multivectors.pack(unit_pages([2, 1], 5, 0)), rows=np.array(rows), device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", PACKERS)
@given(n_pages=st.integers(1, 6), data=st.data(), seed=SEEDS)
def test_rows_pick_pages_in_any_order_and_as_often_as_wanted(
    kind: str, device: str, n_pages: int, data: st.DataObject, seed: int
) -> None:
    lengths = np.random.default_rng(seed).integers(1, 9, n_pages).tolist()
    query, pages = unit_rows(3, 16, seed), PACKERS[kind](unit_pages(lengths, 16, seed))
    rows = np.array(data.draw(st.lists(st.integers(0, n_pages - 1), max_size=9)), np.int64)
    everything = maxima(query, pages, device=device)
    picked = maxima(query, pages, rows=rows, device=device)
    assert picked.shape == (len(rows), 3)
    assert picked == pytest.approx(everything[rows], abs=1e-6)
    if device == "cpu":
        assert np.array_equal(picked, everything[rows])
        assert np.array_equal(maxsim(query, pages, rows=rows), maxsim(query, pages)[rows])


@given(lengths=LENGTHS, n_tokens=st.integers(1, 40), dim=st.integers(1, 200), seed=SEEDS)
@settings(deadline=None)
def test_scores_are_the_same_to_the_last_bit_with_and_without_kernels(
    lengths: list[int], n_tokens: int, dim: int, seed: int
) -> None:
    query, pages = unit_rows(n_tokens, dim, seed), unit_pages(lengths, dim, seed)
    for codec in ROUNDED:
        packed = PACKERS[codec](pages)
        with pytest.MonkeyPatch.context() as patch:
            compiled = maxima(query, packed)
            patch.setenv(kernels.OFF, "1")
            by_torch = maxima(query, packed)
            patch.setattr(products, "torch_product_is_exact", lambda: False)
            by_numpy = maxima(query, packed)
        assert np.array_equal(compiled, by_torch)
        assert np.array_equal(compiled, by_numpy)


def test_hamming_by_hand() -> None:
    query = np.array([[0.5, -0.1, 0, 0.2], [-1, -1, -1, -1]], np.float32)
    pages = as_binary([np.array([[1, 1, 1, 1], [1, -1, 1, -1]], np.float32), np.array([[-1, -1, 1, 1]], np.float32)])
    assert hamming_maxsim(query, pages).tolist() == [0.5, 0.5]
    assert hamming_maxsim(query, pages, rows=np.array([1])).tolist() == [0.5]
    assert hamming_maxsim(query[:1], pages).dtype == np.float32


@pytest.mark.parametrize("off", ["", "1"])
@settings(deadline=None)
@given(lengths=LENGTHS, n_tokens=st.integers(1, 5), dim=st.integers(1, 130), seed=SEEDS)
def test_hamming_equals_a_naive_triple_loop(off: str, lengths: list[int], n_tokens: int, dim: int, seed: int) -> None:
    query, pages = unit_rows(n_tokens, dim, seed), unit_pages(lengths, dim, seed)
    signs = naive_maxsim(np.sign(query), [np.sign(page) for page in pages])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.OFF, off)
        assert hamming_maxsim(query, as_binary(pages)) == pytest.approx(np.array(signs) / dim, rel=1e-6)


def test_hamming_wants_signs() -> None:
    with pytest.raises(ValueError, match="the pages are in int8"):
        hamming_maxsim(unit_rows(2, 5, 0), as_int8(unit_pages([2], 5, 0)))
    with pytest.raises(ValueError, match="query has 4 dimensions, pages have 5"):
        hamming_maxsim(unit_rows(2, 4, 0), as_binary(unit_pages([2], 5, 0)))


def test_float_vectors_of_a_page() -> None:
    pages = int8_pages([np.array([[1, 2]]), np.array([[100, 0], [-100, 50]])], [1, 0.01])
    assert float_vectors(pages, 1) == pytest.approx(np.array([[1, 0], [-1, 0.5]]))
    assert float_vectors(pages, 1).dtype == np.float32


def test_rows_are_scaled_to_unit_length() -> None:
    rows = normalize_rows(np.array([[3, 4], [0, -2], [0.6, 0.8]], np.float32))
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, -1], [0.6, 0.8]]))
    assert rows.dtype == np.float32
    assert normalize_rows(np.empty((0, 3), np.float32)).shape == (0, 3)


@given(n=st.integers(1, 9), dim=st.integers(1, 400), seed=SEEDS, size=st.floats(1e-6, 1e6))
def test_unit_rows_point_where_their_rows_did(n: int, dim: int, seed: int, size: float) -> None:
    expected = unit_rows(n, dim, seed)
    assert normalize_rows(expected * np.float32(size)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("size", [1e-37, 1e-22, 1e20, 1e37])
def test_squares_outside_float32_do_not_matter(size: float) -> None:
    assert normalize_rows(np.array([[3, 4]], np.float32) * np.float32(size)) == pytest.approx(np.array([[0.6, 0.8]]))


@pytest.mark.parametrize("row", [[0, 0], [np.nan, 1], [np.inf, 1], [-np.inf, np.inf]])
def test_what_has_no_direction_is_refused(row: list[float]) -> None:
    with pytest.raises(ValueError, match="zero, infinite or not a number"):
        normalize_rows(np.array([[1, 0], row], np.float32))


def test_the_mean_direction_lies_between_the_rows() -> None:
    assert mean_direction(np.array([[1, 0], [0, 1]], np.float32)) == pytest.approx([0.5**0.5] * 2)
    assert mean_direction(np.array([[1, 0], [1, 0], [-0.6, 0.8]], np.float32)) == pytest.approx(
        np.array([1.4, 0.8]) / (1.4**2 + 0.8**2) ** 0.5
    )


@given(n=st.integers(1, 9), dim=st.integers(2, 40), seed=SEEDS)
def test_the_mean_direction_is_a_unit_vector_along_the_mean(n: int, dim: int, seed: int) -> None:
    rows = unit_rows(n, dim, seed)
    direction = mean_direction(rows)
    assert direction.dtype == np.float32
    assert direction.shape == (dim,)
    assert np.linalg.norm(direction) == pytest.approx(1, abs=1e-6)
    mean = rows.mean(axis=0, dtype=np.float64)
    assert direction @ mean == pytest.approx(np.linalg.norm(mean), abs=1e-6)


def test_the_first_row_stands_for_rows_that_cancel_out() -> None:
    row = unit_rows(1, 8, 0)
    assert np.array_equal(mean_direction(np.concatenate([row, -row])), mean_direction(row))


def test_a_step_lets_int8_just_hold_the_largest_component() -> None:
    vectors = np.array([[0.1, -0.254], [0.2, 0]], np.float32)
    scale = int8_scale(vectors)
    assert scale == pytest.approx(0.002)
    assert quantize(vectors, np.asarray(scale)).tolist() == [[50, -127], [100, 0]]
    assert quantize(vectors, np.asarray(scale / 2)).tolist() == [[100, -127], [127, 0]]
    assert int8_scale(np.zeros((2, 2), np.float32)) > 0
