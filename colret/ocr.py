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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from colret.errors import DocumentError, ModelError
from colret.line_words import place_words
from colret.types import Words

OCR_DPI = 125
"""Resolution worth giving to ``ocr_words``: up to 150 costs more and reads no better."""

_MAX_PIXELS = 4_000_000  # a page of A2 at OCR_DPI; the engine itself works at 2000 a side
_MAX_THREADS = 4
_BLANK_CONTRAST = 16  # grey levels, of 255: paper's noise, not ink
_MIN_SIDE = 8  # pixels: no letter fits below
_LEAST_SCORE = 0.5  # of a line; what is read with less confidence is left out

# Read upright, lines have a confidence of .9 and more, even of poor scans; upside down .55 to .65.
_DOUBTFUL = 0.8
_TALL = 1.5  # height of a line by its width: the engine turns such a one left before it reads it
_AS_GOOD = 0.9  # of the evidence for a page as it came, where it can be read that way too

_TURNS = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}
"""Counter-clockwise."""

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

    A page that was scanned sideways or upside down is read the way it should be held; boxes are
    those of ``image`` as it is.

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
    try:
        reading = _read(engine, image, 0)
        turn = reading.suspected_turn
        if turn:
            turned = _read(engine, image, turn)
            if not turned.suspected_turn and turned.evidence >= _AS_GOOD * reading.evidence:
                reading = turned
        return _pack(reading.words, image.size)
    # A third-party engine (OpenCV, onnxruntime, geometry of odd regions) on arbitrary pixels:
    # whatever it raises costs this page, never the run.
    except Exception as error:
        raise DocumentError(
            name, f"OCR failed ({type(error).__name__}: {error})", "repair or leave out this page", reason="ocr_failed"
        ) from error


class _Reading(NamedTuple):
    """What the engine read of an image, turned by some angle."""

    words: list[tuple[str, NDArray[np.float64]]]  # each with (n, 2) points around it, in pixels of the image unturned
    tall: float  # 0..1: share of the lines, by length, that stand on end
    confidence: float  # 0..1, mean over characters
    evidence: float  # characters, each by how far its line's confidence is above the least that counts

    @property
    def suspected_turn(self) -> int:
        """By how many degrees, counter-clockwise, to turn the image before it is read again; 0 if it seems upright.

        Lines on end were read turned left: with confidence if that is how the page is to be held.
        """
        doubtful = bool(self.words) and self.confidence < _DOUBTFUL
        if self.tall > 0.5:
            return 270 if doubtful else 90
        return 180 if doubtful else 0


def _read(engine: Any, image: Image.Image, turn: int) -> _Reading:
    """Read ``image`` turned counter-clockwise by ``turn`` degrees."""
    turned = image.transpose(_TURNS[turn]) if turn else image
    pixels = np.asarray(_widen(turned.convert("RGB")))
    pixels = np.ascontiguousarray(pixels[:, :, ::-1])  # BGR, as OpenCV has it
    result = engine(pixels, return_word_box=True, return_single_char_box=True)
    words = [(text, _turn_back(points, image.size, turn)) for text, points in _lines(result)]
    if not words:
        return _Reading([], 0.0, 0.0, 0.0)
    quads = np.asarray(result.boxes, np.float64)  # (lines, 4, 2)
    widths = np.linalg.norm(quads[:, 1] - quads[:, 0], axis=1)
    heights = np.linalg.norm(quads[:, 3] - quads[:, 0], axis=1)
    lengths = np.maximum(widths, heights)
    tall = float(lengths @ (heights >= _TALL * widths) / lengths.sum())
    scores, n_chars = np.asarray(result.scores, np.float64), np.array([len(text) for text in result.txts])
    return _Reading(words, tall, float(scores @ n_chars / n_chars.sum()), float((scores - _LEAST_SCORE) @ n_chars))


def _turn_back(points: NDArray[np.float64], size: tuple[int, int], turn: int) -> NDArray[np.float64]:
    """Return (n, 2) points of an image that was turned by ``turn`` where they are on the unturned one of ``size``."""
    width, height = size
    x, y = points[:, 0], points[:, 1]
    back = {0: (x, y), 90: (width - y, x), 180: (width - x, height - y), 270: (y, height - x)}[turn]
    return np.stack(back, axis=1)


def _widen(image: Image.Image) -> Image.Image:
    """Add white to the right or below, so that a strip does not grow to gigabytes in the engine."""
    width, height = image.size
    shortest = math.ceil(max(width, height) / _MAX_ASPECT)
    if min(width, height) >= shortest:
        return image
    canvas = Image.new("RGB", (max(width, shortest), max(height, shortest)), "white")
    canvas.paste(image, (0, 0))
    return canvas


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
    try:
        from rapidocr import RapidOCR
    except ImportError as error:  # of what it needs: onnxruntime, OpenCV's system libraries
        raise ModelError("rapidocr", f"cannot be loaded ({error})", "pip install rapidocr onnxruntime") from error
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_cls": False,
            "Global.text_score": _LEAST_SCORE,
            "Det.model_path": str(paths["Det"]),  # by path: found by name, it might be downloaded
            "Rec.model_path": str(paths["Rec"]),
            "Rec.rec_batch_num": 1,  # lines of different length in one batch are padded to the longest
            "EngineConfig.onnxruntime.intra_op_num_threads": _threads(),
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def _threads() -> int:
    """Return how many threads OCR takes: as many as OMP_NUM_THREADS says, or as there are cores, up to 4."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    if stated.isdecimal() and int(stated):
        return min(_MAX_THREADS, int(stated))
    return min(_MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
