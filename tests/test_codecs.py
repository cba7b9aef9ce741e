"""Codecs: sizes, values by hand, bounds of the round trip on random pages, torn codes, no copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from colret.codecs import CODECS, StoredVectors, bytes_per_vector, decode, encode
from colret.scoring import float_vectors, maxsim
from colret.types import Codec, Float32, Multivectors

DTYPES = {"float16": np.float16, "int8": np.int8, "int4": np.uint8, "binary": np.uint8}
COMPONENTS = st.floats(-1, 1, width=32)
PAGES = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=COMPONENTS)


def unit_rows(n: int, dim: int, seed: int) -> Float32:
    rows = np.random.default_rng(seed).normal(size=(n, dim))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def decoded(stored: Sequence[StoredVectors], dim: int, codec: Codec) -> Multivectors:
    codes = np.frombuffer(b"".join(page.codes for page in stored), np.uint8)
    sizes = np.array([len(page.codes) for page in stored], np.int64)
    return decode(codes, sizes, np.array([page.scale for page in stored], np.float32), dim, codec)


def round_trip(page: Float32, codec: Codec) -> Float32:
    return float_vectors(decoded([encode(page, codec)], page.shape[1], codec), 0)


def test_every_codec_has_its_size() -> None:
    assert set(CODECS) == set(DTYPES)
    assert {codec: bytes_per_vector(384, codec) for codec in CODECS} == {
        "float16": 768,
        "int8": 384,
        "int4": 192,
        "binary": 48,
    }
    assert {codec: bytes_per_vector(9, codec) for codec in CODECS} == {"float16": 18, "int8": 9, "int4": 5, "binary": 2}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("n", "dim"), [(0, 4), (1, 1), (3, 5), (1030, 128)])
def test_a_page_takes_bytes_per_vector_times_its_vectors(codec: Codec, n: int, dim: int) -> None:
    assert len(encode(unit_rows(n, dim, 0), codec).codes) == n * bytes_per_vector(dim, codec)


def test_int8_by_hand() -> None:
    stored = encode(np.array([[0.254, -0.127], [0, 0.05]], np.float32), "int8")
    assert np.frombuffer(stored.codes, np.int8).tolist() == [127, -64, 0, 25]
    assert stored.scale == pytest.approx(0.254 / 127)


def test_float16_by_hand() -> None:
    stored = encode(np.array([[0.5, -0.25], [1 + 2**-12, 0]], np.float32), "float16")
    assert np.frombuffer(stored.codes, np.float16).tolist() == [0.5, -0.25, 1, 0]
    assert stored.scale == 1


def test_binary_by_hand() -> None:
    stored = encode(np.array([[0.5, -0.25, 0, -1], [-1, 1, 1, 1]], np.float32), "binary")
    assert list(stored.codes) == [0b0101, 0b1110]
    assert stored.scale == 0.5
    assert decoded([stored], 4, "binary").scales.dtype == np.float32


def test_int4_of_what_its_steps_hold_is_exact() -> None:
    page = np.array([[-15, -13, 1, 3], [13, 15, -3, 1], [15, 13, 3, -1]], np.float32) / np.float32(404**0.5)
    stored = encode(page, "int4")
    assert list(stored.codes) == [0x80, 0x91, 0x6E, 0x8F, 0x9F, 0x7E]
    assert stored.scale == pytest.approx(404**-0.5)
    assert round_trip(page, "int4") == pytest.approx(page)


@given(page=PAGES)
def test_int8_errs_by_half_a_step_at_most(page: Float32) -> None:
    stored = encode(page, "int8")
    error = np.abs(round_trip(page, "int8").astype(np.float64) - page)
    assert error.max() <= stored.scale / 2 * (1 + 1e-5)


@given(n=st.integers(1, 40), dim=st.integers(48, 400), seed=st.integers(0, 1000))
def test_int4_gives_every_vector_of_a_page_the_same_product_with_itself(n: int, dim: int, seed: int) -> None:
    page = unit_rows(n, dim, seed)
    products = (round_trip(page, "int4") * page).sum(axis=1)
    assert products == pytest.approx(np.ones(n), abs=0.05)
    assert products.std() < 0.015  # rounding alone leaves lengths 0.03 apart at these dimensions


@given(n=st.integers(1, 60), dim=st.integers(2, 60), seed=st.integers(0, 1000))
def test_int4_turns_vectors_no_further_than_plain_rounding_does(n: int, dim: int, seed: int) -> None:
    page = unit_rows(n, dim, seed).astype(np.float64)

    def cosines(found: NDArray[np.floating]) -> float:
        return float(np.mean((found * page).sum(axis=1) / np.linalg.norm(found, axis=1)))

    step = np.abs(page).max() / 15
    uncut = np.clip(2 * np.floor(page / step / 2) + 1, -15, 15) * step
    assert cosines(round_trip(page.astype(np.float32), "int4")) >= cosines(uncut) - 0.02


def test_int4_cuts_a_rare_large_component_for_the_sake_of_the_others() -> None:
    page = unit_rows(1000, 64, 0)
    page[0, 0] = 1
    assert encode(page, "int4").scale < 0.6 / 15


@given(page=PAGES)
def test_binary_keeps_the_signs_and_unit_length(page: Float32) -> None:
    found = round_trip(page, "binary")
    assert np.array_equal(found > 0, page >= 0)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(len(page)), rel=1e-6)


@given(page=PAGES.filter(lambda page: np.abs(page).max() > 1e-9))
def test_the_largest_component_takes_the_whole_of_int8(page: Float32) -> None:
    codes = np.frombuffer(encode(page, "int8").codes, np.int8).reshape(page.shape)
    largest = np.unravel_index(np.abs(page).argmax(), page.shape)
    assert codes[largest] == np.copysign(127, page[largest])
    assert codes.min() >= -127


@given(page=PAGES)
def test_float16_errs_by_half_its_last_bit_at_most(page: Float32) -> None:
    error = np.abs(round_trip(page, "float16").astype(np.float64) - page)
    assert np.all(error <= np.maximum(np.abs(page) * 2.0**-11, 2.0**-25))


@pytest.mark.parametrize("codec", CODECS)
def test_a_page_of_zeros_has_no_similarity_to_speak_of_except_in_binary(codec: Codec) -> None:
    found = round_trip(np.zeros((2, 3), np.float32), codec)
    assert np.abs(found).max() == pytest.approx(3**-0.5 if codec == "binary" else 0, abs=1e-6)


@pytest.mark.parametrize("codec", CODECS)
@given(lengths=st.lists(st.integers(1, 7), max_size=8), dim=st.integers(1, 20))
def test_ragged_pages_come_back_in_order(codec: Codec, lengths: list[int], dim: int) -> None:
    pages = [unit_rows(length, dim, seed) * np.float32(seed + 1) for seed, length in enumerate(lengths)]
    found = decoded([encode(page, codec) for page in pages], dim, codec)
    assert len(found) == len(pages)
    assert (found.coding, found.dim) == (codec, dim)
    assert found.values.shape == (sum(lengths), bytes_per_vector(dim, codec) // np.dtype(DTYPES[codec]).itemsize)
    assert found.values.dtype == DTYPES[codec]
    for i, page in enumerate(pages):
        assert np.array_equal(float_vectors(found, i), round_trip(page, codec))


@pytest.mark.parametrize("codec", CODECS)
def test_codes_are_not_copied(codec: Codec) -> None:
    stored = encode(unit_rows(3, 6, 0), codec)
    source = np.frombuffer(bytearray(stored.codes), np.uint8)
    found = decode(source, np.array([len(source)]), np.array([stored.scale], np.float32), 6, codec)
    assert np.shares_memory(found.values, source)


@pytest.mark.parametrize("codec", CODECS)
def test_codes_may_lie_anywhere_in_a_larger_buffer(codec: Codec) -> None:
    pages = [encode(unit_rows(n, 6, n), codec) for n in (1, 4, 2)]
    whole = b"".join(page.codes for page in pages)
    odd = np.frombuffer(b"x" + whole, np.uint8)[1:]  # no float16 is aligned, nothing may be written
    sizes, scales = np.array([len(page.codes) for page in pages]), np.array([page.scale for page in pages], np.float32)
    found, query = decode(odd, sizes, scales, 6, codec), unit_rows(5, 6, 9)
    assert np.array_equal(found.values, decoded(pages, 6, codec).values)
    for device in ("cpu", "cpu:0"):
        assert np.array_equal(
            maxsim(query, found, device=device), maxsim(query, decoded(pages, 6, codec), device=device)
        )


@pytest.mark.parametrize("codec", CODECS)
def test_no_pages_decode_to_none(codec: Codec) -> None:
    found = decoded([], 4, codec)
    assert len(found) == 0
    assert maxsim(unit_rows(2, 4, 0), found).shape == (0,)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("n_missing", [1, 3])
def test_torn_codes_are_refused(codec: Codec, n_missing: int) -> None:
    whole = encode(unit_rows(3, 36, 0), codec)
    torn = StoredVectors(whole.codes[:-n_missing], whole.scale)
    with pytest.raises(ValueError, match=f"whole number of {bytes_per_vector(36, codec)}-byte vectors"):
        decoded([whole, torn, whole], 36, codec)


@pytest.mark.parametrize("codec", CODECS)
def test_two_torn_pages_that_add_up_to_whole_vectors_are_refused(codec: Codec) -> None:
    width = bytes_per_vector(36, codec)
    torn = [StoredVectors(bytes(width - 1), 1.0), StoredVectors(bytes(width + 1), 1.0)]
    with pytest.raises(ValueError, match="whole number"):
        decoded(torn, 36, codec)


@pytest.mark.parametrize("codec", CODECS)
def test_sizes_that_do_not_add_up_to_the_codes_are_refused(codec: Codec) -> None:
    codes = np.frombuffer(encode(unit_rows(3, 36, 0), codec).codes, np.uint8)
    with pytest.raises(ValueError, match="whole number"):
        decode(codes, np.array([len(codes) // 3]), np.ones(1, np.float32), 36, codec)


@pytest.mark.parametrize("codec", CODECS)
def test_a_page_without_codes_is_refused(codec: Codec) -> None:
    with pytest.raises(ValueError, match="whole number"):
        decoded([encode(unit_rows(1, 4, 0), codec), StoredVectors(b"", 1.0)], 4, codec)
