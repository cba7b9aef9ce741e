"""Measures: published and hand-computed cases, another implementation, naive loops, errors."""

from __future__ import annotations

import math
from itertools import permutations

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret_eval.measures import (
    STANDARD,
    Measure,
    Qrels,
    Run,
    average_precision,
    best_ranks,
    evaluate,
    ndcg,
    random_baseline,
    ranked,
    recall,
    reciprocal_rank,
    success,
)
from colret_eval.stages import kept

MEASURES = [
    success(1),
    success(3),
    recall(2),
    recall(5),
    reciprocal_rank(3),
    ndcg(2),
    ndcg(10),
    average_precision(),
]
PAGES = [f"d:{number}" for number in range(1, 7)]
grades = st.dictionaries(st.sampled_from(PAGES), st.integers(0, 3), min_size=1)
scores = st.dictionaries(st.sampled_from(PAGES), st.integers(-2, 2).map(float))


def value(measure: Measure, judgements: dict[str, int], results: dict[str, float]) -> float:
    return float(evaluate({"q": judgements}, {"q": results}, [measure])[measure.name][0])


def in_order(*keys: str) -> dict[str, float]:
    return {key: float(-rank) for rank, key in enumerate(keys)}


def ranks_as_run(ranks: list[int]) -> tuple[Qrels, Run]:
    """A run that puts the one relevant page of each query at the given rank."""
    qrels = {f"q{i}": {"right": 1} for i in range(len(ranks))}
    run = {f"q{i}": in_order(*(f"wrong{j}" for j in range(1, rank)), "right") for i, rank in enumerate(ranks)}
    return qrels, run


def test_values_are_float64_per_query_in_the_order_of_the_qrels() -> None:
    qrels, run = ranks_as_run([3, 1])
    values = evaluate(qrels, dict(reversed(run.items())), [reciprocal_rank(10)])["MRR@10"]
    assert values.dtype == np.float64
    assert values.tolist() == [1 / 3, 1.0]


def test_published_toy_ranks() -> None:
    qrels, run = ranks_as_run([1, 1, 2, 1, 8, 3, 1, 12, 1, 4])
    values = evaluate(qrels, run, [success(1), success(5), recall(5), reciprocal_rank(10)])
    assert values["Success@1"].mean() == pytest.approx(0.5)
    assert values["Success@5"].mean() == pytest.approx(0.8)
    assert values["Recall@5"].tolist() == values["Success@5"].tolist()
    assert values["MRR@10"].mean() == pytest.approx((5 + 1 / 2 + 1 / 8 + 1 / 3 + 1 / 4) / 10)
    assert best_ranks(qrels, run).tolist() == [1, 1, 2, 1, 8, 3, 1, 12, 1, 4]


def test_hand_computed_graded_query() -> None:
    judgements = {"a": 2, "b": 1, "c": 3, "d": 0}
    results = in_order("d", "a", "b", "x")
    dcg = 2 / math.log2(3) + 1 / math.log2(4)
    assert value(ndcg(10), judgements, results) == pytest.approx(dcg / (3 + 2 / math.log2(3) + 1 / 2))
    assert value(ndcg(2), judgements, results) == pytest.approx(2 / math.log2(3) / (3 + 2 / math.log2(3)))
    assert value(recall(2), judgements, results) == pytest.approx(1 / 3)
    assert value(success(1), judgements, results) == 0.0
    assert value(success(2), judgements, results) == 1.0
    assert value(average_precision(), judgements, results) == pytest.approx((1 / 2 + 2 / 3) / 3)


