"""Regions: passages and hot spots on pages laid out by hand, and a painted cell through real vision models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret.encoders.geometry import grid_boxes
from colret.encoders.text import TextEncoder
from colret.matches import Matches, heat, match
from colret.overlay import overlay
from colret.regions import LARGEST_REGION, MAX_REGIONS, Region, find_regions
from colret.types import Boxes, Page, PageRef, QueryEmbedding, Words
from tests.checkpoints import painted_page, tiny_encoder

WIDTH, HEIGHT = 600.0, 800.0
Line = tuple[str, float, float, float]  # words, left, top, height: a word is 60 points wide with its space


def words_of(lines: Sequence[Line]) -> Words:
    texts, boxes = [], []
    for line, left, top, height in lines:
        for i, word in enumerate(line.split()):
            texts.append(word)
            boxes.append((left + 60 * i, top, left + 60 * i + 55, top + height))
    scale = 65535 / np.array([WIDTH, HEIGHT, WIDTH, HEIGHT])
    return Words(tuple(texts), np.rint(np.array(boxes).reshape(-1, 4) * scale).astype(np.uint16))


def regions_of(query: str, lines: Sequence[Line]) -> list[tuple[float, str]]:
    """Return the score and the words of each region, where a token's similarity is 1 to the same word, else 0."""
    words = words_of(lines)
    same = np.array([[float(token == word) for word in words.texts] for token in query.split()])
    found = find_regions(Matches(tuple(query.split()), same, words.boxes), WIDTH, HEIGHT, words)
    return [(round(region.score, 2), text_in(region, words)) for region in found]


def text_in(region: Region, words: Words) -> str:
    boxes = words.boxes / 65535 * np.array([WIDTH, HEIGHT, WIDTH, HEIGHT])
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    inside = (x > region.box.left) & (x < region.box.right) & (y > region.box.top) & (y < region.box.bottom)
    return " ".join(word for word, is_in in zip(words.texts, inside.tolist(), strict=True) if is_in)


PARAGRAPH: list[Line] = [
    ("one two three four five", 50, 200, 10),
    ("six seven eight nine ten", 50, 214, 10),
    ("eleven twelve thirteen fourteen", 50, 228, 10),
]


def test_a_line_that_answers_is_framed_whole() -> None:
    assert regions_of("seven nine", PARAGRAPH) == [(1.0, "six seven eight nine ten")]


def test_lines_of_one_passage_are_framed_together_where_both_are_needed() -> None:
    [(score, text)] = regions_of("five six", PARAGRAPH)
    assert (score, text) == (1.0, "one two three four five six seven eight nine ten")


def test_of_a_heading_and_a_sentence_that_says_the_same_the_heading_comes_first() -> None:
    lines = [("we now turn to seven nine tails", 50, 100, 10), ("seven nine", 50, 150, 16)]
    assert regions_of("seven nine", lines)[0] == (1.0, "seven nine")


def test_places_far_apart_are_regions_by_what_they_contribute() -> None:
    lines = [*PARAGRAPH, ("red green", 50, 600, 10)]
    query = "one two three red"
    assert regions_of(query, lines) == [(0.75, "one two three four five"), (0.25, "red green")]


def test_what_was_found_once_is_not_shown_again() -> None:
    lines = [("red green", 50, 100, 10), *PARAGRAPH, ("red blue yellow", 50, 600, 10)]
    assert regions_of("red", lines) == [(1.0, "red green")]


def test_cells_of_a_table_are_not_one_line() -> None:
    lines = [("red", 50, 100, 10), ("green", 300, 100, 10), ("blue", 50, 114, 10), ("yellow", 300, 114, 10)]
    assert regions_of("green", lines) == [(1.0, "green")]


def test_a_heading_and_its_paragraph_are_two_passages() -> None:
    lines = [("alpha", 50, 180, 18), *PARAGRAPH]
    assert {text for _, text in regions_of("alpha one", lines)} == {"alpha", "one two three four five"}


