"""Sizes and hashes of page images."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from colret.pixels import MAX_IMAGE_PIXELS, image_hash, target_size

LENGTHS = st.floats(min_value=1e-300, max_value=1.7e308)


@pytest.mark.parametrize(
    ("page", "max_pixels", "size"),
    [
        ((612, 792), 1_000_000, (879, 1137)),
        ((1, 1), 1_000_000, (1000, 1000)),
        ((2_147_483_648, 2_147_483_648), 1_000_000, (1000, 1000)),
        ((1600, 100), 1_000_000, (4000, 250)),  # 16 to 1: the thinnest in proportion
        ((3200, 100), 1_000_000, (4000, 125)),
        ((1, 2_147_483_648), 1_000_000, (1, 4000)),
        ((612, 792), 1, (1, 1)),
    ],
)
def test_target_size_fills_the_budget(page: tuple[float, float], max_pixels: int, size: tuple[int, int]) -> None:
    assert target_size(*page, max_pixels) == size


@given(width=LENGTHS, height=LENGTHS, max_pixels=st.integers(1, MAX_IMAGE_PIXELS))
@example(5e-324, 1.7e308, 1)
@example(1.7e308, 5e-324, 3)
def test_target_size_never_exceeds_the_budget(width: float, height: float, max_pixels: int) -> None:
    columns, rows = target_size(width, height, max_pixels)
    assert columns >= 1
    assert rows >= 1
    assert columns * rows <= max_pixels
    assert max(columns, rows) <= max(1, 4 * math.sqrt(max_pixels))


@given(ratio=st.floats(1 / 16, 16), max_pixels=st.integers(10_000, 4_000_000))
def test_target_size_keeps_proportions(ratio: float, max_pixels: int) -> None:
    columns, rows = target_size(ratio * 100, 100, max_pixels)
    assert abs(columns - rows * ratio) <= 1 + ratio
    assert columns * rows > 0.9 * max_pixels


@pytest.mark.parametrize("page", [(0, 1), (1, -1), (math.nan, 1), (1, math.inf)])
def test_target_size_refuses_what_is_no_page(page: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="has no image"):
        target_size(*page, 100)


@pytest.mark.parametrize("max_pixels", [0, -1, MAX_IMAGE_PIXELS + 1])
def test_target_size_refuses_a_budget_out_of_range(max_pixels: int) -> None:
    with pytest.raises(ValueError, match="max_pixels"):
        target_size(1, 1, max_pixels)


def test_image_hash_of_known_pictures() -> None:
    ramp = Image.fromarray(np.tile(np.arange(0, 252, 28, dtype=np.uint8), (8, 1)))  # 9 x 8, brighter to the right
    assert image_hash(ramp) == -1  # all bits set, in two's complement
    assert image_hash(ramp.transpose(Image.Transpose.FLIP_LEFT_RIGHT)) == 0
    assert image_hash(Image.new("RGB", (50, 70), "white")) == 0
    first = np.zeros((8, 9), np.uint8)
    first[0, 1] = 255  # brighter than its left neighbour in the first comparison only
    assert image_hash(Image.fromarray(first)) == -(2**63)
    last = np.zeros((8, 9), np.uint8)
    last[7, 8] = 255
    assert image_hash(Image.fromarray(last)) == 1


@given(seed=st.integers(0, 2**32 - 1))
def test_image_hash_fits_int64_and_the_bits_are_those_of_a_loop(seed: int) -> None:
    grey = np.random.default_rng(seed).integers(0, 256, (8, 9), np.uint8)
    bits = [grey[row, column + 1] > grey[row, column] for row in range(8) for column in range(8)]
    value = image_hash(Image.fromarray(grey))
    assert -(2**63) <= value < 2**63
    assert f"{value & (2**64 - 1):064b}" == "".join(str(int(bit)) for bit in bits)


def test_image_hash_is_near_for_another_size_and_far_for_another_picture() -> None:
    image = Image.new("L", (600, 800), "white")
    draw = ImageDraw.Draw(image)
    for row in range(20):
        draw.rectangle((50, 40 * row, 100 + 37 * row % 450, 40 * row + 20), fill=row * 9)
    bits = (2**64) - 1
    near = image_hash(image) ^ image_hash(image.resize((450, 600)))
    far = image_hash(image) ^ image_hash(image.transpose(Image.Transpose.ROTATE_180))
    assert (near & bits).bit_count() <= 4
    assert (far & bits).bit_count() >= 16
