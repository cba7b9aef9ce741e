"""Search terms: identifiers whole and in parts, scripts without spaces, and phrases that pages hold."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from colret.bm25 import joined
from colret.terms import (
    LONGEST,
    page_terms,
    query_terms,
    sequence_terms,
    stem,
    terms_by_word,
    word_sequence,
)


@pytest.mark.parametrize(
    ("word", "terms"),
    [
        ("sshd_config", {"sshd", "config", "sshd_config", "sshdconfig"}),
        ("--no-clobber,", {"clobber", "no-clobber", "noclobber"}),
        ("RFC2119", {"rfc", "2119", "rfc2119"}),
        ("800-53", {"800", "53", "800-53", "80053"}),
        ("(AB-1234/5)", {"ab", "1234", "5", "ab-1234/5", "ab12345"}),
        ("1.2.3", {"1", "2", "3", "1.2.3", "123"}),
        ("jane.doe@example.org", {"jane", "doe", "example", "org", "jane.doe@example.org", "janedoeexampleorg"}),
        ("CamelCaseXMLName", {"camel", "case", "xml", "name", "camelcasexmlname"}),
        ("multi-heads", {"multi", "head", "multi-heads", "multihead"}),
        ("C++", {"c", "c++"}),
        ("naïve", {"naive"}),
        ("STRASSE", {"strasse"}),
        ("straße", {"strasse"}),
        ("policies", {"policy"}),
        ("employee\u2019s", {"employee"}),
        ("The", set()),
        ("…", set()),
        ("日本語", {"日本", "本語"}),
        ("日", {"日"}),
        ("AB-12型番", {"ab", "12", "ab-12", "ab12", "型番"}),
        ("\uff21\uff22\uff11\uff12", {"ab", "12", "ab12"}),
        ("हिन्दी", {"हिन्दी"}),
        ("เอกสาร", {"เอ", "อก", "กส", "สา", "าร"}),
    ],
)
def test_a_word_gives_these_terms(word: str, terms: set[str]) -> None:
    assert set(query_terms(word)) == terms
    assert terms <= set(page_terms(word).terms)


def test_single_characters_of_a_page_can_be_asked_for() -> None:
    assert set(query_terms("語")) <= set(page_terms("日本語").terms)
    assert "語" not in query_terms("日本語")


def test_pages_keep_han_letters_apart_and_queries_do_not() -> None:
    assert sorted(page_terms("日 本 語。 次").terms) == sorted(page_terms("日本語。次").terms)


def test_more_terms_of_a_word_make_no_page_longer() -> None:
    assert page_terms("the sshd_config file").length == 3
    assert page_terms("日 本 語").length == page_terms("日本語").length == 3


@pytest.mark.parametrize(
    ("plural", "singular"),
    [("queries", "query"), ("pages", "page"), ("class", "class"), ("status", "status"), ("ties", "ties"), ("is", "is")],
)
def test_plurals(plural: str, singular: str) -> None:
    assert stem(plural) == singular


@given(st.text())
@example("\u0085\x1c \u3000a\u00a0b")
@example("ß" * 200)
def test_terms_are_bounded_and_free_of_spaces(text: str) -> None:
    terms = [*page_terms(text).terms, *query_terms(text)]
    assert all(term and len(term) <= 2 * LONGEST and term.split() == [term] for term in terms)
    assert joined(terms).split() == sorted(terms)


@given(st.text())
def test_a_page_of_the_querys_own_words_has_all_its_terms(text: str) -> None:
    assert set(query_terms(text)) <= set(page_terms(text).terms)


WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["CamelCase-x", "U.S.", "v1.2.3", "James's", "O'Brien", "RFC2119", "net-zero", "日", "本語。", "x²"]
        ),
        st.text(min_size=1, max_size=8),
    ),
    max_size=8,
)


@given(before=WORDS, phrase=WORDS, after=WORDS)
def test_a_page_with_a_phrase_has_its_sequence_and_its_terms(
    before: list[str], phrase: list[str], after: list[str]
) -> None:
    page = " ".join([*before, *phrase, *after])
    sequence = word_sequence(" ".join(phrase))
    assert sequence.strip() in word_sequence(page)
    assert set(sequence_terms(sequence)) <= set(page_terms(page).terms)


@pytest.mark.parametrize(
    ("phrase", "page", "held"),
    [
        ("net zero", "Net-zero targets", True),
        ("net zero", "the net is zero", False),
        ("net zero", "cabinet zero", False),
        ("ISO 27001", "(ISO 27001)", True),
        ("zero", "zeros", False),
        ("日本", "日 本 語", True),
        ("café", "CAFE,", True),
    ],
)
def test_phrases_are_words_in_a_row(phrase: str, page: str, held: bool) -> None:
    assert (word_sequence(phrase) in word_sequence(page)) == held


@given(
    words=st.lists(
        st.sampled_from(["人", "权", "の", "自由", "カメラ", "由。", "(人", "fish", "日本PDF", "한국", "ก"]), max_size=8
    )
)
@example(words=["人", "权"])
def test_the_words_of_a_page_have_its_terms(words: list[str]) -> None:
    found = terms_by_word(words)
    assert len(found) == len(words)
    assert set().union(*found) == set(page_terms(" ".join(words)).terms)
