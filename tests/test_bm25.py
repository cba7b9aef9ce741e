"""BM25: tokens, a hand-checked order, equality with the formula in loops, edge cases."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colret_eval.bm25 import K1, B, bm25_run, tokenize
from colret_eval.measures import ranked

PAGES = {
    "d:1": "Revenues by segment",
    "d:2": "Employees, and the segments they work in; segments again",
    "d:3": "Blank in all but name",
}
words = st.sampled_from(["revenue", "profit", "loss", "tax", "cash", "staff"])
texts = st.lists(words, max_size=12).map(" ".join)


def test_tokens_are_lower_cased_stems() -> None:
    assert tokenize("Revenues, SEGMENTED; re-used in 2023") == [
        "revenu",
        "segment",
        "re",
        "use",
        "in",
        "2023",
    ]


def test_words_match_by_their_stems() -> None:
    run = bm25_run(PAGES, {"q": "segmented revenue", "p": "blanks"}, k=10)
    assert ranked(run["q"]) == ["d:1", "d:2"]
    assert ranked(run["p"]) == ["d:3"]


def test_ties_rank_as_the_measures_rank_them() -> None:
    pages = {f"d:{number}": "the same words" for number in (1, 3, 2)} | {"d:4": "others entirely here"}
    run = bm25_run(pages, {"q": "same"}, k=2)
    assert list(run["q"]) == ["d:3", "d:2"] == ranked(run["q"])


def test_what_shares_no_word_is_not_returned() -> None:
    assert bm25_run(PAGES, {"q": "zebra", "p": "!?", "r": ""}, k=5) == {"q": {}, "p": {}, "r": {}}


@pytest.mark.parametrize("pages", [{}, {"d:1": "", "d:2": "..."}])
def test_a_corpus_without_words_returns_nothing(pages: dict[str, str]) -> None:
    assert bm25_run(pages, {"q": "revenue"}, k=5) == {"q": {}}


def naive_scores(pages: dict[str, str], query: str) -> dict[str, float]:
    """Lucene's BM25, term by term."""
    counts = {key: Counter(tokenize(text)) for key, text in pages.items()}
    mean_length = sum(sum(count.values()) for count in counts.values()) / len(pages)
    scores = {}
    for key, count in counts.items():
        score = 0.0
        for token in tokenize(query):
            n_with = sum(token in other for other in counts.values())
            idf = math.log(1 + (len(pages) - n_with + 0.5) / (n_with + 0.5))
            length = sum(count.values()) / mean_length
            score += idf * count[token] / (count[token] + K1 * (1 - B + B * length)) if count[token] else 0.0
        if score:
            scores[key] = score
    return scores


@settings(max_examples=60, deadline=None)
@given(contents=st.lists(texts, min_size=1, max_size=6), query=texts)
def test_scores_equal_the_formula(contents: list[str], query: str) -> None:
    pages = {f"d:{number}": text for number, text in enumerate(contents, start=1)}
    if not any(contents):
        return
    assert bm25_run(pages, {"q": query}, k=10)["q"] == pytest.approx(naive_scores(pages, query), rel=1e-5)


def test_errors() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        bm25_run(PAGES, {"q": "revenue"}, k=0)