def test_tied_scores_rank_by_descending_key() -> None:
    assert ranked({"d:1": 1.0, "d:3": 1.0, "d:2": 2.0}) == ["d:2", "d:3", "d:1"]
    assert value(success(1), {"d:1": 1}, {"d:1": 1.0, "d:2": 1.0}) == 0.0
    assert value(success(1), {"d:2": 1}, {"d:1": 1.0, "d:2": 1.0}) == 1.0


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_query_without_results_counts_as_zero(measure: Measure) -> None:
    values = evaluate({"q1": {"a": 1}, "q2": {"a": 1}}, {"q2": {"a": 1.0}}, [measure])[measure.name]
    assert values.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_query_without_relevant_pages_is_zero(measure: Measure) -> None:
    qrels = {"q": {"a": 0, "b": -1}}
    assert value(measure, qrels["q"], {"a": 1.0, "b": 2.0}) == 0.0
    assert random_baseline(qrels, [measure], 5)[measure.name].tolist() == [0.0]


def test_queries_only_in_the_run_are_ignored() -> None:
    assert len(evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}, "p": {"b": 1.0}}, [success(1)])["Success@1"]) == 1


def test_best_rank_of_what_was_not_returned_is_infinite() -> None:
    assert best_ranks({"q": {"a": 1}, "p": {"a": 1}}, {"q": {"b": 1.0}}).tolist() == [math.inf, math.inf]


