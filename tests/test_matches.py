"""Matches of query tokens: which tokens count, gains by hand, heat with its floor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from colret.matches import (
    FULL_HEAT,
    Matches,
    PageBox,
    content_tokens,
    heat,
    match,
    plain_token,
    token_gains,
    token_matches,
)
from colret.types import WHOLE_PAGE, QueryEmbedding
from tests.checkpoints import tiny_encoder


def matches_of(similarities: Sequence[Sequence[float]]) -> Matches:
    values = np.array(similarities, np.float64)
    boxes = np.array([(100 * i, 0, 100 * i + 90, 50) for i in range(values.shape[1])], np.uint16).reshape(-1, 4)
    return Matches(tuple(f"t{i}" for i in range(len(values))), values, boxes)


@pytest.mark.parametrize(
    ("tokens", "template", "kept"),
    [
        (["net", "rev", "##enue"], "{}", ["net", "rev", "##enue"]),
        (["[CLS]", "[unused0]", "net", "[SEP]", "[MASK]"], "[unused0]{}, [MASK] up to 32 tokens", ["net"]),
        (["Query", ":", "Query", "net", "<pad>", "<pad>"], "Query: {}<pad>x10", ["Query", "net"]),
        (["<bos>", "user", "\n", "Query:", "a", "<eos>"], "user turn: Query: {}<eos>x10", ["a"]),
        (["\u2581query", ":", "\u2581net", "</s>"], "query: {}", ["\u2581net"]),
        (["\u0120", "net", "\u0120"], "{}", ["net"]),
        (["<b", ">", "[", "1", "]"], "{}", ["<b", ">", "[", "1", "]"]),  # typed: tokenizers part these
        (["[UNK]", "[SEP]"], "{}", ["[UNK]", "[SEP]"]),  # nothing else to go by
    ],
)
def test_tokens_of_the_text_are_told_from_the_rest(tokens: list[str], template: str, kept: list[str]) -> None:
    assert [tokens[i] for i in content_tokens(tokens, template)] == kept


@pytest.mark.parametrize("family", ["colpali", "colqwen2", "colidefics3", "colmodernvbert", "colgemma3"])
def test_real_vision_queries_show_the_text_alone(family: str) -> None:
    encoder = tiny_encoder(family)
    [query] = encoder.encode_queries(["net Query: 12"])
    kept = content_tokens(query.tokens, encoder.info.query_template)
    assert "".join(plain_token(query.tokens[i]) for i in kept) == "netQuery:12"


def test_gains_are_the_square_of_the_best_by_the_fourth_power_of_nearness() -> None:
    gains = token_gains(np.array([[1.0, 0.8, 0.0, 0.2], [0.5, 0.5, 0.5, 0.5]]))
    assert gains == pytest.approx(np.array([[0.25, 0.25 * 0.6**4, 0, 0], [0, 0, 0, 0]]))


def test_special_tokens_and_the_whole_page_are_left_out() -> None:
    query = QueryEmbedding(np.eye(2, dtype=np.float32), ("[CLS]", "##net"))
    boxes = np.array([WHOLE_PAGE, (0, 0, 9, 9)], np.uint16)
    found = match(query, np.array([[0, 1], [0.6, 0.8]], np.float32), boxes)
    assert (found.tokens, found.boxes.tolist()) == (("net",), [[0, 0, 9, 9]])
    assert found.similarities == pytest.approx(np.array([[0.8]]))


def test_a_token_is_matched_with_the_first_of_its_best_vectors_in_points() -> None:
    query = QueryEmbedding(np.array([[1, 0]], np.float32), ("net",))
    boxes = np.array([(0, 0, 65535, 100), (0, 13107, 32768, 65535), (5, 5, 9, 9)], np.uint16)
    vectors = np.array([[0.5, 0], [0.9, 0], [0.9, 0]], np.float32)
    [found] = token_matches(match(query, vectors, boxes), 200, 500)
    assert found.token == "net"
    assert found.similarity == pytest.approx(0.9)
    assert found.box == pytest.approx(PageBox(0, 100, 100, 500), abs=0.01)


def test_the_best_place_of_a_page_that_matches_is_fully_hot() -> None:
    hot = heat(matches_of([[0.9, 0.1, 0.1, 0.1]]))
    assert hot == pytest.approx([1, 0, 0, 0])


def test_a_page_that_does_not_match_stays_pale() -> None:
    hot = heat(matches_of([[0.14, 0.1, 0.1, 0.1]]))  # 0.03 above its mean
    assert hot.max() == pytest.approx((0.03 / FULL_HEAT) ** 2)


def test_heat_is_the_largest_over_tokens_or_that_of_one() -> None:
    found = matches_of([[0.9, 0.1, 0.1, 0.1], [0.1, 0.5, 0.1, 0.1]])
    assert heat(found) == pytest.approx([1, 0.25, 0, 0])
    assert heat(found, token=1) == pytest.approx([0, 0.25, 0, 0])


def test_a_later_hit_can_be_shown_as_hot_as_it_is_beside_the_first() -> None:
    assert heat(matches_of([[0.5, 0.1, 0.1, 0.1]]), full=0.6) == pytest.approx([0.25, 0, 0, 0])


@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(0, 9)), elements=st.floats(-1, 1)))
def test_heat_lies_between_0_and_1(similarities: np.ndarray) -> None:
    hot = heat(matches_of(similarities.tolist()) if similarities.size else Matches(("t",), np.zeros((1, 0)), BOXLESS))
    assert len(hot) == similarities.shape[1]
    assert ((hot >= 0) & (hot <= 1 + 1e-9)).all()


BOXLESS = np.empty((0, 4), np.uint16)


def test_without_a_place_nothing_matches() -> None:
    query = QueryEmbedding(np.array([[1, 0]], np.float32), ("net",))
    found = match(query, np.array([[1, 0]], np.float32), np.array([WHOLE_PAGE], np.uint16))
    assert token_matches(found, 100, 100) == []
    assert (found.strength, heat(found).tolist()) == (0.0, [])
