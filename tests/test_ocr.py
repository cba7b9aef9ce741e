"""Words read from pixels."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from colret import ocr
from colret.errors import DocumentError, ModelError
from colret.line_words import place_words
from colret.ocr import is_blank, ocr_pixels, ocr_words
from colret.render import PdfFile
from colret.types import Words
from colret.words import text_layer_words
from tests.pdfs import PdfSpec, build_pdf, text

LINES = ["Quarterly revenue grew by 12.5 percent", "to $4,310 million, see table 7."]
CONTENT = "".join(text(line, 40, 230 - 40 * index, 16) for index, line in enumerate(LINES))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Image.Image, Words]:
    """Return the image of a page of text, and the words of its text layer."""
    path = tmp_path_factory.mktemp("ocr") / "a.pdf"
    path.write_bytes(build_pdf([PdfSpec(CONTENT, (0, 0, 400, 300))]))
    with PdfFile(path, "a") as pdf, pdf.page(1) as loaded:
        image = loaded._draw((800, 600))
        return image, text_layer_words(loaded.handle, name="a")


@pytest.fixture(scope="module")
def read(page: tuple[Image.Image, Words]) -> Words:
    return ocr_words(page[0])


def test_a_page_of_text_is_read(page: tuple[Image.Image, Words], read: Words) -> None:
    truth, found = Counter(page[1].texts), Counter(read.texts)
    assert (truth & found).total() >= 0.85 * truth.total()
    assert all(word.split() == [word] for word in read.texts)


def test_boxes_are_those_of_the_text_layer(page: tuple[Image.Image, Words], read: Words) -> None:
    truth = dict(zip(page[1].texts, page[1].boxes.astype(float) / 65535, strict=True))
    compared = 0
    for word, box in zip(read.texts, read.boxes / 65535, strict=True):
        if len(word) > 1 and word in truth:
            # The engine places characters in columns of about a third of an em, and lines loosely.
            assert box[[0, 2]] == pytest.approx(truth[word][[0, 2]], abs=0.025)
            assert box[1] <= truth[word][1] + 0.01
            assert box[3] >= truth[word][3] - 0.01
            assert box[3] - box[1] < 0.15
            compared += 1
    assert compared >= 8


def test_a_blank_page_is_never_given_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "_engine", lambda: pytest.fail("the engine was asked"))
    noise = np.random.default_rng(0).integers(247, 256, (60, 40, 3)).astype(np.uint8)
    for image in (
        Image.new("RGB", (50, 50), "white"),
        Image.new("RGB", (9, 9), "navy"),
        Image.fromarray(noise),
    ):
        assert is_blank(image)
        assert ocr_words(image).texts == ()


def test_a_dot_is_not_blank() -> None:
    image = Image.new("RGB", (900, 900), "white")
    image.putpixel((450, 450), (0, 0, 0))
    assert not is_blank(image)


@pytest.mark.parametrize("size", [(1, 1), (900, 7), (9, 9), (12, 700)])
def test_images_of_any_proportions_are_read_in_bounded_memory(size: tuple[int, int]) -> None:
    image = Image.new("RGB", size, "white")
    image.putpixel((0, 0), (0, 0, 0))
    assert isinstance(ocr_words(image), Words)


def test_boxes_on_a_strip_are_shares_of_the_strip(page: tuple[Image.Image, Words], read: Words) -> None:
    whole = page[0]
    bottom = 190  # pixels: the first line and the second, without the white below
    strip = ocr_words(whole.crop((0, 90, 800, 90 + bottom)))
    first = [words.texts.index("Quarterly") for words in (strip, read)]
    left, top = strip.boxes[first[0], :2] / 65535
    assert left == pytest.approx(read.boxes[first[1], 0] / 65535, abs=0.01)
    assert 90 + top * bottom == pytest.approx(read.boxes[first[1], 1] / 65535 * 600, abs=6)


TURNS: dict[int, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    90: lambda boxes: np.stack([boxes[:, 1], 1 - boxes[:, 2], boxes[:, 3], 1 - boxes[:, 0]], axis=1),
    180: lambda boxes: 1 - boxes[:, [2, 3, 0, 1]],
    270: lambda boxes: np.stack([1 - boxes[:, 3], boxes[:, 0], 1 - boxes[:, 1], boxes[:, 2]], axis=1),
}
"""Where boxes are, as shares of the page, after it was turned counter-clockwise."""


@pytest.fixture(scope="module")
def scan(proving: bool) -> tuple[Image.Image, Words]:
    """Return a page that was scanned, or its first lines, and the words on it."""
    path = Path(__file__).parents[1] / "examples" / "scanned_plan_page.pdf"
    with PdfFile(path, "scan") as pdf, pdf.page(1) as loaded:
        image = loaded.render(ocr_pixels(loaded.width, loaded.height))
    if not proving:
        image = image.crop((0, 100, 700, 240))
    return image, ocr_words(image)


@pytest.mark.prove
@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_scan_that_was_turned_is_read_the_way_it_should_be_held(
    scan: tuple[Image.Image, Words], turn: int, proving: bool
) -> None:
    image, upright = scan
    turned = ocr_words(image.rotate(turn, expand=True))
    assert len(upright.texts) > (350 if proving else 25)
    assert turned.texts == upright.texts
    assert turned.boxes / 65535 == pytest.approx(TURNS[turn](upright.boxes / 65535), abs=2e-3)


@pytest.mark.parametrize(
    ("quads", "scores", "turn"),
    [
        ([(300, 20), (250, 20), (200, 20)], (0.99, 0.97, 0.9), 0),
        ([(300, 20), (250, 20), (200, 20)], (0.6, 0.65, 0.55), 180),
        ([(20, 300), (20, 250), (200, 20)], (0.99, 0.97, 0.9), 90),
        ([(20, 300), (20, 250), (200, 20)], (0.6, 0.65, 0.9), 270),
        ([(20, 100), (300, 20), (300, 20)], (0.9, 0.99, 0.99), 0),  # the name of an axis
    ],
)
def test_what_a_page_is_suspected_of(quads: list[tuple[int, int]], scores: tuple[float, ...], turn: int) -> None:
    boxes = [[(0, 0), (width, 0), (width, height), (0, height)] for width, height in quads]
    result = SimpleNamespace(txts=("eleven char",) * len(quads), boxes=boxes, scores=scores, word_results=())
    reading = ocr._read(lambda *_, **__: result, Image.new("RGB", (400, 400)), 0)
    assert reading.suspected_turn == turn


def test_a_page_that_no_turn_makes_better_is_read_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    box = [(0, 0), (90, 0), (90, 20), (0, 20)]
    asked = []

    def engine(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], **_: object) -> SimpleNamespace:
        asked.append(pixels.shape)
        return SimpleNamespace(txts=(f"reading {len(asked)}",), boxes=[box], scores=(0.6,), word_results=())

    monkeypatch.setattr(ocr, "_engine", lambda: engine)
    image = Image.new("RGB", (100, 80), "white")
    image.putpixel((5, 5), (0, 0, 0))
    assert ocr_words(image).texts == ("reading", "1")
    assert len(asked) == 2


@pytest.mark.parametrize(("stated", "threads"), [("1", 1), ("3", 3), ("64", 4)])
def test_threads_are_those_that_the_environment_grants(
    monkeypatch: pytest.MonkeyPatch, stated: str, threads: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", stated)
    assert ocr._threads() == threads


@pytest.mark.parametrize("stated", ["", "0", "many"])
def test_threads_are_as_many_as_cores_where_nothing_is_stated(monkeypatch: pytest.MonkeyPatch, stated: str) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", stated)
    assert 1 <= ocr._threads() <= 4


def test_a_failure_of_the_engine_names_the_page(
    page: tuple[Image.Image, Words], monkeypatch: pytest.MonkeyPatch
) -> None:
    def engine(*_: object, **__: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(ocr, "_engine", lambda: engine)
    with pytest.raises(DocumentError, match=r"a\.pdf page 3.*tuple index") as caught:
        ocr_words(page[0], name="a.pdf page 3")
    assert caught.value.reason == "ocr_failed"


def test_the_engine_is_given_blue_first(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def engine(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], **_: object) -> SimpleNamespace:
        given.append(pixels)
        return SimpleNamespace(txts=None, boxes=None, word_results=())

    monkeypatch.setattr(ocr, "_engine", lambda: engine)
    image = Image.new("RGB", (20, 10), (200, 100, 50))
    image.putpixel((0, 0), (255, 255, 255))
    assert ocr_words(image).texts == ()
    assert given[0].shape == (10, 20, 3)
    assert given[0][5, 5].tolist() == [50, 100, 200]


def test_an_engine_without_its_models_is_an_error_that_helps(
    page: tuple[Image.Image, Words], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ocr, "_engine", ocr._engine.__wrapped__)  # as if for the first time
    for spec in (None, SimpleNamespace(submodule_search_locations=[str(tmp_path)])):
        monkeypatch.setattr("importlib.util.find_spec", lambda *_, spec=spec: spec)
        with pytest.raises(ModelError, match="install"):
            ocr_words(page[0])


def test_an_engine_that_cannot_be_loaded_is_an_error_that_helps(
    page: tuple[Image.Image, Words], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec("rapidocr")
    monkeypatch.setattr(ocr, "_engine", ocr._engine.__wrapped__)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: spec)
    monkeypatch.setitem(sys.modules, "rapidocr", None)  # its import now raises ImportError
    with pytest.raises(ModelError, match="cannot be loaded"):
        ocr_words(page[0])


LINE = "Net sales 2,023"
QUAD = np.array([[10, 20], [160, 20], [160, 40], [10, 40]], float)  # 10 pixels for each of 15 characters


def cells(line: str) -> list[tuple[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]]:
    """Return each character of ``line`` but for spaces in its place."""
    corners = np.array([[0, 0], [10, 0], [10, 20], [0, 20]], float)
    places = enumerate(line)
    return [(char, corners + np.array([10 + 10 * index, 20])) for index, char in places if char != " "]


@pytest.mark.parametrize("placed", [True, False])
def test_the_words_of_a_line_are_placed(placed: bool) -> None:
    words = list(place_words(LINE, cells(LINE) if placed else cells("Net"), QUAD))
    assert [word for word, _ in words] == ["Net", "sales", "2,023"]
    bounds = [[*points.min(axis=0), *points.max(axis=0)] for _, points in words]
    assert np.allclose(bounds, [[10, 20, 40, 40], [50, 20, 100, 40], [110, 20, 160, 40]])


@given(line=st.text(st.sampled_from("ab \u3000"), max_size=12), placed=st.booleans())
def test_the_words_of_a_line_are_those_of_its_text(line: str, placed: bool) -> None:
    words = list(place_words(line, cells(line.replace("\u3000", " ")) if placed else [], QUAD))
    assert [word for word, _ in words] == line.split()


@pytest.mark.parametrize("placed", [True, False])
def test_letters_of_scripts_without_spaces_are_words_in_their_places(placed: bool) -> None:
    line = "電源AB-12を"
    quad = np.array([[10, 20], [90, 20], [90, 40], [10, 40]], float)
    words = list(place_words(line, cells(line) if placed else [], quad))
    assert [word for word, _ in words] == ["電", "源", "AB-12", "を"]
    assert [points[:, 0].min() for _, points in words] == pytest.approx([10, 20, 30, 80])


def test_a_tilted_line_is_divided_along_its_edges() -> None:
    quad = np.array([[0, 0], [100, 50], [90, 70], [-10, 20]], float)
    (_, first), (_, second) = place_words("aaaa bbbbb", [], quad)
    assert first.max(axis=0).tolist() == [40, 40]
    assert second.min(axis=0).tolist() == [40, 25]


def test_pixels_for_ocr_follow_the_resolution_up_to_a_limit() -> None:
    assert ocr_pixels(595, 842) == pytest.approx(595 * 842 * (125 / 72) ** 2, rel=1e-3)
    assert ocr_pixels(1e9, 1e9) == 4_000_000
    assert ocr_pixels(1e-9, 1) == 1


def test_ocr_is_silent_local_and_leaves_logging_alone(page: tuple[Image.Image, Words], tmp_path: Path) -> None:
    page[0].save(tmp_path / "page.png")
    program = f"""
import logging, socket, sys
def refuse(*_): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
from PIL import Image
from colret.ocr import ocr_words
assert not {{"rapidocr", "onnxruntime", "cv2"}} & set(sys.modules)
image = Image.open({str(tmp_path / "page.png")!r})
assert len(ocr_words(image).texts) > 8
assert not logging.getLogger().handlers
"""
    root = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
