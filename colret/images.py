"""Image files as documents, through Pillow.

The size of a page in points follows the file's resolution, or 96 dpi where that makes no sense.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from colret.closing import Closing
from colret.errors import DocumentError, one_line
from colret.pixels import MAX_IMAGE_PIXELS, image_hash, target_size

_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
_DEFAULT_DPI = 96.0  # of a file that does not say: a CSS pixel
_SANE_DPI = (30.0, 4800.0)
_ORIENTATION_TAG = 0x0112
_SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that swap width and height


class ImagePage:
    """One page of an image file: an RGB image and its size in points."""

    def __init__(self, image: Image.Image, dpi: tuple[float, float]) -> None:
        self.width = image.width * 72 / dpi[0]  # points
        self.height = image.height * 72 / dpi[1]
        self._image = image

    def render(self, max_pixels: int) -> Image.Image:
        """Return the page as an RGB image of at most ``max_pixels`` pixels, never enlarged.

        Pixels that are not square (a fax has 204 x 98 dpi) are made so.
        """
        image = self._image
        square = math.isclose(self.width * image.height, self.height * image.width, rel_tol=0.01)
        if square and image.width * image.height <= max_pixels:
            return image
        size = target_size(self.width, self.height, min(max_pixels, image.width * image.height))
        return image.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0)

    def image_hash(self) -> int:
        """Return the perceptual hash of the page: see ``pixels.image_hash``."""
        return image_hash(self._image)


class ImageFile(Closing):
    """An image file, open: one page, or as many as a TIFF has frames.

    Raises:
        DocumentError: The file is no readable image (``not_an_image``), too large to decode
            (``too_large``), or cannot be read at all.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._opened: tuple[BinaryIO, Image.Image] | None = None
        try:
            with _explaining(name):
                self.n_pages = _count_frames(self._open())
        finally:
            self.close()  # counting leaves the file at its end, or at a broken frame

    @contextmanager
    def page(self, number: int) -> Iterator[ImagePage]:
        """Decode page ``number``, from 1.

        Raises:
            DocumentError: The frame is broken (``page_unreadable``) or ``too_large``.
            IndexError: There is no such page.
        """
        if not 1 <= number <= self.n_pages:
            raise IndexError(number)
        try:
            with _explaining(f"{self._name} page {number}", in_page=True):
                page = self._decode(number)
        except DocumentError:
            self.close()  # what failed half-way is not a state to read the next page from
            raise
        yield page

    def close(self) -> None:
        """Close the file; reading a page opens it again."""
        if self._opened is not None:
            stream, image = self._opened
            self._opened = None
            image.close()
            stream.close()

    def _open(self) -> Image.Image:
        if self._opened is None:
            stream = self._path.open("rb")  # ours to close: Pillow leaves it open when it refuses
            try:
                self._opened = stream, Image.open(stream, formats=_FORMATS)
            except BaseException:
                stream.close()
                raise
        return self._opened[1]

    def _decode(self, number: int) -> ImagePage:
        file = self._open()
        if number != file.tell() + 1:
            file.seek(number - 1)
        if file.width * file.height > MAX_IMAGE_PIXELS:
            raise Image.DecompressionBombError(f"{file.width} x {file.height} pixels")
        sideways = file.getexif().get(_ORIENTATION_TAG) in _SIDEWAYS
        dpi = _resolution(file.info.get("dpi"))
        upright = ImageOps.exif_transpose(file)  # a copy: the next frame takes this one's place
        return ImagePage(_to_rgb(upright), dpi[::-1] if sideways else dpi)


@contextmanager
def _explaining(subject: str, *, in_page: bool = False) -> Iterator[None]:
    """Turn whatever Pillow raises into a DocumentError, and keep its warnings from the user.

    Pillow's readers let out whatever their parsing of broken bytes runs into (struct.error,
    KeyError, SyntaxError, zlib.error, TypeError ... seen), hence the one broad clause.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, MemoryError) as error:
        limit = f"scale it down to under {MAX_IMAGE_PIXELS // 10**6} million pixels"
        raise DocumentError(subject, "too large an image to decode", limit, reason="too_large") from error
    except UnidentifiedImageError as error:
        raise _not_an_image(subject) from error
    except OSError as error:
        if error.errno is not None and not in_page:  # the system's refusal, not Pillow's
            raise DocumentError(
                subject, f"cannot be read ({error.strerror})", "check its permissions", reason="unreadable"
            ) from error
        raise (_broken_page(subject, error) if in_page else _not_an_image(subject)) from error
    except Exception as error:
        raise (_broken_page(subject, error) if in_page else _not_an_image(subject)) from error


def _not_an_image(subject: str) -> DocumentError:
    return DocumentError(
        subject, "not a PNG, JPEG, TIFF or WebP image", "save it again in one of these", reason="not_an_image"
    )


def _broken_page(subject: str, error: Exception) -> DocumentError:
    problem = f"the image cannot be decoded ({one_line(str(error)) or type(error).__name__})"
    return DocumentError(subject, problem, "save it again from its source", reason="page_unreadable")


def _count_frames(file: Image.Image) -> int:
    """Return the number of pages; frames of an animation and previews in a JPEG are none."""
    if file.format != "TIFF":
        return 1
    count = 1
    try:
        while True:
            file.seek(count)
            count += 1
    except EOFError:
        return count
    except Exception:  # a broken frame, see _explaining: counted, to be reported when it is read
        return count + 1


def _resolution(dpi: object) -> tuple[float, float]:
    """Return (horizontal, vertical) pixels per inch, 96 where the file's own make no sense."""
    try:
        horizontal, vertical = (float(value) for value in dpi)  # type: ignore[attr-defined]
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return _DEFAULT_DPI, _DEFAULT_DPI
    low, high = _SANE_DPI
    if low <= horizontal <= high and low <= vertical <= high:
        return horizontal, vertical
    return _DEFAULT_DPI, _DEFAULT_DPI


def _to_rgb(image: Image.Image) -> Image.Image:
    """Return ``image`` in RGB: transparency on white, deep greys scaled to 8 bits."""
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        over = image.convert("RGBA")
        white = Image.new("RGBA", over.size, "white")
        return Image.alpha_composite(white, over).convert("RGB")
    return image.convert("RGB")


def _eight_bits(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Return grey values of any type as 0..255: white is 1, 255 or 65535, or the largest above it."""
    grey = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    largest = float(grey.max(initial=0.0))
    if values.dtype.kind == "f" and largest <= 1:
        white = 1.0
    elif values.dtype.kind == "f" and largest <= 255:
        white = 255.0
    else:
        white = max(65535.0, largest)
    return np.clip(np.rint(grey * (255 / white)), 0, 255).astype(np.uint8)
