"""Labels that are off by a constant are told from those that are right, by words alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from colret_eval.label_shift import LEVEL, Labelled, PagedText, find_shifts

N_PAGES, N_WORDS = 60, 30


def paged(rng: np.random.Generator, front: int = 0) -> PagedText:
    """Pages of words, some of which the next page has too; ``front`` pages are not counted in print."""
    words = [{f"w{i}" for i in rng.zipf(1.3, N_WORDS) if i < 10**6} for _ in range(N_PAGES)]
    pages = [own | set(list(before)[:5]) for own, before in zip(words, [set[str](), *words[:-1]], strict=True)]
    return PagedText(pages, [""] * front + [str(i) for i in range(1, N_PAGES - front + 1)])


def labels(
    rng: np.random.Generator, name: str, text: PagedText, n: int, say: Callable[[int], int], first: int = 2
) -> list[Labelled]:
    """Queries of four words from a page; the label names ``say(page)``."""
    made = []
    for page in rng.integers(first, N_PAGES - 4, n):
        query = " ".join(rng.permutation(sorted(text.words[page - 1]))[:4])
        made.append(Labelled(query, name, (say(int(page)),)))
    return made


@pytest.mark.parametrize("step", [1, -1, 2])
def test_a_planted_shift_of_the_set_is_found(step: int) -> None:
    rng = np.random.default_rng(step + 5)
    documents = {name: paged(rng) for name in "ab"}
    said = [label for name in "ab" for label in labels(rng, name, documents[name], 20, lambda page: page - step, 4)]
    [shift] = find_shifts(said, documents)
    assert (shift.document, shift.step) == (None, step)
    assert shift.chance < LEVEL
    assert 20 < shift.n_better <= shift.n_groups <= 40


def test_front_matter_of_one_document_is_found_in_that_document() -> None:
    rng = np.random.default_rng(3)
    documents = {"front": PagedText(paged(rng).words, [""] * N_PAGES), "right": paged(rng)}
    said = labels(rng, "front", documents["front"], 40, lambda page: page - 12, 13)
    said += labels(rng, "right", documents["right"], 40, lambda page: page)
    assert [(shift.document, shift.step) for shift in find_shifts(said, documents)] == [("front", 12)]


def test_printed_numbers_are_read_from_the_page_labels() -> None:
    """Each document has front matter of its own length, so no step fits the set."""
    rng = np.random.default_rng(4)
    fronts = {"a": 4, "b": 7, "c": 11}
    documents = {name: paged(rng, front) for name, front in fronts.items()}
    said = [
        label
        for name, front in fronts.items()
        for label in labels(rng, name, documents[name], 10, lambda page, front=front: page - front, 12)  # type: ignore[misc]
    ]
    [shift] = find_shifts(said, documents)
    assert (shift.document, shift.step) == (None, None)


def test_right_labels_and_labels_at_random_have_no_shift() -> None:
    rng = np.random.default_rng(5)
    n_found = {"right": 0, "random": 0}
    for _ in range(40):
        documents = {name: paged(rng, 3) for name in "ab"}
        for kind in n_found:
            say = (lambda page: page) if kind == "right" else (lambda _: int(rng.integers(1, N_PAGES)))
            said = [label for name in "ab" for label in labels(rng, name, documents[name], 25, say)]
            n_found[kind] += len(find_shifts(said, documents))
    assert n_found["right"] == 0
    assert n_found["random"] <= 2


def test_few_queries_prove_nothing_and_documents_without_text_add_nothing() -> None:
    rng = np.random.default_rng(6)
    documents = {"a": paged(rng)}
    said = labels(rng, "a", documents["a"], 5, lambda page: page - 1)
    assert find_shifts(said, documents) == []
    assert find_shifts([Labelled("anything", "scan", (1,))] * 50, documents) == []
    assert find_shifts([], {}) == []


def test_many_queries_about_one_page_are_one_case() -> None:
    """Their evidence is of one page only: it is not multiplied."""
    pages = PagedText([{"a"}, {"b"}, {"c"}], ["", "", ""])
    assert find_shifts([Labelled("b", "x", (1,))] * 100, {"x": pages}) == []