def random_run(rng: np.random.Generator) -> tuple[Qrels, Run]:
    """Graded judgements and scores with many ties; some queries and pages are missing."""
    pages = [f"doc{doc}:{number}" for doc in range(4) for number in range(1, 13)]
    qrels: Qrels = {}
    run: Run = {}
    for query in map("q{}".format, range(25)):
        judged = rng.choice(pages, int(rng.integers(1, 9)), replace=False).tolist()
        qrels[query] = {page: int(rng.integers(0, 4)) for page in judged}
        if rng.random() < 0.8:
            returned = rng.choice(pages, int(rng.integers(1, len(pages))), replace=False).tolist()
            run[query] = {page: float(rng.integers(0, 6)) for page in returned}
    return qrels, run


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("measure", "theirs"),
    [
        (ndcg(5), "nDCG@5"),
        (ndcg(10), "nDCG@10"),
        (recall(1), "R@1"),
        (recall(5), "R@5"),
        (recall(10), "R@10"),
        (success(1), "Success@1"),
        (success(5), "Success@5"),
        (success(10), "Success@10"),
        (reciprocal_rank(1000), "RR"),
        (average_precision(), "AP"),
    ],
    ids=lambda value: value.name if isinstance(value, Measure) else value,
)
def test_agrees_with_trec_eval(seed: int, measure: Measure, theirs: str) -> None:
    """The pytrec_eval provider of ir_measures runs trec_eval itself."""
    qrels, run = random_run(np.random.default_rng(seed))
    expected = ir_measures.pytrec_eval.calc([ir_measures.parse_measure(theirs)], qrels, run)
    by_query = {metric.query_id: metric.value for metric in expected.per_query}
    ours = evaluate(qrels, run, [measure])[measure.name]
    assert ours == pytest.approx([by_query.get(query, 0.0) for query in qrels], abs=1e-6)
    assert ours.mean() == pytest.approx(next(iter(expected.aggregated.values())), abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_cut_reciprocal_rank_agrees_with_trec_eval(seed: int) -> None:
    """trec_eval has no cutoff for it: what it finds below rank 10 is worth less than a tenth."""
    qrels, run = random_run(np.random.default_rng(seed))
    theirs = {m.query_id: m.value for m in ir_measures.pytrec_eval.iter_calc([ir_measures.RR], qrels, run)}
    expected = [theirs.get(query, 0.0) if theirs.get(query, 0.0) > 0.0999 else 0.0 for query in qrels]
    ours = evaluate(qrels, run, [reciprocal_rank(10)])["MRR@10"]
    assert any(0 < value < 0.0999 for value in theirs.values())
    assert ours == pytest.approx(expected, abs=1e-6)


def test_standard_measures_are_those_of_the_report() -> None:
    assert [measure.name for measure in STANDARD] == [
        *("Recall@1", "Recall@5", "Recall@10", "Success@1", "Success@5", "Success@10"),
        *("nDCG@5", "nDCG@10", "MRR@10", "mAP"),
    ]


@given(judgements=grades, results=scores, k=st.integers(1, 8))
def test_equals_a_naive_loop(judgements: dict[str, int], results: dict[str, float], k: int) -> None:
    order = sorted(sorted(results, reverse=True), key=lambda key: -results[key])
    relevant = [key for key in judgements if judgements[key] > 0]
    hits = gain = reciprocal = ideal = 0.0
    for rank, key in enumerate(order[:k], start=1):
        if key in relevant:
            reciprocal = reciprocal or 1 / rank
            hits += 1
            gain += judgements[key] / math.log2(rank + 1)
    for rank, key in enumerate(sorted(relevant, key=lambda key: -judgements[key])[:k], start=1):
        ideal += judgements[key] / math.log2(rank + 1)
    assert value(recall(k), judgements, results) == pytest.approx(hits / len(relevant) if relevant else 0)
    assert value(success(k), judgements, results) == (hits > 0)
    assert value(reciprocal_rank(k), judgements, results) == pytest.approx(reciprocal)
    assert value(ndcg(k), judgements, results) == pytest.approx(gain / ideal if ideal else 0)


@pytest.mark.parametrize("judgements", [{"d:1": 1}, {"d:1": 2, "d:4": 1}, {"d:2": 1, "d:3": 3, "d:5": 1}])
@pytest.mark.parametrize(
    "measure", [*MEASURES, success(9), recall(9), reciprocal_rank(9)], ids=lambda measure: measure.name
)
def test_random_baseline_is_the_mean_over_all_orders(measure: Measure, judgements: dict[str, int]) -> None:
    for missing in ([], ["d:2"], ["d:1", "d:3"], list(judgements)):  # labelled, but in no collection
        pages = [page for page in PAGES[:5] if page not in missing]
        every_order = [value(measure, judgements, in_order(*order)) for order in permutations(pages)]
        chance = random_baseline({"q": judgements}, [measure], len(pages), missing)[measure.name]
        assert chance == pytest.approx(np.mean(every_order))


def test_random_baseline_of_one_relevant_page_is_k_over_n() -> None:
    chance = random_baseline({"q": {"a": 1}}, [success(5), recall(5)], 300)
    assert chance["Success@5"] == pytest.approx(5 / 300)
    assert chance["Recall@5"] == pytest.approx(5 / 300)


@given(exact=st.permutations(PAGES), other=st.permutations(PAGES), k=st.integers(1, 8), within=st.integers(1, 8))
def test_kept_equals_a_naive_loop(exact: list[str], other: list[str], k: int, within: int) -> None:
    found = 0
    for page in exact[:k]:
        found += page in other[:within]
    assert kept({"q": exact}, {"q": other}, k, within=within) == pytest.approx(found / min(k, 6))


def test_kept_by_default_compares_the_two_top_k() -> None:
    exact, other = {"q": ["a", "b", "c"], "p": ["a", "b"]}, {"q": ["b", "d", "a"]}
    assert kept(exact, other, 2).tolist() == [0.5, 0.0]
    assert kept(exact, other, 2, within=3).tolist() == [1.0, 0.0]


def test_errors() -> None:
    for factory in (success, recall, reciprocal_rank, ndcg):
        with pytest.raises(ValueError, match="at least 1"):
            factory(0)
    with pytest.raises(ValueError, match="not a number"):
        ranked({"a": math.nan})
    with pytest.raises(ValueError, match="more relevant pages than"):
        random_baseline({"q": {"a": 1, "b": 1}}, [success(1)], 1)
    with pytest.raises(ValueError, match="query q has an empty exact ranking"):
        kept({"q": []}, {"q": ["a"]}, 1)
    with pytest.raises(ValueError, match="at least 1"):
        kept({"q": ["a"]}, {"q": ["a"]}, 0)
