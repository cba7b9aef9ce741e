"""Which part of the page each vector comes from.

A vision model cuts the page into cells, in an order of its own. The three layouts here cover
all families; each keeps the page's sides proportional, so that a cell of the resized image is
the same fraction of the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colret.encoders.families import Layout
from colret.types import WHOLE_PAGE, Boxes

if TYPE_CHECKING:
    import torch


def page_boxes(
    layout: Layout,
    is_image: NDArray[np.bool_],
    inputs: Mapping[str, torch.Tensor],
    processor: Any,
    size: tuple[int, int],
) -> Boxes:
    """Return one box per token of a processed page.

    Args:
        layout: How the family's image tokens cover the page.
        is_image: (P,) bool, which tokens stand for a part of the image.
        inputs: The page as its processor prepared it for the model.
        processor: That processor.
        size: Width and height of the page image in pixels.

    Returns:
        (P, 4) uint16; the whole page for prompt tokens and for an overview of all tiles.

    Raises:
        ValueError: If the image tokens are not as many as the layout has cells.
    """
    n_image = int(is_image.sum())
    if layout == "tiles":
        cells = _tiles(n_image, processor, size)
    elif layout == "merged_grid":
        cells = _merged_grid(inputs, processor)
    else:
        side = math.isqrt(n_image)
        cells = grid_boxes(side, side)
    if n_image == 0 or len(cells) != n_image:
        raise ValueError(f"{n_image} image tokens cannot cover {len(cells)} cells")
    boxes = np.tile(np.array(WHOLE_PAGE, np.uint16), (len(is_image), 1))
    boxes[is_image] = cells
    return boxes


def grid_boxes(n_rows: int, n_columns: int) -> Boxes:
    """Return the cells of a page cut into rows and columns, row by row, as (rows * columns, 4)."""
    row, column = np.divmod(np.arange(n_rows * n_columns), max(n_columns, 1))
    edges = (
        np.stack([column / n_columns, row / n_rows, (column + 1) / n_columns, (row + 1) / n_rows], axis=1)
        if len(row)
        else np.empty((0, 4))
    )
    return np.rint(edges * 65535).astype(np.uint16)


def tile_boxes(n_rows: int, n_columns: int, side: int) -> Boxes:
    """Return the cells of tiles, tile by tile in rows, each tile's side x side cells in rows.

    Returns:
        (n_rows * n_columns * side * side, 4) uint16.
    """
    grid = grid_boxes(n_rows * side, n_columns * side).reshape(n_rows, side, n_columns, side, 4)
    return grid.swapaxes(1, 2).reshape(-1, 4)


def _merged_grid(inputs: Mapping[str, torch.Tensor], processor: Any) -> Boxes:
    # Qwen-VL: the processor resizes to whole patches, and the model merges 2 x 2 of them into one token.
    _, n_rows, n_columns = (int(n) for n in inputs["image_grid_thw"][0])
    merge = int(processor.image_processor.merge_size)
    return grid_boxes(n_rows // merge, n_columns // merge)


def _tiles(n_image: int, processor: Any, size: tuple[int, int]) -> Boxes:
    # Idefics3: tiles row by row, then the whole page again, small: all there is of a page that is not cut.
    width, height = size
    _, n_rows, n_columns = processor.image_processor.get_number_of_image_patches(height, width)
    side = math.isqrt(int(processor.image_seq_len))
    if n_rows == 0 or n_columns == 0:
        return grid_boxes(side, side)
    overview = np.tile(np.array(WHOLE_PAGE, np.uint16), (side * side, 1))
    return np.concatenate([tile_boxes(n_rows, n_columns, side), overview])


def pixels_used(layout: Layout, processor: Any) -> int:
    """Return how many pixels of a page the model can use: rendering more is wasted.

    Args:
        layout: How the family's image tokens cover the page.
        processor: The processor, whose image size bounds the pixels.
    """
    size = processor.image_processor.size
    if layout == "merged_grid":
        return int(size["longest_edge"])  # so named, but a number of pixels
    if layout == "tiles":
        return int(size["longest_edge"]) ** 2 * 3 // 4  # the long side fits; paper is about 3 to 4
    return 2 * int(size["height"]) * int(size["width"])  # the page is squeezed: keep its longer side sharp
