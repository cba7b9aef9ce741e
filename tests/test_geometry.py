"""Where on the page each vector comes from: arithmetic, then what the real models look at."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from colret.encoders.families import FAMILY_NAMES
from colret.encoders.geometry import grid_boxes, page_boxes, tile_boxes
from colret.types import WHOLE_PAGE, Boxes
from tests.checkpoints import painted_page, tiny_encoder

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SIZES = {
    "portrait": (210, 297),
    "landscape": (297, 210),
    "square": (256, 256),
    "long": (90, 800),
    "wide": (800, 90),
}


def test_a_grid_runs_row_by_row_over_the_whole_page() -> None:
    boxes = grid_boxes(2, 3)
    assert boxes.shape == (6, 4)
    assert boxes.dtype == np.uint16
    assert boxes[0].tolist() == [0, 0, 21845, 32768]
    assert boxes[5].tolist() == [43690, 32768, 65535, 65535]


def test_tiles_run_row_by_row_and_so_do_the_cells_inside_each() -> None:
    boxes = tile_boxes(n_rows=1, n_columns=2, side=2)
    lefts = (boxes[:, 0] / 65535).round(2).tolist()
    tops = (boxes[:, 1] / 65535).round(2).tolist()
    assert lefts == [0, 0.25, 0, 0.25, 0.5, 0.75, 0.5, 0.75]
    assert tops == [0, 0, 0.5, 0.5, 0, 0, 0.5, 0.5]


def test_cells_leave_no_gap_and_do_not_overlap() -> None:
    for boxes in (grid_boxes(7, 5), tile_boxes(3, 2, 4)):
        left, top, right, bottom = boxes.astype(np.int64).T
        assert ((right - left) * (bottom - top)).sum() == 65535**2


def test_image_tokens_that_do_not_fill_the_grid_are_refused() -> None:
    with pytest.raises(ValueError, match="3 image tokens cannot cover 1 cells"):
        page_boxes("grid", np.array([True, True, True, False]), {}, None, (10, 10))


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_painting_a_cell_changes_the_vector_of_that_cell_most(family: str, shape: str) -> None:
    encoder = tiny_encoder(family, local=True)
    plain = encoder.encode_pages([painted_page(SIZES[shape])])[0]
    cells = np.flatnonzero((plain.boxes != WHOLE_PAGE).any(axis=1))
    for cell in cells[[0, len(cells) // 3, len(cells) * 3 // 4, -1]]:
        painted = encoder.encode_pages([painted_page(SIZES[shape], _middle_of(plain.boxes[cell]))])[0]
        assert np.array_equal(painted.boxes, plain.boxes)
        change = 1 - (plain.vectors * painted.vectors).sum(axis=1)
        assert cells[change[cells].argmax()] == cell


def _middle_of(box: Boxes) -> tuple[float, float, float, float]:
    left, top, right, bottom = box / 65535
    width, height = (right - left) / 5, (bottom - top) / 5
    return float(left + width), float(top + height), float(right - width), float(bottom - height)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_part_of_the_page_belongs_to_exactly_one_cell(family: str) -> None:
    page = painted_page(SIZES["portrait"])
    boxes = tiny_encoder(family).encode_pages([page])[0].boxes
    cells = boxes[(boxes != WHOLE_PAGE).any(axis=1)].astype(np.int64)
    left, top, right, bottom = cells.T
    assert ((right - left) * (bottom - top)).sum() == 65535**2


def test_a_page_that_is_not_cut_into_tiles_keeps_the_grid_of_its_only_view() -> None:
    images = SimpleNamespace(get_number_of_image_patches=lambda height, width: (1, 0, 0))
    processor = SimpleNamespace(image_processor=images, image_seq_len=4)
    boxes = page_boxes("tiles", np.ones(4, np.bool_), {}, processor, (100, 100))
    assert np.array_equal(boxes, grid_boxes(2, 2))
