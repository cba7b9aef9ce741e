"""The values between the layers refuse what would make a score wrong; errors stay one line."""

from __future__ import annotations

import pickle
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from colret.errors import ColretError, DocumentError, ModelError, Reason, StoreError, one_line
from colret.scoring import float_vectors
from colret.types import Boxes, Coding, Float32, Multivectors, PageRef, Words

ANY_TEXT = st.text(st.characters())  # control characters and lone surrogates too
WORD_TEXTS = st.lists(st.text(min_size=1).filter(lambda text: text.split() == [text]))


CODES = np.array([[1, 2], [3, 4], [-5, 6]], np.int8)


def rows(n: int, dim: int = 2) -> Float32:
    return np.arange(1, n * dim + 1, dtype=np.float32).reshape(n, dim)


def test_a_page_id_joins_document_and_number() -> None:
    assert PageRef("ab12", 3).page_id == "ab12:3"
    assert PageRef.parse("ab12:3") == PageRef("ab12", 3)


@given(doc_id=st.text(), number=st.integers(1))
@example(doc_id="a:b:7", number=12)
def test_a_page_id_gives_its_reference_back(doc_id: str, number: int) -> None:
    ref = PageRef(doc_id, number)
    assert PageRef.parse(ref.page_id) == ref


@pytest.mark.parametrize("page_id", ["", "ab12", "ab12:", "ab12:x", "7:ab12"])
def test_what_names_no_page_is_refused(page_id: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        PageRef.parse(page_id)


@given(texts=WORD_TEXTS.filter(bool))
def test_the_text_of_words_gives_the_words_back(texts: list[str]) -> None:
    words = Words(tuple(texts), np.zeros((len(texts), 4), np.uint16))
    assert words.text.split(" ") == texts


def test_a_page_without_words_has_an_empty_text_and_no_boxes() -> None:
    words = Words.none()
    assert (words.texts, words.text, words.boxes.shape) == ((), "", (0, 4))


@pytest.mark.parametrize(
    "boxes",
    [np.zeros((1, 4), np.uint16), np.zeros((2, 2), np.uint16), np.zeros(8, np.uint16), np.zeros((2, 4), np.int64)],
)
def test_words_need_a_box_each(boxes: Boxes) -> None:
    with pytest.raises(ValueError, match=r"2 words need \(2, 4\) uint16 boxes"):
        Words(("a", "b"), boxes)


@given(lengths=st.lists(st.integers(1, 5)), dim=st.integers(1, 3))
def test_packed_pages_come_back_one_by_one(lengths: list[int], dim: int) -> None:
    pages = [rows(length, dim) + i for i, length in enumerate(lengths)]
    packed = Multivectors.pack(pages)
    assert len(packed) == len(pages)
    assert packed.offsets.dtype == np.int64
    assert packed.values.dtype == np.float32
    for i, page in enumerate(pages):
        assert np.array_equal(float_vectors(packed, i), page)


@pytest.mark.parametrize(
    ("values", "coding"),
    [(CODES, "int8"), (CODES.astype(np.float16), "float16"), (CODES.astype(np.float32), "float32")],
)
def test_a_page_is_its_codes_times_its_own_scale(values: NDArray[np.int8], coding: Coding) -> None:
    pages = Multivectors(values, np.array([0, 1, 3]), np.array([2, 0.5], np.float32), coding)
    assert float_vectors(pages, 0).tolist() == [[2, 4]]
    assert float_vectors(pages, 1).tolist() == [[1.5, 2], [-2.5, 3]]
    assert float_vectors(pages, 1).dtype == np.float32


@pytest.mark.parametrize("offsets", [[0, 2, 2, 3], [0, 0, 3], [0, 3, 3], [0, 3, 2, 3]])
def test_a_page_without_vectors_is_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="without vectors"):
        Multivectors(rows(3), np.array(offsets), np.ones(len(offsets) - 1, np.float32))


