"""Words of a page image, by OCR: PP-OCRv6 small, whose weights are in rapidocr's own package.

Nothing is downloaded. The models load at the first page (about a second) and stay.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from colret.errors import DocumentError, ModelError
from colret.types import Words

OCR_DPI = 125
"""Resolution worth giving to ``ocr_words``: up to 150 costs more and reads no better."""

_MAX_PIXELS = 4_000_000  # a page of A2 at OCR_DPI; the engine itself works at 2000 a side
_MAX_THREADS = 4
_BLANK_CONTRAST = 16  # grey levels, of 255: paper's noise, not ink
_MIN_SIDE = 8  # pixels: no letter fits below
_MAX_ASPECT = 2.5  # the engine enlarges every image until its short side has 736 pixels


def ocr_pixels(width: float, height: float) -> int:
    """Return how many pixels a page of ``width`` x ``height`` points is worth for OCR."""
    wanted = width * height * (OCR_DPI / 72) ** 2
    return max(1, math.ceil(min(wanted, _MAX_PIXELS)))


def is_blank(image: Image.Image) -> bool:
    """Return whether ``image`` has one grey everywhere, but for noise: nothing to read."""
    darkest, lightest = image.convert("L").getextrema()
    return bool(lightest - darkest < _BLANK_CONTRAST)  # type: ignore[operator]


def ocr_words(image: Image.Image, *, name: str = "page image") -> Words:
    """Return the words in ``image``, line by line from the top.

    Args:
        image: RGB, of at least about 100 dpi; a blank one gives no words, and costs nothing.
        name: What to call the page in messages.

    Raises:
        DocumentError: The engine failed on this image (``ocr_failed``).
        ModelError: The engine or its models are not installed.
    """
    if min(image.size) < _MIN_SIDE or is_blank(image):
        return Words.none()
    engine = _engine()
    pixels = np.asarray(_widen(image.convert("RGB")))
    pixels = np.ascontiguousarray(pixels[:, :, ::-1])  # BGR, as OpenCV has it
    try:
        result = engine(pixels, return_word_box=True, return_single_char_box=True)
        lines = list(_lines(result))
    # A third-party engine (OpenCV, onnxruntime, geometry of odd regions) on arbitrary pixels:
    # whatever it raises costs this page, never the run.
    except Exception as error:
        raise DocumentError(
            name, f"OCR failed ({type(error).__name__}: {error})", "repair or leave out this page", reason="ocr_failed"
        ) from error
    return _pack(lines, image.size)


def place_words(
    text: str, chars: Sequence[tuple[str, NDArray[np.float64]]], quad: NDArray[np.float64]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield the words of one line and, for each, points that its box must hold.

    Args:
        text: Of the line.
        chars: Its characters but for white space, each with the (4, 2) corners of its place;
            where they do not spell ``text``, words get the line's share of their characters.
        quad: (4, 2) corners of the line: the first two are its upper edge.
    """
    spelt = "".join(char for char, _ in chars) == "".join(text.split())
    done = 0
    search_from = 0
    for word in text.split():
        if spelt:
            # One entry may be several characters ("".join above), so count what is used up.
            taken, length = done, 0
            while length < len(word):
                length += len(chars[taken][0])
                taken += 1
            yield word, np.concatenate([corners for _, corners in chars[done:taken]])
            done = taken
        else:
            start = text.index(word, search_from)
            search_from = start + len(word)
            yield word, _share(quad, start / len(text), search_from / len(text))


def _widen(image: Image.Image) -> Image.Image:
    """Add white to the right or below, so that a strip does not grow to gigabytes in the engine."""
    width, height = image.size
    shortest = math.ceil(max(width, height) / _MAX_ASPECT)
    if min(width, height) >= shortest:
        return image
    canvas = Image.new("RGB", (max(width, shortest), max(height, shortest)), "white")
    canvas.paste(image, (0, 0))
    return canvas


def _share(quad: NDArray[np.float64], start: float, end: float) -> NDArray[np.float64]:
    """Return the corners of the part of a line from ``start`` to ``end``, both of 0..1."""
    upper_left, upper_right, lower_right, lower_left = quad
    return np.array(
        [
            upper_left + start * (upper_right - upper_left),
            upper_left + end * (upper_right - upper_left),
            lower_left + start * (lower_right - lower_left),
            lower_left + end * (lower_right - lower_left),
        ]
    )


def _lines(result: Any) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield the words of rapidocr's result with the points of their boxes, in pixels."""
    texts = result.txts or ()
    # Lines without placed characters are missing from word_results, so that the rest no
    # longer says which line it is of; place_words then finds that the spelling differs.
    placed = result.word_results if len(result.word_results or ()) == len(texts) else [()] * len(texts)
    for text, quad, characters in zip(texts, result.boxes if texts else (), placed, strict=True):
        chars = [(char, np.asarray(corners, np.float64)) for char, _, corners in characters]
        yield from place_words(text, chars, np.asarray(quad, np.float64))


def _pack(lines: Sequence[tuple[str, NDArray[np.float64]]], size: tuple[int, int]) -> Words:
    """Return words with the boxes around their points, from pixels to 1/65535."""
    if not lines:
        return Words.none()
    corners = np.array([[*points.min(axis=0), *points.max(axis=0)] for _, points in lines])  # (W, 4)
    boxes = np.rint(np.clip(corners / np.array(size * 2), 0, 1) * 65535).astype(np.uint16)
    return Words(tuple(text for text, _ in lines), boxes)


@functools.cache
def _engine() -> Any:
    """Load rapidocr, silent, from the models in its package, on a few threads."""
    # Its first import of the package prints nothing, and its logger ("RapidOCR") has a handler
    # of its own, on stderr: only what is critical may pass.
    spec = importlib.util.find_spec("rapidocr")
    if spec is None or not spec.submodule_search_locations:
        raise ModelError("rapidocr", "is not installed", "pip install rapidocr onnxruntime")
    models = Path(spec.submodule_search_locations[0]) / "models"
    paths = {part: models / f"PP-OCRv6_{part.lower()}_small.onnx" for part in ("Det", "Rec")}
    for path in paths.values():
        if not path.is_file():
            raise ModelError(path, "is missing from rapidocr", "install rapidocr 3.10 again")
    from rapidocr import RapidOCR

    threads = min(_MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_cls": False,
            "Det.model_path": str(paths["Det"]),  # by path: found by name, it might be downloaded
            "Rec.model_path": str(paths["Rec"]),
            "Rec.rec_batch_num": 1,  # lines of different length in one batch are padded to the longest
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