def test_text_read_from_the_right_has_lines_too() -> None:
    lines = [("three two one", 50, 100, 10)]
    words = words_of(lines)
    backwards = Words(words.texts[::-1], words.boxes[::-1])
    same = np.array([[0.0, 0.0, 1.0]])
    [region] = find_regions(Matches(("three",), same, backwards.boxes), WIDTH, HEIGHT, backwards)
    assert text_in(region, words) == "three two one"


def test_turned_text_has_lines_too() -> None:
    words = words_of(PARAGRAPH)
    turned = Words(words.texts, words.boxes[:, [1, 0, 3, 2]])
    same = np.array([[float(word == "nine") for word in words.texts]])
    [region] = find_regions(Matches(("nine",), same, turned.boxes), WIDTH, HEIGHT, turned)
    assert text_in(region, turned) == "six seven eight nine ten"


def test_a_vector_of_words_in_several_lines_is_shared_among_them() -> None:
    """Pooling unites what is alike: a box over all lines says less than one on a word."""
    words = words_of(PARAGRAPH)
    over_all = np.array([[0, 0, 65535, 40000]], np.uint16)
    boxes = np.concatenate([over_all, words.boxes[6:7], words.boxes[:1]])
    found = find_regions(Matches(("a",), np.array([[1.0, 0.95, 0.0]]), boxes), WIDTH, HEIGHT, words)
    assert text_in(found[0], words) == "six seven eight nine ten"


def test_there_are_no_regions_where_nothing_stands_out() -> None:
    words = words_of(PARAGRAPH)
    flat = np.full((2, len(words.texts)), 0.5)
    assert find_regions(Matches(("a", "b"), flat, words.boxes), WIDTH, HEIGHT, words) == ()
    assert find_regions(Matches(("a",), np.zeros((1, 0)), words.boxes[:0]), WIDTH, HEIGHT, words) == ()
    assert find_regions(Matches(("a",), np.eye(1, 14), words.boxes), WIDTH, HEIGHT, Words.none()) == ()


ROWS, COLUMNS = 10, 8


def spots_of(*hot: dict[int, float]) -> tuple[Region, ...]:
    """Return the regions of a grid for tokens that match the given cells."""
    similarities = np.array([[token.get(cell, 0.0) for cell in range(ROWS * COLUMNS)] for token in hot])
    tokens = tuple(f"t{i}" for i in range(len(hot)))
    return find_regions(Matches(tokens, similarities, grid_boxes(ROWS, COLUMNS)), WIDTH, HEIGHT)


def cells_in(region: Region) -> set[int]:
    left, top, right, bottom = region.box
    x, y = round(left / WIDTH * COLUMNS), round(top / HEIGHT * ROWS)
    across, down = round(right / WIDTH * COLUMNS) - x, round(bottom / HEIGHT * ROWS) - y
    return {COLUMNS * (y + j) + x + i for j in range(down) for i in range(across)}


def test_a_hot_cell_is_a_region() -> None:
    [region] = spots_of({27: 0.9})
    assert (cells_in(region), region.tokens) == ({27}, ("t0",))
    assert region.score == pytest.approx(1.0)


def test_cells_that_touch_are_one_region_and_others_are_not() -> None:
    first, second = spots_of({27: 0.9, 28: 0.88, 36: 0.87}, {70: 0.8})
    assert cells_in(first) == {27, 28, 35, 36}
    assert (cells_in(second), second.tokens) == ({70}, ("t1",))
    assert first.score > second.score


def test_a_spot_as_large_as_the_page_is_cut_to_its_hottest_part() -> None:
    everywhere = {cell: 0.8 for cell in range(0, ROWS * COLUMNS, 2)} | {cell: 0.81 for cell in range(8, 16)}
    everywhere[27] = 1.0
    assert all(len(cells_in(region)) <= LARGEST_REGION * ROWS * COLUMNS for region in spots_of(everywhere))


