"""Evidence drawn on the image of a page: heat, and outlined rectangles with their ranks.

Heat is blended in as one strong colour, less than half of it, so that what is dark on the page
stays darker than what is bright: text stays legible on any ground. Outlines are a dark line
between two bright ones, so that one of both stands out wherever they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from colret.errors import ColretError
from colret.matches import Float64
from colret.regions import Region
from colret.types import Boxes

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

    _Font = FreeTypeFont | ImageFont

MIN_SIDE, MAX_SIDE = 64, 4096
"""Pixels of an image's long side."""

HEAT_COLOR: Final = (255, 64, 0)
_HEAT_SHARE = 0.45  # of the colour where the page is hottest
_DARK, _BRIGHT = (16, 16, 96), (255, 255, 255)
_BLUR = 0.3  # of a cell's side
_WORD_MARGIN = 0.15  # of a word's height, around it
_LINE = 1 / 500  # width of an outline's dark line by the image's long side
_LABEL = 1 / 55  # height of a label's digits by the same


def overlay(
    image: Image,
    boxes: Boxes,
    heat: Float64,
    regions: Sequence[Region] = (),
    *,
    size: tuple[float, float],
    from_words: bool,
) -> Image:
    """Return the page's image with its heat and regions; ``image`` stays as it is.

    Args:
        image: Of the page as displayed, RGB.
        boxes: (P, 4), where each vector comes from.
        heat: (P,) from 0 to 1: see ``matches.heat``. Where boxes overlap, the hottest shows.
        regions: Rectangles to outline and number from 1.
        size: Width and height of the page in points, which the regions' boxes are in.
        from_words: Whether boxes are those of words; cells of an image are smoothed.
    """
    import PIL.Image

    mask = _heat_mask(image.size, boxes, heat, from_words)
    color = PIL.Image.new("RGB", image.size, HEAT_COLOR)
    drawn = PIL.Image.composite(color, image.convert("RGB"), mask)
    _outline(drawn, regions, image.width / size[0], image.height / size[1])
    return drawn


def fit(image: Image, long_side: int) -> Image:
    """Return ``image``, scaled down if its long side is longer than ``long_side`` pixels."""
    if max(image.size) <= long_side:
        return image
    fitted = image.copy()
    fitted.thumbnail((long_side, long_side), reducing_gap=3.0)
    return fitted


def write_png(image: Image, path: Path) -> None:
    """Write ``image`` to ``path``.

    Raises:
        ColretError: If it cannot be written.
    """
    try:
        image.save(path, "PNG", optimize=True)
    except OSError as error:
        raise ColretError(path, f"cannot be written ({error.strerror or error})", "name another file") from error


def _heat_mask(size: tuple[int, int], boxes: Boxes, heat: Float64, from_words: bool) -> Image:
    """Return how much of the colour each pixel takes, as a grey image."""
    import PIL.Image
    from PIL import ImageFilter

    scale = np.array([*size, *size]) / 65535
    edges = boxes * scale  # (P, 4) pixels
    sides = edges[:, 2:] - edges[:, :2]
    if from_words and len(edges):
        margin = _WORD_MARGIN * sides.min(axis=1, keepdims=True)
        edges = edges + np.hstack([-margin, -margin, margin, margin])
    canvas = np.zeros((size[1], size[0]), np.uint8)
    levels = np.rint(np.clip(heat, 0, 1) * _HEAT_SHARE * 255).astype(np.uint8)
    corners = np.rint(np.clip(edges, 0, [*size, *size])).astype(np.int64)
    order = np.argsort(heat, kind="stable")  # the hottest last
    for i in order[levels[order] > 0]:
        left, top, right, bottom = corners[i]
        canvas[top : max(bottom, top + 1), left : max(right, left + 1)] = levels[i]
    mask = PIL.Image.fromarray(canvas)
    if from_words or not len(sides):
        return mask
    return mask.filter(ImageFilter.GaussianBlur(_BLUR * float(np.median(sides, axis=0).min())))


def _outline(image: Image, regions: Sequence[Region], across: float, down: float) -> None:
    """Draw the regions' outlines and ranks, the first on top; ``across`` and ``down`` are pixels a point."""
    import PIL.ImageDraw
    import PIL.ImageFont

    draw = PIL.ImageDraw.Draw(image)
    width = max(1, round(_LINE * max(image.size)))
    font = PIL.ImageFont.load_default(max(10, _LABEL * max(image.size)))
    for rank, region in reversed(list(enumerate(regions, start=1))):
        left, top, right, bottom = region.box
        box = np.array([left * across, top * down, right * across, bottom * down])
        inwards = np.array([1, 1, -1, -1]) * width
        outer = np.clip(box - 2 * inwards, 0, [image.width - 1, image.height - 1] * 2)
        for inset, color in ((-inwards, _BRIGHT), (inwards, _BRIGHT), (0 * inwards, _DARK)):
            line = outer + inset
            if line[2] >= line[0] and line[3] >= line[1]:
                draw.rectangle(line.tolist(), outline=color, width=width)
        _label(image, draw, str(rank), outer, font, width)


def _label(image: Image, draw: ImageDraw, text: str, box: Float64, font: _Font, pad: int) -> None:
    """Write a rank on a dark ground beside the upper left corner of ``box``, inside the image."""
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    width, height = right - left + 4 * pad, bottom - top + 4 * pad
    x = box[0] - width if box[0] >= width else min(box[2], image.width - width)  # left of it, or right
    y = min(box[1], image.height - height)
    draw.rectangle((x, y, x + width - 1, y + height - 1), fill=_DARK, outline=_BRIGHT, width=max(1, pad // 2))
    draw.text((x + 2 * pad - left, y + 2 * pad - top), text, font=font, fill=_BRIGHT)