def test_an_empty_page_cannot_be_packed() -> None:
    with pytest.raises(ValueError, match="without vectors"):
        Multivectors.pack([rows(2), rows(0), rows(1)])


@pytest.mark.parametrize("offsets", [[0, 1, 2], [0, 1, 4], [1, 2, 3], [-1, 1, 3], [0]])
def test_offsets_run_from_zero_to_the_number_of_vectors(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="from 0 to the number of vectors"):
        Multivectors(rows(3), np.array(offsets), np.ones(len(offsets) - 1, np.float32))


@pytest.mark.parametrize("n_scales", [0, 1, 3])
def test_each_page_needs_one_scale(n_scales: int) -> None:
    with pytest.raises(ValueError, match="one scale"):
        Multivectors(rows(3), np.array([0, 1, 3]), np.ones(n_scales, np.float32))


def test_an_error_is_one_line_of_subject_problem_and_remedy() -> None:
    error = StoreError("a\nb.pdf", "is  not\r\ta PDF", "remove\x0b it")
    assert str(error) == r"a\nb.pdf: is not a PDF; remove it"
    assert (error.subject, error.problem, error.remedy) == ("a\\nb.pdf", "is not a PDF", "remove it")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  one \n two\u2028three\xa0four ", "one two three four"),
        ("bell\x07 escape\x1b[31m null\x00", r"bell\x07 escape\x1b[31m null\x00"),
        ("\udcff.pdf", r"\udcff.pdf"),
        ("left\u202eright \u200b", r"left\u202eright \u200b"),
        ("Größe 日本 🙂", "Größe 日本 🙂"),
        ("", ""),
    ],
)
def test_what_a_terminal_cannot_show_is_escaped(text: str, expected: str) -> None:
    assert one_line(text) == expected


@given(text=ANY_TEXT)
@example(text="\ud800")
@example(text="\x85")
def test_any_text_becomes_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert line.encode().decode() == line
    assert len(line.splitlines()) <= 1
    assert one_line(line) == line


@given(subject=ANY_TEXT, problem=ANY_TEXT, remedy=ANY_TEXT, reason=st.sampled_from(get_args(Reason)))
def test_a_document_error_survives_the_trip_between_processes(
    subject: str, problem: str, remedy: str, reason: Reason
) -> None:
    error = DocumentError(subject, problem, remedy, reason=reason)
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is DocumentError
    assert str(copied) == str(error)
    assert (copied.subject, copied.problem, copied.remedy) == (error.subject, error.problem, error.remedy)
    assert copied.reason == reason


@pytest.mark.parametrize("kind", [ModelError, StoreError])
def test_every_error_of_colret_is_caught_as_one(kind: type[ColretError]) -> None:
    with pytest.raises(ColretError, match=r"^index: is damaged; make it anew$"):
        raise kind("index", "is damaged", "make it anew")


@pytest.mark.parametrize(
    ("values", "coding", "dim"),
    [
        (np.zeros((3, 4), np.float64), "float32", 4),
        (np.zeros((3, 4), np.float16), "float32", 4),
        (np.zeros((3, 4), np.int8), "int8", 5),
        (np.zeros((3, 4), np.uint8), "int4", 9),
        (np.zeros((3, 4), np.uint8), "binary", 0),
        (np.zeros(3, np.int8), "int8", 1),
    ],
)
def test_values_of_another_layout_are_refused(values: NDArray[np.int8], coding: Coding, dim: int) -> None:
    """They would be read past their end, or as other numbers."""
    with pytest.raises(ValueError, match="dimensions in"):
        Multivectors(values, np.array([0, 3]), np.ones(1, np.float32), coding, dim)


def test_offsets_are_whole_numbers() -> None:
    with pytest.raises(ValueError, match="int64"):
        Multivectors(rows(3), np.array([0.0, 3.0]), np.ones(1, np.float32))
