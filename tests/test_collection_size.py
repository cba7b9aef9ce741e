"""Collection size: the closed form against resampling and enumeration, the hardest distractors, errors."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colret_eval.collection_size import (
    Placement,
    extrapolated_success,
    half_size,
    placements,
    recall_curve,
    size_grid,
    success_curve,
)
from colret_eval.evaluation.sizes import _believable
from colret_eval.matrices import from_run, page_order, relevant_pages
from colret_eval.measures import Qrels, Run, evaluate, recall, success
from tests.toy import gallery

KEYS = [f"d{document}:{number}" for document in range(3) for number in range(1, 4)]
DOCUMENTS = {key: key.split(":")[0] for key in KEYS}


def placed_by(qrels: Qrels, run: Run, documents: dict[str, str]) -> list[Placement]:
    keys = page_order(documents)
    scores, relevant = from_run(run, list(qrels), keys), relevant_pages(qrels, list(qrels), keys)
    return placements(scores, relevant, [documents[key] for key in keys])


def resampled(qrels: Qrels, run: Run, size: int, k: int, n: int) -> tuple[float, float]:
    """Success@k and Recall@k averaged over n collections drawn for each query."""
    rng = np.random.default_rng(0)
    found = []
    for query_id, grades in qrels.items():
        distractors = [key for key in run[query_id] if not grades.get(key)]
        for _ in range(n):
            kept = {*grades, *rng.choice(distractors, size - len(grades), replace=False).tolist()}
            cut = {key: score for key, score in run[query_id].items() if key in kept}
            values = evaluate({query_id: grades}, {query_id: cut}, [success(k), recall(k)])
            found.append([float(value[0]) for value in values.values()])
    first, second = np.mean(found, axis=0)
    return float(first), float(second)


def simulated(n_queries: int, n_pages: int, n_relevant: int) -> tuple[Qrels, Run, dict[str, str]]:
    rng = np.random.default_rng(8)
    keys = [f"d{i % 5}:{i}" for i in range(n_pages)]
    qrels: Qrels = {}
    run: Run = {}
    for query in map("q{}".format, range(n_queries)):
        relevant = rng.choice(keys, n_relevant, replace=False).tolist()
        qrels[query] = dict.fromkeys(relevant, 1)
        run[query] = {key: float(rng.normal() + 1.5 * (key in relevant)) for key in keys}
    return qrels, run, {key: key.split(":")[0] for key in keys}


@pytest.mark.parametrize(("size", "k"), [(5, 1), (12, 3), (25, 5)])
def test_agrees_with_two_thousand_resamplings(size: int, k: int) -> None:
    """2,000 draws for each of 5 queries leave the mean a standard error of at most 0.005."""
    qrels, run, documents = simulated(5, 40, 2)
    placed = placed_by(qrels, run, documents)
    expected = resampled(qrels, run, size, k, 2000)
    assert success_curve(placed, [size], k).mean() == pytest.approx(expected[0], abs=0.01)
    assert recall_curve(placed, [size], k).mean() == pytest.approx(expected[1], abs=0.01)


@settings(max_examples=40, deadline=None)
@given(
    order=st.permutations(KEYS),
    relevant=st.sets(st.sampled_from(KEYS), min_size=1, max_size=3),
    size=st.integers(1, 9),
    k=st.integers(1, 4),
    n_returned=st.integers(0, 9),
    hardest=st.booleans(),
)
def test_is_the_mean_over_every_collection(
    order: list[str], relevant: set[str], size: int, k: int, n_returned: int, hardest: bool
) -> None:
    qrels = {"q": dict.fromkeys(sorted(relevant), 1)}
    run = {"q": {key: -float(rank) for rank, key in enumerate(order[:n_returned])}}
    homes = {DOCUMENTS[key] for key in relevant}
    distractors = [key for key in KEYS if key not in relevant]
    siblings = {key for key in distractors if DOCUMENTS[key] in homes}
    drawn = max(size - len(relevant), 0)
    collections = list(combinations(distractors, drawn))
    if hardest:  # as many siblings as fit
        collections = [c for c in collections if len(siblings & set(c)) == min(drawn, len(siblings))]
    values = []
    for chosen in collections:
        cut = {key: score for key, score in run["q"].items() if key in chosen or key in relevant}
        values.append([float(v[0]) for v in evaluate(qrels, {"q": cut}, [success(k), recall(k)]).values()])
    placed = placed_by(qrels, run, DOCUMENTS)
    expected = np.mean(values, axis=0)
    assert success_curve(placed, [size], k, hardest=hardest)[0, 0] == pytest.approx(expected[0])
    assert recall_curve(placed, [size], k, hardest=hardest)[0, 0] == pytest.approx(expected[1])


def test_ends_at_what_was_measured() -> None:
    qrels, run, documents = simulated(30, 60, 3)
    placed = placed_by(qrels, run, documents)
    measured = evaluate(qrels, run, [success(1), recall(10)])
    for hardest in (False, True):
        assert success_curve(placed, [60], 1, hardest=hardest)[0] == pytest.approx(measured["Success@1"])
        assert recall_curve(placed, [60], 10, hardest=hardest)[0] == pytest.approx(measured["Recall@10"])


def test_siblings_that_resemble_make_the_pessimistic_curve_lower() -> None:
    documents = {f"d{i % 10}:{i}": f"d{i % 10}" for i in range(100)}
    run = {"q": {key: float(document == "d3") + (key != "d3:3") for key, document in documents.items()}}
    placed = placed_by({"q": {"d3:3": 1}}, run, documents)
    sizes = [2, 5, 10, 100]
    assert success_curve(placed, sizes, 5, hardest=True)[:, 0] == pytest.approx([1.0, 1.0, 0.0, 0.0])
    assert success_curve(placed, sizes, 5)[:3, 0] == pytest.approx([1.0, 1.0, 0.092], abs=1e-3)


def test_published_sub_galleries_lie_on_the_curve() -> None:
    """The first 10 pairs leave their own gallery a standard error of 0.1, the first 100 one of 0.05."""
    images, texts = gallery(1000)
    scores = (texts @ images.T).astype(np.float32)
    own = [np.mean(scores[:n, :n].argmax(axis=1) == np.arange(n)) for n in (10, 100, 1000)]
    assert own == pytest.approx([0.900, 0.610, 0.380])
    placed = placements(scores, np.eye(1000, dtype=np.bool_), ["image"] * 1000)
    curve = success_curve(placed, [10, 100, 1000], 1).mean(axis=1)
    assert curve[:2] == pytest.approx(own[:2], abs=0.1)
    assert curve[2] == pytest.approx(own[2])


def test_half_size_is_where_the_curve_crosses_half() -> None:
    qrels, run, documents = simulated(40, 200, 1)
    placed = placed_by(qrels, run, documents)
    found = half_size(placed)
    assert (found.start, found.furthest, found.extrapolated) == (10, 200, False)
    assert found.size is not None
    before, at = success_curve(placed, [found.size - 1, found.size], 1).mean(axis=1)
    assert at <= found.at_start / 2 < before
    assert found.at_furthest == pytest.approx(success_curve(placed, [200], 1).mean())


def test_half_size_is_not_made_up_where_the_pages_are_too_few() -> None:
    qrels, run, documents = simulated(40, 200, 1)
    for query, grades in qrels.items():
        run[query].update(dict.fromkeys(grades, 9.0))
    assert half_size(placed_by(qrels, run, documents)) == (10, 1.0, None, False, 399, 1.0)


def test_half_size_of_a_collection_smaller_than_the_start() -> None:
    placed = placed_by({"q": {"d0:1": 1}}, {"q": {"d0:1": 1.0, "d0:2": 2.0}}, {"d0:1": "d0", "d0:2": "d0"})
    found = half_size(placed)
    assert (found.start, found.at_start, found.size) == (2, 0.0, None)


@pytest.mark.parametrize("n_ranked", [500, 700])
def test_extrapolation_is_right_on_average(n_ranked: int) -> None:
    """From galleries of 500 and 700 random images to the 1,000 that are there."""
    images, texts = gallery(1000)
    scores = (texts @ images.T).astype(np.float32)
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(40):
        chosen = rng.permutation(1000)[:n_ranked]
        rest = scores[np.ix_(chosen, chosen)]
        placed = placements(rest, np.eye(n_ranked, dtype=np.bool_), ["image"] * n_ranked)
        reach = min(1000, 2 * n_ranked - 1)
        estimates.append(extrapolated_success(placed, [n_ranked, reach]).mean(axis=1))
        assert estimates[-1][0] == pytest.approx(np.mean(rest.argmax(axis=1) == np.arange(n_ranked)))
    assert np.mean(estimates, axis=0)[1] == pytest.approx(0.38, abs=0.015)


def test_half_size_beyond_the_pages_says_so() -> None:
    """Success@1 falls from 0.38 among 1,000 to 0.199 in the published draw of 5,000: half of 0.61 lies between."""
    images, texts = gallery(1000)
    placed = placements((texts @ images.T).astype(np.float32), np.eye(1000, dtype=np.bool_), ["image"] * 1000)
    found = half_size(placed, start=100)
    assert found.extrapolated
    assert found.furthest == 1999
    assert found.size is not None
    assert 1000 < found.size < 1999
    assert extrapolated_success(placed, [found.size]).mean() <= found.at_start / 2


def test_a_hundred_thousand_pages_stay_exact() -> None:
    """One distractor above: found at 1 when it isn't drawn, with probability 1 - m / D."""
    relevant = np.zeros((1, 100_000), np.bool_)
    relevant[0, 1] = True
    placed = placements(-np.arange(100_000, dtype=np.float32)[None], relevant, ["d"] * 100_000)
    for size in (1_000, 50_000, 99_999):
        assert success_curve(placed, [size], 1)[0, 0] == pytest.approx(1 - (size - 1) / 99_999, abs=1e-6)


