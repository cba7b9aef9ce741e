"""Image files as documents."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from colret import images
from colret.errors import DocumentError
from colret.images import ImageFile


def read(path: Path, number: int = 1, max_pixels: int = 10**6) -> tuple[Image.Image, float, float]:
    with ImageFile(path, path.name) as file, file.page(number) as page:
        return page.render(max_pixels), page.width, page.height


def halves(size: tuple[int, int] = (40, 20)) -> Image.Image:
    """Return an image, red on its left half and blue on its right."""
    image = Image.new("RGB", size, (255, 0, 0))
    image.paste((0, 0, 255), (size[0] // 2, 0, *size))
    return image


@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
def test_an_image_is_read_as_it_is(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    halves().save(path, lossless=True)
    image, width, height = read(path)
    assert np.array_equal(np.asarray(image), np.asarray(halves()))
    assert (width, height) == (30, 15)  # 96 dpi where the file does not say


@pytest.mark.parametrize(
    ("dpi", "points"),
    [((300, 300), (9.6, 4.8)), ((0, 0), (30, 15)), ((1, 1), (30, 15)), ((100_000, 100_000), (30, 15))],
)
def test_points_follow_the_resolution_if_it_makes_sense(
    tmp_path: Path, dpi: tuple[int, int], points: tuple[float, float]
) -> None:
    path = tmp_path / "a.tif"
    halves().save(path, dpi=dpi)
    assert read(path)[1:] == pytest.approx(points, rel=1e-4)


def test_an_image_is_reduced_to_the_budget_and_never_enlarged(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    halves((400, 200)).save(path)
    assert read(path, max_pixels=80_000)[0].size == (400, 200)
    small, width, height = read(path, max_pixels=20_000)
    assert small.size == (200, 100)
    assert small.getpixel((10, 50)) == (255, 0, 0)
    assert (width, height) == (300, 150)


def test_pixels_that_are_not_square_are_made_so(tmp_path: Path) -> None:
    path = tmp_path / "fax.tif"
    halves((1728, 1100)).save(path, dpi=(204, 98))
    image, width, height = read(path, max_pixels=10**7)
    assert (width, height) == pytest.approx((1728 * 72 / 204, 1100 * 72 / 98))
    assert image.width / image.height == pytest.approx(width / height, rel=0.01)
    assert image.width * image.height <= 1728 * 1100


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize(
    ("orientation", "red_at"),
    [(1, (2, 10)), (3, (37, 10)), (6, (10, 2)), (8, (10, 37))],
)
def test_exif_rotation_is_applied(tmp_path: Path, suffix: str, orientation: int, red_at: tuple[int, int]) -> None:
    path = tmp_path / f"a.{suffix}"
    exif = Image.Exif()
    exif[0x0112] = orientation
    halves().save(path, exif=exif, dpi=(200, 100) if suffix != "webp" else (96, 96))
    with ImageFile(path, "a") as file, file.page(1) as page:
        image = page._image
        upright = orientation in (1, 3)
        assert image.size == ((40, 20) if upright else (20, 40))
        red, green, blue = np.asarray(image.getpixel(red_at), int)
        assert red > 200 > 100 > max(green, blue)
        if suffix != "webp":  # which has no place for a resolution
            across, down = (200, 100) if upright else (100, 200)
            points = image.width * 72 / across, image.height * 72 / down
            assert (page.width, page.height) == pytest.approx(points, rel=1e-4)  # PNG counts by metres


def grey(black: float, middle: float, white: float, kind: type[np.generic]) -> Image.Image:
    return Image.fromarray(np.array([[black, middle, white]], kind))


def palette() -> Image.Image:
    image = grey(0, 1, 2, np.uint8)
    image.putpalette([0, 0, 0, 128, 128, 128, 255, 255, 255])
    return image


def transparent() -> Image.Image:
    image = Image.new("RGBA", (3, 1), (0, 0, 0, 0))  # clear black must come out white
    image.putpixel((0, 0), (0, 0, 0, 255))
    image.putpixel((1, 0), (0, 0, 0, 127))
    return image


def cmyk() -> Image.Image:
    clear = Image.new("L", (3, 1))
    return Image.merge("CMYK", [clear, clear, clear, grey(255, 127, 0, np.uint8)])


@pytest.mark.parametrize(
    ("image", "suffix"),
    [
        pytest.param(grey(0, 32768, 65535, np.uint16), "png", id="16 bit png"),
        pytest.param(grey(0, 32768, 65535, np.uint16), "tif", id="16 bit tiff"),
        pytest.param(grey(0, 32768, 65535, np.int32), "tif", id="32 bit"),
        pytest.param(grey(0, 0.5, 1, np.float32), "tif", id="float to 1"),
        pytest.param(grey(0, 127.5, 255, np.float32), "tif", id="float to 255"),
        pytest.param(grey(0, 128, 255, np.uint8), "jpg", id="grey"),
        pytest.param(palette(), "png", id="palette"),
        pytest.param(transparent(), "png", id="transparent"),
        pytest.param(transparent(), "tif", id="transparent tiff"),
        pytest.param(transparent().convert("LA"), "png", id="grey, transparent"),
        pytest.param(cmyk(), "tif", id="cmyk"),
    ],
)
def test_black_grey_and_white_of_every_kind_become_those_of_rgb(
    tmp_path: Path, image: Image.Image, suffix: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    image.save(path, quality=100) if suffix == "jpg" else image.save(path)
    rgb = read(path)[0]
    assert rgb.mode == "RGB"
    levels = np.asarray(rgb).astype(int)[0]  # (3 pixels, 3 channels)
    assert np.abs(levels - np.array([[0], [128], [255]])).max() <= 1


def test_each_frame_of_a_tiff_is_a_page_and_only_the_first_of_an_animation(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (10 + index, 10), (index * 50, 0, 0)) for index in range(4)]
    tiff, webp = tmp_path / "a.tif", tmp_path / "a.webp"
    frames[0].save(tiff, save_all=True, append_images=frames[1:])
    same_size = [frame.resize((10, 10)) for frame in frames]
    same_size[0].save(webp, save_all=True, append_images=same_size[1:])
    with ImageFile(tiff, "a") as file:
        assert file.n_pages == 4
        for number in (3, 1, 4, 2, 2):
            with file.page(number) as page:
                image = page.render(1000)
                assert image.size == (9 + number, 10)
                assert image.getpixel((0, 0)) == ((number - 1) * 50, 0, 0)
        with pytest.raises(IndexError), file.page(5):
            pass
    with ImageFile(webp, "a") as file:
        assert file.n_pages == 1


def second_directory(data: bytes) -> int:
    """Return the offset of the second frame's directory of a little-endian TIFF."""
    (start,) = struct.unpack_from("<I", data, 4)
    (n_entries,) = struct.unpack_from("<H", data, start)
    (second,) = struct.unpack_from("<I", data, start + 2 + 12 * n_entries)
    return int(second)


