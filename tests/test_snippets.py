"""Snippets: weights by hand on the words that matched, windows against brute force."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from colret.matches import match
from colret.snippets import SNIPPET_WORDS, Snippet, snippet, word_weights
from colret.types import WHOLE_PAGE, Boxes, QueryEmbedding, Words

LINE = [(10 * i, 0, 10 * i + 8, 10) for i in range(6)]  # six words side by side


def boxes_of(boxes: Sequence[tuple[int, int, int, int]]) -> Boxes:
    return np.array(boxes, np.uint16).reshape(-1, 4)


def words_of(n: int) -> Words:
    return Words(tuple(f"w{i}" for i in range(n)), np.zeros((n, 4), np.uint16))


def line() -> Words:
    return Words(tuple("abcdef"), boxes_of(LINE))


def weights_of(
    query: Sequence[Sequence[float]], vectors: Sequence[Sequence[float]], boxes: Boxes, words: Words
) -> NDArray[np.float64]:
    tokens = tuple(f"t{i}" for i in range(len(query)))
    page = np.array(vectors, np.float32).reshape(-1, 2)
    return word_weights(match(QueryEmbedding(np.array(query, np.float32), tokens), page, boxes), words)


def test_a_tokens_best_vector_gives_its_word_the_square_of_what_it_stands_above_the_mean() -> None:
    weights = weights_of([[1, 0]], [[0, 1], [1, 0], [0.2, 0]], boxes_of(LINE[2:5]), line())
    assert weights.dtype == np.float64
    assert weights == pytest.approx([0, 0, 0, 0.6**2, 0, 0])


def test_a_near_best_vector_counts_by_the_fourth_power_of_its_nearness() -> None:
    weights = weights_of([[1, 0]], [[1, 0], [0.8, 0], [0, 1], [0.2, 0]], boxes_of(LINE[:4]), line())
    assert weights == pytest.approx([0.5**2, 0.5**2 * (0.3 / 0.5) ** 4, 0, 0, 0, 0])


def test_the_gains_of_several_tokens_add_up() -> None:
    weights = weights_of([[1, 0], [0, 1], [1, 0]], [[1, 0], [0, 1]], boxes_of(LINE[:2]), line())
    assert weights == pytest.approx([2 * 0.25, 0.25, 0, 0, 0, 0])


def test_a_token_that_found_something_outweighs_one_that_did_not() -> None:
    weights = weights_of([[1, 0], [0, 0.1]], [[1, 0], [0, 1]], boxes_of(LINE[:2]), line())
    assert weights == pytest.approx([0.25, 0.0025, 0, 0, 0, 0])


def test_words_that_share_a_box_share_its_gain() -> None:
    left_half, right_half = (0, 0, 28, 10), (30, 0, 58, 10)
    weights = weights_of([[1, 0]], [[1, 0], [0, 1]], boxes_of([left_half, right_half]), line())
    assert weights == pytest.approx([0.25 / 3] * 3 + [0] * 3)


def test_a_word_in_several_boxes_counts_as_its_best_vector() -> None:
    """So a word of many pieces does not outweigh one of a single piece."""
    weights = weights_of([[1, 0]], [[1, 0], [1, 0], [0, 1], [0, 1]], boxes_of([LINE[1], LINE[1], *LINE[2:4]]), line())
    assert weights == pytest.approx([0, 0.25, 0, 0, 0, 0])


def test_a_word_belongs_to_the_box_that_holds_its_centre() -> None:
    words = Words(("in", "out", "below"), boxes_of([(0, 0, 9, 9), (6, 0, 16, 9), (0, 8, 9, 20)]))
    weights = weights_of([[1, 0]], [[1, 0], [0, 1]], boxes_of([(0, 0, 10, 10), (40, 40, 50, 50)]), words)
    assert weights == pytest.approx([0.25, 0, 0])


def test_a_box_at_the_far_corner_does_not_overflow() -> None:
    corner = (65000, 65000, 65535, 65535)
    words = Words(("corner", "start"), boxes_of([corner, (0, 0, 500, 500)]))
    weights = weights_of([[1, 0]], [[1, 0], [0, 1]], boxes_of([corner, (0, 0, 500, 500)]), words)
    assert weights == pytest.approx([0.25, 0])


def test_a_token_that_matches_everywhere_points_nowhere() -> None:
    weights = weights_of([[1, 0]], [[0.7, 0.7], [0.7, -0.7]], boxes_of(LINE[:2]), line())
    assert weights == pytest.approx(np.zeros(6))


def test_vectors_of_the_whole_page_point_nowhere_and_count_for_nothing() -> None:
    boxes = boxes_of([WHOLE_PAGE, *LINE[:2]])
    weights = weights_of([[1, 0]], [[1, 0], [0.5, 0], [0.1, 0]], boxes, line())
    assert weights == pytest.approx([(0.5 - 0.3) ** 2, 0, 0, 0, 0, 0])


def test_nothing_has_weight_where_no_vector_has_a_place() -> None:
    assert weights_of([[1, 0]], [[1, 0], [0, 1]], boxes_of([WHOLE_PAGE, WHOLE_PAGE]), line()).tolist() == [0] * 6
    assert weights_of([[1, 0]], [], boxes_of([]), line()).tolist() == [0] * 6


def test_a_page_without_words_has_no_weights() -> None:
    assert weights_of([[1, 0]], [[1, 0]], boxes_of(LINE[:1]), Words.none()).shape == (0,)


def test_a_winner_beside_all_words_gives_nothing_away() -> None:
    weights = weights_of([[1, 0]], [[1, 0], [0, 1]], boxes_of([(500, 500, 600, 600), LINE[0]]), line())
    assert weights.tolist() == [0] * 6


@pytest.mark.parametrize("n", [0, 1, 7, SNIPPET_WORDS])
def test_a_short_page_is_its_own_snippet(n: int) -> None:
    words = words_of(n)
    assert snippet(words, np.ones(n)).text == words.text


@pytest.mark.parametrize(
    ("matched", "expected"),
    [
        ([0], "w0 w1 w2 …"),
        ([4], "… w3 w4 w5 …"),
        ([9], "… w7 w8 w9"),
        ([4, 6], "… w4 w5 w6 …"),
        ([2, 7], "… w1 w2 w3 …"),  # the first of equals
        ([4, 5], "… w4 w5 w6 …"),
        ([1, 7, 8], "… w7 w8 w9"),  # the heavier
    ],
)
def test_what_matched_stands_in_the_middle_between_ellipses(matched: list[int], expected: str) -> None:
    weights = np.zeros(10)
    weights[matched] = 1
    assert snippet(words_of(10), weights, 3).text == expected


def test_a_snippet_has_thirty_words() -> None:
    weights = np.zeros(100)
    weights[50] = 1
    kept = snippet(words_of(100), weights).text.split()
    assert (kept[0], kept[-1], len(kept[1:-1])) == ("…", "…", 30)
    assert "w50" in kept[14:18]


@given(weights=st.lists(st.integers(0, 3), min_size=1, max_size=40), n_words=st.integers(1, 12))
@example(weights=[0, 1, 0, 0, 1, 0], n_words=4)
def test_no_other_window_holds_more_weight(weights: list[int], n_words: int) -> None:
    text = snippet(words_of(len(weights)), np.array(weights, np.float64), n_words).text
    kept = [int(word[1:]) for word in text.split() if word != "…"]
    n_kept = min(n_words, len(weights))
    assert kept == list(range(kept[0], kept[0] + n_kept))
    best = max(sum(weights[i : i + n_kept]) for i in range(len(weights) - n_kept + 1))
    assert sum(weights[i] for i in kept) == best
    assert text.startswith("… ") == (kept[0] > 0)
    assert text.endswith(" …") == (kept[-1] < len(weights) - 1)


def shown(cut: Snippet) -> list[str]:
    return [cut.text[start:end] for start, end in cut.highlights]


def test_words_that_matched_are_highlighted_and_neighbours_together() -> None:
    weights = np.zeros(10)
    weights[[4, 5, 7]] = 1, 0.5, 0.3
    cut = snippet(words_of(10), weights, 6)
    assert cut.text == "… w3 w4 w5 w6 w7 w8 …"
    assert shown(cut) == ["w4 w5", "w7"]
    assert cut.marked("<", ">") == "… w3 <w4 w5> w6 <w7> w8 …"


def test_what_hardly_matched_is_not_highlighted() -> None:
    weights = np.array([0, 1, 0.19, 0.2, 0])
    assert shown(snippet(words_of(5), weights)) == ["w1", "w3"]


def test_nothing_is_highlighted_where_nothing_matched() -> None:
    assert snippet(words_of(50), np.zeros(50)).highlights == ()
    assert snippet(Words.none(), np.zeros(0)) == Snippet("", ())


@given(weights=st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=1, max_size=40), n_words=st.integers(1, 12))
def test_highlights_are_whole_words_in_order(weights: list[float], n_words: int) -> None:
    cut = snippet(words_of(len(weights)), np.array(weights), n_words)
    kept = [int(word[1:]) for word in cut.text.split() if word != "…"]
    expected = [i for i in kept if weights[i] >= max(0.2 * max(weights), 1e-12)]
    assert [int(word[1:]) for part in shown(cut) for word in part.split()] == expected
    assert list(cut.highlights) == sorted(cut.highlights)
    assert cut.marked("", "") == cut.text


def test_letters_of_scripts_without_spaces_are_not_taken_apart() -> None:
    texts = ("人", "人", "生", "而", "自由。", "PDF", "文", "件")
    words = Words(texts, np.zeros((len(texts), 4), np.uint16))
    cut = snippet(words, np.array([0, 1, 1, 0, 0, 1, 1, 0.0]))
    assert cut.text == "人人生而自由。 PDF 文件"
    assert shown(cut) == ["人生", "PDF 文"]