def test_size_grid() -> None:
    assert size_grid(635) == [10, 20, 50, 100, 200, 500, 635]
    assert size_grid(1000) == [10, 20, 50, 100, 200, 500, 1000]
    assert size_grid(7) == [7]


def test_errors() -> None:
    placed = placed_by({"q": {"d:1": 1}}, {"q": {"d:1": 1.0}}, {"d:1": "d", "d:2": "d"})
    with pytest.raises(ValueError, match="query 1 has no relevant page"):
        placed_by({"p": {"d:1": 1}, "q": {"d:1": 0}}, {}, {"d:1": "d"})
    with pytest.raises(ValueError, match="at least 1"):
        success_curve(placed, [1], 0)
    with pytest.raises(ValueError, match="between 1 and the 2 pages"):
        recall_curve(placed, [3], 1)
    for size in (1, 4):
        with pytest.raises(ValueError, match="between the 2 pages that were ranked and 3"):
            extrapolated_success(placed, [size])
    with pytest.raises(ValueError, match="no queries"):
        half_size([])


def test_an_extrapolation_is_a_share_that_never_rises_and_ends_where_it_says_nothing() -> None:
    at = [(0.5, 0.4, 0.6), (0.45, 0.2, 0.68), (0.47, 0.25, 0.7), (-0.1, -0.3, 0.1), (0.3, -0.9, 1.4), (0.2, 0.1, 0.3)]
    intervals = [{"mean": mean, "low": low, "high": high} for mean, low, high in at]
    found = _believable([20, 30, 40, 50, 60], intervals)
    assert found["sizes"] == [20, 30, 40]
    assert [(each["mean"], each["low"], each["high"]) for each in found["success"]] == [
        (0.45, 0.2, 0.68),
        (0.45, 0.25, 0.7),
        (0.0, 0.0, 0.1),
    ]
