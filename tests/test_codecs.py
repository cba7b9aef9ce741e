"""Codecs: sizes, values by hand, bounds of the round trip on random pages, torn codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from colret.codecs import CODECS, StoredVectors, bytes_per_vector, decode, encode
from colret.scoring import maxsim
from colret.types import Codec, Float32

DTYPES = {"int8": np.int8, "float16": np.float16}
COMPONENTS = st.floats(-1, 1, width=32)
PAGES = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=COMPONENTS)


def unit_rows(n: int, dim: int, seed: int) -> Float32:
    rows = np.random.default_rng(seed).normal(size=(n, dim))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def test_every_codec_has_its_size() -> None:
    assert set(CODECS) == {"int8", "float16"}
    assert bytes_per_vector(384, "int8") == 384
    assert bytes_per_vector(384, "float16") == 768


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


@given(page=PAGES)
def test_int8_errs_by_half_a_step_at_most(page: Float32) -> None:
    stored = encode(page, "int8")
    decoded = decode([stored], page.shape[1], "int8")
    assert decoded.values.dtype == np.int8
    error = np.abs(decoded.page(0).astype(np.float64) - page)
    assert error.max() <= stored.scale / 2 * (1 + 1e-5)


@given(page=PAGES.filter(lambda page: np.abs(page).max() > 1e-9))
def test_the_largest_component_takes_the_whole_of_int8(page: Float32) -> None:
    codes = np.frombuffer(encode(page, "int8").codes, np.int8).reshape(page.shape)
    largest = np.unravel_index(np.abs(page).argmax(), page.shape)
    assert codes[largest] == np.copysign(127, page[largest])
    assert codes.min() >= -127


@given(page=PAGES)
def test_float16_errs_by_half_its_last_bit_at_most(page: Float32) -> None:
    decoded = decode([encode(page, "float16")], page.shape[1], "float16")
    assert decoded.values.dtype == np.float16
    error = np.abs(decoded.page(0).astype(np.float64) - page)
    assert np.all(error <= np.maximum(np.abs(page) * 2.0**-11, 2.0**-25))


@pytest.mark.parametrize("codec", CODECS)
def test_a_page_of_zeros_stays_one(codec: Codec) -> None:
    decoded = decode([encode(np.zeros((2, 3), np.float32), codec)], 3, codec)
    assert np.array_equal(decoded.page(0), np.zeros((2, 3)))


@pytest.mark.parametrize("codec", CODECS)
@given(lengths=st.lists(st.integers(1, 7), max_size=8), dim=st.integers(1, 5))
def test_ragged_pages_come_back_in_order(codec: Codec, lengths: list[int], dim: int) -> None:
    pages = [unit_rows(length, dim, seed) * np.float32(seed + 1) for seed, length in enumerate(lengths)]
    decoded = decode([encode(page, codec) for page in pages], dim, codec)
    assert len(decoded) == len(pages)
    assert decoded.values.shape == (sum(lengths), dim)
    assert decoded.values.dtype == DTYPES[codec]
    for i, page in enumerate(pages):
        assert decoded.page(i) == pytest.approx(page, abs=(i + 1) / 250)


@pytest.mark.parametrize("codec", CODECS)
def test_codes_may_be_a_view_into_a_larger_buffer(codec: Codec) -> None:
    pages = [unit_rows(n, 6, n) for n in (1, 4, 2)]
    stored = [encode(page, codec) for page in pages]
    buffer = memoryview(b"x" + b"".join(page.codes for page in stored))  # odd: no float16 is aligned
    views, start = [], 1
    for page in stored:
        views.append(StoredVectors(buffer[start : start + len(page.codes)], page.scale))
        start += len(page.codes)
    assert np.array_equal(decode(views, 6, codec).values, decode(stored, 6, codec).values)


@pytest.mark.parametrize("codec", CODECS)
def test_decoded_pages_do_not_change_with_their_source(codec: Codec) -> None:
    page = unit_rows(2, 4, 0)
    stored = encode(page, codec)
    source = bytearray(stored.codes)
    decoded = decode([StoredVectors(memoryview(source), stored.scale)], 4, codec)
    source[:] = bytes(len(source))
    assert decoded.page(0) == pytest.approx(page, abs=0.01)


@pytest.mark.parametrize("codec", CODECS)
def test_no_pages_decode_to_none(codec: Codec) -> None:
    decoded = decode([], 4, codec)
    assert len(decoded) == 0
    assert maxsim(unit_rows(2, 4, 0), decoded).shape == (0,)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("n_missing", [1, 3])
def test_torn_codes_are_refused(codec: Codec, n_missing: int) -> None:
    whole = encode(unit_rows(3, 4, 0), codec)
    torn = StoredVectors(whole.codes[:-n_missing], whole.scale)
    with pytest.raises(ValueError, match=f"whole number of {bytes_per_vector(4, codec)}-byte vectors"):
        decode([whole, torn, whole], 4, codec)


@pytest.mark.parametrize("codec", CODECS)
def test_two_torn_pages_that_add_up_to_whole_vectors_are_refused(codec: Codec) -> None:
    width = bytes_per_vector(4, codec)
    torn = [StoredVectors(bytes(width - 1), 1.0), StoredVectors(bytes(width + 1), 1.0)]
    with pytest.raises(ValueError, match="whole number"):
        decode(torn, 4, codec)


@pytest.mark.parametrize("codec", CODECS)
def test_a_page_without_codes_is_refused(codec: Codec) -> None:
    with pytest.raises(ValueError, match="whole number"):
        decode([encode(unit_rows(1, 4, 0), codec), StoredVectors(b"", 1.0)], 4, codec)
