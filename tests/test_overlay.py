"""Overlays: heat where its boxes are, text as legible as before, outlines that stand out on any ground."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from colret.encoders.geometry import grid_boxes
from colret.errors import ColretError
from colret.matches import PageBox
from colret.overlay import HEAT_COLOR, fit, overlay, write_png
from colret.regions import Region
from colret.types import Boxes

SIZE = (200, 300)
Pixels = NDArray[np.float64]
MIDDLE: Boxes = np.array([[16384, 16384, 49151, 49151]], np.uint16)
WHITE, BLACK, NAVY, GREY = (255, 255, 255), (0, 0, 0), (18, 23, 41), (128, 128, 128)


def luminance(pixels: Pixels) -> Pixels:
    """Relative luminance as WCAG 2.2 defines it."""
    share = pixels / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    result: Pixels = linear @ [0.2126, 0.7152, 0.0722]
    return result


def contrast(first: Pixels, second: Pixels) -> Pixels:
    bright, dark = (pick(luminance(first), luminance(second)) for pick in (np.maximum, np.minimum))
    result: Pixels = (bright + 0.05) / (dark + 0.05)
    return result


def plain(color: tuple[int, int, int]) -> Image.Image:
    return Image.new("RGB", SIZE, color)


def photo() -> Image.Image:
    """A picture with every brightness in it, smooth and rough."""
    rng = np.random.default_rng(0)
    ramp = np.linspace(0, 255, SIZE[1])[:, None, None] + rng.normal(0, 40, (SIZE[1], SIZE[0], 3))
    return Image.fromarray(np.clip(ramp, 0, 255).astype(np.uint8))


def heated(image: Image.Image, heat: float = 1.0, boxes: Boxes = MIDDLE, *, from_words: bool = True) -> Pixels:
    drawn = overlay(image, boxes, np.full(len(boxes), heat), size=(100.0, 150.0), from_words=from_words)
    return np.asarray(drawn, np.float64)


def outlined(image: Image.Image, *boxes: tuple[float, float, float, float]) -> Pixels:
    regions = [Region(PageBox(*box), 0.5, ()) for box in boxes]
    drawn = overlay(image, MIDDLE, np.zeros(1), regions, size=(100.0, 150.0), from_words=True)
    return np.asarray(drawn, np.float64)


@pytest.mark.parametrize(("ground", "ink"), [(WHITE, BLACK), (BLACK, WHITE), (NAVY, WHITE)])
def test_text_stays_legible_where_the_page_is_hottest(ground: tuple[int, int, int], ink: tuple[int, int, int]) -> None:
    """4.5 is what WCAG 2.2 asks of body text."""
    below, letters = heated(plain(ground))[150, 100], heated(plain(ink))[150, 100]
    assert contrast(below, letters) >= 4.5


@pytest.mark.parametrize("ground", [WHITE, BLACK, NAVY, GREY])
def test_heat_is_seen_on_any_ground(ground: tuple[int, int, int]) -> None:
    image = heated(plain(ground))
    assert np.abs(image[150, 100] - image[10, 10]).max() >= 50  # hot against cold, of 255
    half = heated(plain(ground), 0.5)[150, 100]
    assert np.abs(half - image[10, 10]).max() >= 22


def test_heat_keeps_the_order_of_brightness() -> None:
    cold, hot = np.asarray(photo(), np.float64), heated(photo(), boxes=grid_boxes(1, 1))
    assert ((cold[:-1] >= cold[1:]) <= (hot[:-1] >= hot[1:])).all()


def test_heat_lies_in_its_box_and_nowhere_else() -> None:
    image = heated(plain(WHITE))
    changed = (image != 255).any(axis=2)
    margin = 0.15 * 0.5 * SIZE[0] + 1  # of the lower side
    rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
    assert changed[75:225, 50:150].all()
    assert rows.min() >= 75 - margin
    assert rows.max() <= 225 + margin
    assert columns.min() >= 50 - margin
    assert columns.max() <= 150 + margin


def test_where_boxes_overlap_the_hottest_shows() -> None:
    boxes = np.array([[0, 0, 65535, 65535]] * 3, np.uint16)
    for order in ([1.0, 0.2, 0.5], [0.2, 0.5, 1.0]):
        drawn = overlay(plain(WHITE), boxes, np.array(order), size=(1.0, 1.0), from_words=True)
        assert drawn.getpixel((100, 150)) == pytest.approx([255 + 0.45 * (c - 255) for c in HEAT_COLOR], abs=2)


@given(cell=st.integers(0, 47))
def test_a_smoothed_cell_is_hot_around_its_centre(cell: int) -> None:
    boxes = grid_boxes(8, 6)
    drawn = overlay(plain(WHITE), boxes, np.eye(48)[cell], size=(1.0, 1.0), from_words=False)
    heat = 255 - np.asarray(drawn, np.float64)[:, :, 2]
    y, x = (heat * np.arange(300)[:, None]).sum() / heat.sum(), (heat * np.arange(200)).sum() / heat.sum()
    left, top, right, bottom = boxes[cell] / 65535 * [200, 300, 200, 300]
    assert left <= x <= right
    assert top <= y <= bottom
    assert heat[int((top + bottom) / 2), int((left + right) / 2)] >= 0.85 * heat.max()


def test_nothing_hot_leaves_the_page_as_it_is() -> None:
    assert (heated(photo(), 0.0) == np.asarray(photo())).all()
    assert (heated(photo(), boxes=np.empty((0, 4), np.uint16), from_words=False) == np.asarray(photo())).all()


@pytest.mark.parametrize("ground", [plain(WHITE), plain(BLACK), plain(GREY), plain(NAVY), photo()])
def test_outlines_stand_out_on_any_ground(ground: Image.Image) -> None:
    """3 is what WCAG 2.2 asks of graphics: of the line's two colours one must have it everywhere."""
    before, after = np.asarray(ground, np.float64), outlined(ground, (20, 40, 80, 110))
    edge = after[100:200, 35:45]  # across the left side
    best = np.maximum.reduce([contrast(edge[:, i], before[100:200, 35]) for i in range(edge.shape[1])])
    assert best.min() >= 3


def test_ranks_are_written_beside_their_regions_and_inside_the_image() -> None:
    page = outlined(plain(WHITE), (20, 40, 80, 60), (0, 0, 100, 150), (0, 140, 30, 150))
    beside = (page[80:100, 20:38] != 255).any(axis=2)
    assert beside.mean() > 0.15
    assert (page[:20, -20:] != 255).any()  # no room on the left: on the right


def test_a_degenerate_region_is_no_error() -> None:
    outlined(plain(WHITE), (50, 50, 50, 50), (99.9, 149.9, 100, 150), (0, 0, 0, 150))


def test_the_image_given_stays_as_it_is() -> None:
    image = photo()
    heated(image)
    assert (np.asarray(image) == np.asarray(photo())).all()


@pytest.mark.parametrize(
    ("size", "fitted"), [((2000, 1000), (500, 250)), ((100, 400), (100, 400)), ((1, 9000), (1, 500))]
)
def test_images_are_as_large_as_they_may_be(size: tuple[int, int], fitted: tuple[int, int]) -> None:
    assert fit(Image.new("RGB", size), 500).size == fitted


def test_a_png_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    write_png(photo(), tmp_path / "page.png")
    with Image.open(tmp_path / "page.png") as read:
        assert (np.asarray(read) == np.asarray(photo())).all()
    with pytest.raises(ColretError, match=r"cannot be written .*; name another file"):
        write_png(photo(), tmp_path / "missing" / "page.png")