@given(seed=st.integers(0, 10_000), n_tokens=st.integers(1, 8), n_words=st.integers(1, 60), from_words=st.booleans())
def test_regions_are_few_inside_the_page_and_independent_of_the_vectors_order(
    seed: int, n_tokens: int, n_words: int, from_words: bool
) -> None:
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 60_000, (n_words, 2))
    boxes: Boxes = np.hstack([corner, corner + rng.integers(0, 5_000, (n_words, 2))]).astype(np.uint16)
    words = Words(tuple(f"w{i}" for i in range(n_words)), boxes) if from_words else None
    tokens = tuple(f"t{i}" for i in range(n_tokens))
    similarities = rng.uniform(-1, 1, (n_tokens, n_words))
    found = find_regions(Matches(tokens, similarities, boxes), WIDTH, HEIGHT, words)
    assert len(found) <= MAX_REGIONS
    assert sum(region.score for region in found) <= 1 + 1e-9
    for region in found:
        assert region.score > 0
        assert 0 <= region.box.left <= region.box.right <= WIDTH
        assert 0 <= region.box.top <= region.box.bottom <= HEIGHT
        assert set(region.tokens) <= set(tokens)
    if from_words:
        order = rng.permutation(n_words)
        shuffled = find_regions(Matches(tokens, similarities[:, order], boxes[order]), WIDTH, HEIGHT, words)
        assert [region.box for region in shuffled] == [region.box for region in found]


def test_the_sentence_that_answers_is_found_by_the_real_encoder(embedded: TextEncoder) -> None:
    lines: list[Line] = [
        ("the committee met to review the plan", 50, 100, 10),
        ("methane emissions fell by a third", 50, 130, 10),
        ("the warranty covers the compressor", 50, 160, 10),
    ]
    words = words_of(lines)
    [page] = embedded.encode_pages([Page(PageRef("d", 1), WIDTH, HEIGHT, words, None, 0)])
    [query] = embedded.encode_queries(["how long is the guarantee on the cooling pump"])
    [top, *_] = find_regions(match(query, page.vectors, page.boxes), WIDTH, HEIGHT, words)
    assert text_in(top, words) == "the warranty covers the compressor"


@pytest.mark.parametrize("family", ["colpali", "colqwen2", "colidefics3"])
@pytest.mark.parametrize("cell", [(0, 0), (2, 1), (3, 3)])
def test_a_query_for_one_painted_cell_lights_that_cell(family: str, cell: tuple[int, int]) -> None:
    """A quarter of the page's side: several patches of each model's grid."""
    encoder = tiny_encoder(family, local=True)
    spot = (cell[0] / 4, cell[1] / 4, (cell[0] + 1) / 4, (cell[1] + 1) / 4)
    size = (256, 256)
    [blank], [painted] = (encoder.encode_pages([painted_page(size, each)]) for each in (None, spot))
    moved = np.linalg.norm(painted.vectors - blank.vectors, axis=1)
    moved[(painted.boxes == [0, 0, 65535, 65535]).all(axis=1)] = 0
    target = int(moved.argmax())
    query = QueryEmbedding(painted.vectors[target][None], ("spot",))
    found = match(query, painted.vectors, painted.boxes)
    [region, *_] = find_regions(found, float(size[0]), float(size[1]))
    centre = (region.box.left + region.box.right) / 512, (region.box.top + region.box.bottom) / 512
    assert spot[0] <= centre[0] <= spot[2]
    assert spot[1] <= centre[1] <= spot[3]
    page = painted_page(size).image
    assert page is not None
    hot = heat(found)  # random weights tell cells apart by little
    lit = overlay(page, found.boxes, hot / hot.max(), size=(256.0, 256.0), from_words=False)
    redness = np.asarray(lit).astype(int)[:, :, 0] - np.asarray(lit).astype(int)[:, :, 2]
    y, x = np.unravel_index(redness.argmax(), redness.shape)
    assert spot[0] - 0.01 <= x / 256 <= spot[2] + 0.01
    assert spot[1] - 0.01 <= y / 256 <= spot[3] + 0.01
