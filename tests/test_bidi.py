"""Right-to-left lines in the order in which they are read."""
# ruff: noqa: RUF001 - letters of other scripts are the point

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret.bidi import is_right_to_left, logical_order, pair_brackets


def read(visual: str, *, right_to_left: bool = True) -> str:
    return "".join(visual[index] for index in logical_order(visual, right_to_left=right_to_left))


# What is displayed from left to right, capitals standing for Hebrew or Arabic letters.
HEBREW = str.maketrans("ABCDEFGH", "אבגדהוזח")
ARABIC = str.maketrans("ABCDEFGH", "ابتثجحخد")


@pytest.mark.parametrize(
    ("displayed", "typed"),
    [
        ("DCBA", "ABCD"),
        ("FED ,CBA", "ABC, DEF"),
        ("DC 1948 BA", "AB 1948 CD"),
        ("DC 1,250.50 BA", "AB 1,250.50 CD"),
        ("DC 22:05:15 BA", "AB 22:05:15 CD"),
        ("DC info@example.org BA", "AB info@example.org CD"),
        ("DC https://example.org/a-b?c=1 BA", "AB https://example.org/a-b?c=1 CD"),
        ("DC late interaction 2.0 BA", "AB late interaction 2.0 CD"),
        ("DC 3d BA", "AB 3d CD"),
        (".pdf", "pdf."),
        ("2025", "2025"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("script", [HEBREW, ARABIC])
def test_words_numbers_and_addresses(displayed: str, typed: str, script: dict[int, int]) -> None:
    assert read(displayed.translate(script)) == typed.translate(script)


def test_signs_of_numbers_follow_the_script() -> None:
    # Rules W4, W5 and W7: European numbers take signs in Hebrew, in Arabic they become Arabic numbers.
    assert read("02-555 75% ב") == "ב 75% 02-555"
    assert read("555-02 %75 ب") == "ب 75% 02-555"
    assert read("١٬٢٣٤ ب") == "ب ١٬٢٣٤"


def test_words_in_a_line_of_another_script_are_turned_in_their_place() -> None:
    assert read("see םולש or מ, 12 pages", right_to_left=False) == "see שלום or מ, 12 pages"
    assert read("see לארשי ,םולש or", right_to_left=False) == "see שלום, ישראל or"


@given(
    words=st.lists(st.text("אבגדה", min_size=1, max_size=4) | st.text("0123456789", min_size=1, max_size=4), max_size=6)
)
def test_reading_from_the_right_gives_back_what_was_typed(words: list[str]) -> None:
    displayed = " ".join(word if word.isdecimal() else word[::-1] for word in reversed(words))
    assert read(displayed) == " ".join(words)


@given(line=st.text("אבب1٢ab(),.-% "), right_to_left=st.booleans())
def test_every_glyph_is_read_once(line: str, right_to_left: bool) -> None:
    assert sorted(logical_order(line, right_to_left=right_to_left)) == list(range(len(line)))


@pytest.mark.parametrize(
    ("line", "paired"),
    [
        ("א )ב(", "א (ב)"),
        ("א (ב) [ג]", "א (ב) [ג]"),
        ("א )ב) ]ג[", "א (ב) [ג]"),
        ("f(x) א", "f(x) א"),
        ("((א) ב)", "((א) ב)"),
        ("א) ב", "א) ב"),
        ("א«ב»", "א«ב»"),
    ],
)
def test_brackets_open_before_they_close(line: str, paired: str) -> None:
    assert pair_brackets(line) == paired


def test_what_reads_from_right_to_left() -> None:
    assert is_right_to_left("שלום")
    assert is_right_to_left("كلمة PDF")
    assert not is_right_to_left("the word שלום")
    assert is_right_to_left("the word שלום", 0.3)
    assert not is_right_to_left("12 + 3")
    assert not is_right_to_left("")
