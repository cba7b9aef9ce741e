"""Where words of PDFium's text are on the displayed page."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from numpy.typing import NDArray

from colret.types import Boxes

_Rect = tuple[float, float, float, float]  # left, bottom, right, top in points


def word_boxes(
    page: pdfium.PdfPage, textpage: pdfium.PdfTextPage, spans: Sequence[NDArray[np.int64]]
) -> tuple[Boxes, NDArray[np.bool_]]:
    """Return the box of each word on ``page``, (W, 4), and which of them touch the page at all, (W,).

    Args:
        page: PDFium's page, loaded.
        textpage: Its text.
        spans: PDFium's indices of each word's characters, at least one.
    """
    return display_boxes(_span_rects(textpage, spans), page.get_bbox(), page.get_rotation())


def display_boxes(
    rects: NDArray[np.float64], box: tuple[float, float, float, float], rotation: int
) -> tuple[Boxes, NDArray[np.bool_]]:
    """Move rectangles from PDF space onto the displayed page.

    Args:
        rects: (W, 4) float64: left, bottom, right, top in points, y upwards.
        box: Of the page, before rotation: left, bottom, right, top in points.
        rotation: Of the page, clockwise: 0, 90, 180 or 270 degrees.

    Returns:
        (W, 4) uint16 boxes, clipped to the page, and (W,) bool: which touch the page at all.
    """
    left, bottom, right, top = box
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        x = (rects[:, 0::2] - left) / (right - left)  # (W, 2), 0..1 on the page
        y = (rects[:, 1::2] - bottom) / (top - bottom)
    turned = {0: (x, 1 - y), 90: (y, x), 180: (1 - x, y), 270: (1 - y, 1 - x)}[rotation]
    across, down = (np.sort(axis, axis=1) for axis in turned)
    corners = np.stack([across[:, 0], down[:, 0], across[:, 1], down[:, 1]], axis=1)  # (W, 4)
    finite = np.asarray(np.isfinite(corners).all(axis=1))
    touching = np.hstack([corners[:, :2] <= 1, corners[:, 2:] >= 0]).all(axis=1)
    clipped = np.clip(np.where(finite[:, None], corners, 0), 0, 1)
    return np.rint(clipped * 65535).astype(np.uint16), finite & np.asarray(touching)


def _span_rects(textpage: pdfium.PdfTextPage, spans: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return the rectangle around each span of characters: (W, 4) left, bottom, right, top.

    PDFium unites consecutive characters itself (one rectangle for each text object that they
    cross): the same numbers as a call for each would give, in a quarter of the time.
    """
    out = [ctypes.c_double() for _ in range(4)]
    left, top, right, bottom = out
    pointers = [ctypes.byref(value) for value in out]
    count_rects, get_rect = pdfium_c.FPDFText_CountRects, pdfium_c.FPDFText_GetRect
    handle = textpage.raw
    rects = np.empty((len(spans), 4))
    for row, places in enumerate(spans):
        start, length, united = int(places[0]), len(places), None
        if places[-1] - start != length - 1 or (np.diff(places) != 1).any():
            rects[row] = _cells_rect(textpage, places)
            continue
        for index in range(count_rects(handle, start, length)):
            get_rect(handle, index, *pointers)
            rect = left.value, bottom.value, right.value, top.value
            if rect[0] == rect[2]:  # nothing but characters too thin for PDFium: at the origin
                continue
            united = rect if united is None else _unite(united, rect)
        rects[row] = _cells_rect(textpage, places) if united is None else united
    return rects


def _unite(a: _Rect, b: _Rect) -> _Rect:
    return min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])


def _cells_rect(textpage: pdfium.PdfTextPage, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the rectangle around the cells of characters, of which PDFium itself unites none."""
    rect = pdfium_c.FS_RECTF()
    cells = []
    for index in places.tolist():
        if pdfium_c.FPDFText_GetLooseCharBox(textpage, index, rect):
            cells.append((rect.left, rect.bottom, rect.right, rect.top))
    if not cells:
        return np.full(4, np.nan)  # nowhere: outside the page
    bounds = np.array(cells)
    return np.concatenate([bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)])
