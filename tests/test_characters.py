"""What a word keeps of the characters of a text layer."""
# ruff: noqa: RUF001 - letters of other scripts are the point

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret.characters import running_text, spaces_before, split_at_ideographs, visible_word


@pytest.mark.parametrize(
    ("run", "word"),
    [
        ("\ufb01nd", "find"),
        ("e\ufb00ort", "effort"),
        ("\ufee3\ufead\ufea3\ufe92\ufe8e", "مرحبا"),
        ("\ufef9\ufee5", "لإن"),
        ("\ufb2aלום", "שׁלום"),
        ("\ufe76", "\u064e"),
        ("cafe\u0301", "café"),
        ("x²", "x²"),
        ("H₂O", "H₂O"),
        ("№5", "№5"),
        ("½", "½"),
        ("\ufdfa", "\ufdfa"),
        ("ＡＢＣ", "ＡＢＣ"),
    ],
)
def test_shapes_become_letters_and_nothing_else_changes(run: str, word: str) -> None:
    assert visible_word(run) == word


@given(run=st.text(st.characters(codec="utf-16-le", categories=["L", "M", "N", "P", "S", "C"])))
def test_a_word_is_valid_normal_and_stays_what_it_is(run: str) -> None:
    units = run.encode("utf-16-le", "surrogatepass")
    word = visible_word("".join(chr(int.from_bytes(units[i : i + 2], "little")) for i in range(0, len(units), 2)))
    assert word.encode().decode() == word
    assert unicodedata.is_normalized("NFC", word)


@pytest.mark.parametrize(
    ("units", "words"),
    [
        ("人人生而自由", ["人", "人", "生", "而", "自", "由"]),
        ("自由，在「尊严」上。", ["自", "由，", "在", "「尊", "严」", "上。"]),
        ("1948年、AB-1234です", ["1948", "年、", "AB-1234", "で", "す"]),
        ("コンピュータの電源", ["コンピュータ", "の", "電", "源"]),
        ("가격은 얼마", ["가격은", "얼마"]),
        ("plain text", ["plain", "text"]),
        ("\ud840\udc0b人", ["\ud840\udc0b", "人"]),
        ("", []),
    ],
)
def test_letters_of_scripts_without_spaces_are_words(units: str, words: list[str]) -> None:
    assert split_at_ideographs(units) == words


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["人", "人", "生", "而", "自由。", "他"], "人人生而自由。他"),
        (["カメラ", "の", "値段"], "カメラの値段"),
        (["他", "说", "“你", "好”", "（注）", "了"], "他说“你好”（注）了"),
        (["第", "3", "章", "2023", "年"], "第3章2023年"),
        (["使", "用", "PDF", "文", "件"], "使用 PDF 文件"),
        (["모든", "인간은", "人"], "모든 인간은 人"),
        (["ทุกคน", "เกิดมา"], "ทุกคน เกิดมา"),  # Thai has spaces between phrases
        (["all", "human", "beings", "1", "2"], "all human beings 1 2"),
        (["\U00020000", "\U00020001"], "\U00020000\U00020001"),
        ([], ""),
    ],
)
def test_words_are_written_with_the_spaces_of_their_script(words: list[str], written: str) -> None:
    assert running_text(words) == written
    assert len(spaces_before(words)) == len(words)