@pytest.mark.parametrize("damage", ["directory", "pixels", "cut"])
def test_a_broken_frame_costs_its_page_only(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.tif"
    first, second = Image.new("RGB", (40, 40), "red"), Image.effect_noise((40, 40), 50).convert("RGB")
    first.save(path, save_all=True, append_images=[second], compression="tiff_adobe_deflate")
    data = bytearray(path.read_bytes())
    start = second_directory(bytes(data))
    with Image.open(path) as whole:
        whole.seek(1)
        pixels, n_bytes = whole.tag_v2[273][0], whole.tag_v2[279][0]  # type: ignore[attr-defined]
    if damage == "directory":
        data[start : start + 200] = b"\xff" * 200
    elif damage == "pixels":
        data[pixels : pixels + n_bytes] = b"\xa5" * n_bytes
    else:
        del data[start + 20 :]
    path.write_bytes(data)
    with ImageFile(path, "a.tif") as file:
        assert file.n_pages == 2
        for _ in range(2):
            with pytest.raises(DocumentError) as caught, file.page(2):
                pass
            assert caught.value.reason == "page_unreadable"
            assert caught.value.subject == "a.tif page 2"
            with file.page(1) as page:
                assert page.render(10**6).getpixel((5, 5)) == (255, 0, 0)


@pytest.mark.parametrize("content", [b"", b"no image at all", b"\x89PNG\r\n\x1a\n", b"GIF89a" + b"\0" * 60, b"II*\0"])
def test_what_is_no_image_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(DocumentError) as caught:
        ImageFile(path, "a.png")
    assert caught.value.reason == "not_an_image"


def test_a_cut_off_image_is_a_page_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.effect_noise((200, 200), 80).save(path)
    path.write_bytes(path.read_bytes()[:3000])
    with ImageFile(path, "a.jpg") as file:
        assert file.n_pages == 1
        with pytest.raises(DocumentError) as caught, file.page(1):
            pass
    assert caught.value.reason == "page_unreadable"


@pytest.mark.parametrize("side", [9_460, 20_000])  # above Pillow's warning, above its error
def test_a_decompression_bomb_is_too_large(tmp_path: Path, side: int) -> None:
    path = tmp_path / "a.png"
    Image.new("1", (8, 8)).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", side, side)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    path.write_bytes(data)
    with pytest.raises(DocumentError) as caught:
        ImageFile(path, "a.png")
    assert caught.value.reason == "too_large"


def test_a_large_second_frame_is_too_large_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.tif"
    Image.new("L", (10, 10)).save(path, save_all=True, append_images=[Image.new("L", (30, 30))])
    monkeypatch.setattr(images, "MAX_IMAGE_PIXELS", 200)
    with ImageFile(path, "a.tif") as file:
        with pytest.raises(DocumentError) as caught, file.page(2):
            pass
        assert caught.value.reason == "too_large"
        with file.page(1) as page:
            assert page.render(100).size == (10, 10)


def test_a_file_that_cannot_be_opened_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        ImageFile(tmp_path / "missing.png", "missing.png")
    assert caught.value.reason == "unreadable"


@settings(deadline=None)
@given(cuts=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=8))
def test_no_damage_lets_another_error_out(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for suffix in ("png", "jpg", "tif", "webp"):
        path, broken = folder / f"whole.{suffix}", folder / f"broken.{suffix}"
        if not path.exists():
            second = [halves()] if suffix == "tif" else []
            halves((64, 48)).save(path, save_all=bool(second), append_images=second)
        data = bytearray(path.read_bytes())
        for place, value in cuts:
            data[place % len(data)] = value
        broken.write_bytes(data)
        try:
            with ImageFile(broken, "broken") as file:
                for number in range(1, file.n_pages + 1):
                    with file.page(number) as page:
                        assert page.render(500).width * page.render(500).height <= 500
                        assert page.width > 0 < page.height
        except DocumentError:
            pass
