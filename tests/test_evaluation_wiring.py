"""The analyses of an evaluation on planted matrices and pages, each figure against its exact value.

The encoder is a table of random vectors, so that everything is planted and nothing is left to a model; the
index, its prefilter and the analyses are real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from colret.grouping import grouped_folds
from colret.logistic import cross_fitted_probability
from colret.prefilter import DEFAULT_PREFILTER
from colret.scoring import normalize_rows
from colret.search import DEFAULT_CANDIDATES, rank
from colret.settings import settings_for
from colret.types import EncoderInfo, Float32, Page, PageEmbedding, PageRef, QueryEmbedding, Words
from colret_eval.datasets import Dataset
from colret_eval.evaluation.comparison import Judge, run_of, values_of
from colret_eval.evaluation.corpus import Corpus, open_corpus
from colret_eval.evaluation.duplicates import leakage, page_groups, split_groups
from colret_eval.evaluation.floors import FOLDS as FLOOR_FOLDS
from colret_eval.evaluation.floors import score_floors
from colret_eval.evaluation.hubs import FOLDS, hubs
from colret_eval.evaluation.losses import stage_losses
from colret_eval.evaluation.recorder import RecordingEncoder
from colret_eval.evaluation.sizes import both_directions, collection_sizes
from colret_eval.evaluation.systems import BM25, FLOAT32, MEAN, REFERENCE, stored_scores
from colret_eval.hubness import CORRECTIONS, Fit
from colret_eval.matrices import to_run
from colret_eval.measures import Float64, Int64, evaluate, ndcg
from colret_eval.score_floor import COMBINATION, background_pages, signals, without_answers
from colret_eval.statistics import auroc

DIM, N_VECTORS, N_TOKENS = 32, 6, 2
N_DOCUMENTS, N_NUMBERS, N_TWINS, N_AHEAD = 30, 5, 4, 2
N_PAGES = N_DOCUMENTS * N_NUMBERS + N_TWINS
N_QUERIES, FIRST_LOST = 60, 50
"""Queries from the 50th on have nothing to do with their pages: no model finds these but by luck."""


def unit(vectors: Float64) -> Float32:
    return normalize_rows(vectors.astype(np.float32))


@dataclass(frozen=True)
class TableEncoder:
    """Vectors by text."""

    pages: Mapping[str, Float32]
    queries: Mapping[str, Float32]

    @property
    def info(self) -> EncoderInfo:
        """What an index must know."""
        return EncoderInfo("table", "table", "1", DIM, "{}", "words", 0)

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Look pages up by their words."""
        return [PageEmbedding(self.pages[page.words.text], np.zeros((N_VECTORS, 4), np.uint16)) for page in pages]

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Look queries up by their texts."""
        return [QueryEmbedding(self.queries[text], ("t",) * len(self.queries[text]), text) for text in texts]


@dataclass(frozen=True)
class TextPages:
    """A document whose pages are one word each."""

    words: Sequence[str]

    @property
    def numbers(self) -> range:
        """From 1."""
        return range(1, len(self.words) + 1)

    def read_page(self, number: int, *, ref: PageRef, pixels: int, ocr: bool) -> Page:
        """Return a page of one word, whose image is no other's."""
        word = self.words[number - 1]
        image_hash = int(np.random.default_rng(list(word.encode())).integers(2**62))
        return Page(ref, 600, 800, Words((word,), np.zeros((1, 4), np.uint16)), None, image_hash)


class Planted(NamedTuple):
    """The set in its index, and what all analyses begin with."""

    corpus: Corpus
    queries: list[QueryEmbedding]
    scores: Float32  # (Q, N) of the stored vectors
    groups: Int64  # (N,) of near-duplicate pages
    groupings: dict[str, Int64]
    split: Int64  # (Q,)
    judge: Judge


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Thirty documents of five pages, two queries about each, and a document ``twins`` of copies of other pages.

    The copies have the vectors of the first pages of documents 0 to 3, in other words, and keys that win ties;
    those of documents 2 and 3 are not quite alike, and lose to their originals.
    Query 58 asks in other letters what query 3 asks; query 59 is about the copy of the first page of document 3.
    """
    rng = np.random.default_rng(3)
    documents = {f"d{d:02}": [f"word{d:02}x{n}" for n in range(N_NUMBERS)] for d in range(N_DOCUMENTS)}
    vectors = {word: unit(rng.normal(size=(N_VECTORS, DIM))) for words in documents.values() for word in words}
    documents["twins"] = [f"twin{d}" for d in range(N_TWINS)]
    for d in range(N_TWINS):
        vectors[f"twin{d}"] = unit(vectors[f"word{d:02}x0"] + rng.normal(size=(N_VECTORS, DIM)) * 0.03 * (d >= N_AHEAD))
    labels = [(f"d{query // 2:02}", query % 2 + 1) for query in range(N_QUERIES - 1)] + [("twins", 4)]
    texts = {f"q{query:02}": f"question {query}" for query in range(N_QUERIES)} | {"q58": "Question 3?"}
    asked = {}
    for query, ((name, number), text) in enumerate(zip(labels, texts.values(), strict=True)):
        noise = rng.normal(size=(N_TOKENS, DIM))
        clear = query < FIRST_LOST
        asked[text] = unit(vectors[documents[name][number - 1]][:N_TOKENS] * clear + noise * (0.05 if clear else 1))
    dataset = Dataset(
        name="planted",
        folder=tmp_path_factory.mktemp("planted"),
        queries=texts,
        qrels={query: {f"{name}:{number}": 1} for query, (name, number) in zip(texts, labels, strict=True)},
        documents={},
        sources={query: name for query, (name, _) in zip(texts, labels, strict=True)},
        page_documents={name: TextPages(words) for name, words in documents.items()},
    )
    recorder = RecordingEncoder(TableEncoder(vectors, asked), list(texts.values()))
    corpus, _ = open_corpus(dataset, dataset.folder / "index", settings_for(recorder.info, "int8"), recorder)
    queries = recorder.queries(corpus.texts)
    groups, groupings = page_groups(corpus)
    split = split_groups(corpus, groups)
    return Planted(corpus, queries, stored_scores(corpus, queries), groups, groupings, split, Judge(corpus.sources))


def columns(corpus: Corpus) -> list[int]:
    """The column of each query's one relevant page."""
    found: list[int] = corpus.relevant.argmax(axis=1).tolist()
    return found


def ndcg_of(corpus: Corpus, scores: Float32) -> float:
    run = to_run(scores, corpus.query_ids, corpus.keys, 10)
    return float(evaluate(corpus.qrels, run, [ndcg(10)])["nDCG@10"].mean())


def test_merging_wins_exactly_the_queries_whose_twin_is_ahead(planted: Planted) -> None:
    corpus = planted.corpus
    values = {REFERENCE: values_of(corpus.qrels, run_of(corpus, planted.scores))}
    matrices = {REFERENCE: planted.scores}
    found = leakage(corpus, matrices, values, planted.groups, planted.groupings, planted.split, planted.judge)
    assert (found["n_groups"], found["n_pages_in_groups"]) == (N_TWINS, 2 * N_TWINS)
    assert all(group["how"] == ["vectors alike"] for group in found["groups"])
    [row] = found["systems"]
    success = row["measures"]["Success@1"]
    assert success["with"]["mean"] == pytest.approx((FIRST_LOST - N_AHEAD) / N_QUERIES)
    assert success["without"]["mean"] == pytest.approx(FIRST_LOST / N_QUERIES)
    assert success["difference"]["mean"] == pytest.approx(N_AHEAD / N_QUERIES)
    assert found["n_repeated_queries"] == 1


def test_queries_of_a_document_a_twin_or_one_text_stay_together(planted: Planted) -> None:
    expected = [{2 * d, 2 * d + 1} for d in range(N_DOCUMENTS - 1)]
    expected[1].add(58)  # asks what query 3 asks
    expected[3].add(59)  # about the twin of the page of query 6
    members: dict[int, set[int]] = {}
    for query, group in enumerate(planted.split.tolist()):
        members.setdefault(group, set()).add(query)
    assert sorted(map(sorted, members.values())) == sorted(map(sorted, expected))


def test_hub_corrections_are_fitted_on_other_queries(planted: Planted) -> None:
    """Each fold corrected by the others, by hand; a fit on all queries would give other figures."""
    corpus = planted.corpus
    noise = np.random.default_rng(2).normal(size=planted.scores.shape) * 0.7  # or answers stay first in any case
    scores = (planted.scores + noise).astype(np.float32)
    n_tokens = 1 + np.arange(N_QUERIES) % 3  # whatever they are, corrections are of scores per token
    per_token = (scores / n_tokens[:, None]).astype(np.float32)
    found = hubs(corpus, scores, n_tokens, planted.split, planted.judge)
    folds = grouped_folds(planted.split, FOLDS, np.random.default_rng(planted.judge.seed))
    assert [row["name"] for row in found["corrections"]] == list(CORRECTIONS)
    figures, leaked = {}, {}
    for name, correction in CORRECTIONS.items():
        by_hand = np.empty_like(per_token)
        for query in range(N_QUERIES):
            others = folds != folds[query]
            fit = Fit(per_token[others], corpus.relevant[others])
            by_hand[query] = correction(fit, per_token[query : query + 1])[0]
        figures[name] = ndcg_of(corpus, by_hand)
        leaked[name] = ndcg_of(corpus, correction(Fit(per_token, corpus.relevant), per_token))
    raw = ndcg_of(corpus, per_token)
    for row in found["corrections"]:
        assert row["corrected"]["mean"] == pytest.approx(figures[row["name"]])
        assert row["difference"]["mean"] == pytest.approx(figures[row["name"]] - raw)
    assert max(abs(leaked[name] - figures[name]) for name in figures) > 1e-3  # or this shows nothing


def test_the_random_and_the_hardest_curve_have_their_closed_forms(planted: Planted) -> None:
    """One page stands above each answer: of the same document for even queries, of another for odd ones."""
    corpus = planted.corpus
    scores = np.random.default_rng(0).random((N_QUERIES, N_PAGES)).astype(np.float32)
    documents = corpus.documents
    n_siblings = []
    for query, column in enumerate(columns(corpus)):
        same = [other for other in range(N_PAGES) if documents[other] == documents[column] and other != column]
        stranger = next(other for other in range(N_PAGES) if documents[other] != documents[column])
        scores[query, column] = 5
        scores[query, stranger if query % 2 else same[0]] = 6
        n_siblings.append(len(same))
    found = collection_sizes(corpus, {REFERENCE: scores}, planted.judge)
    assert found["sizes"] == [10, 20, 50, 100, N_PAGES]
    [row] = found["systems"]
    others = N_PAGES - 1
    for size, random, hardest in zip(found["sizes"], row["random"], row["hardest"], strict=True):
        assert random["mean"] == pytest.approx(1 - (size - 1) / others)
        of_odd = [1 - (size - 1 - n) / (others - n) for n in n_siblings[1::2]]
        assert hardest["mean"] == pytest.approx(sum(of_odd) / N_QUERIES)  # a sibling is drawn first: even ones fail


def test_an_answer_and_its_near_duplicates_are_taken_away_together(planted: Planted) -> None:
    """Each answer has a twin in another document with the same score: with it gone, every score tells."""
    corpus = planted.corpus
    scores = np.random.default_rng(1).random((N_QUERIES, N_PAGES)).astype(np.float32)
    groups = np.arange(N_PAGES)
    for query, (name, number) in enumerate(PageRef.parse(corpus.keys[column]) for column in columns(corpus)):
        own = corpus.keys.index(f"{name}:{number}")
        twin = corpus.keys.index(f"d{(query // 2 + 1) % N_DOCUMENTS:02}:{3 + query % 2}")
        scores[query, [own, twin]] = 10
        groups[[own, twin]] = min(own, twin)
    n_tokens = np.full(N_QUERIES, N_TOKENS)
    found = {kind["kind"]: kind for kind in score_floors(corpus, scores, n_tokens, planted.split, groups)["kinds"]}
    best = {name: kind["signals"][0] for name, kind in found.items()}
    assert {name: (row["signal"], row["auroc"]["mean"]) for name, row in best.items()} == {
        "page removed": ("score", 1.0),
        "document removed": ("score", 0.5),  # the twin is in another document, so nothing changed
    }


def test_a_query_without_an_answer_is_in_the_fold_of_the_one_it_was_made_from(planted: Planted) -> None:
    """The cross-fitted combination by hand; with the made queries in folds of their own, it tells otherwise."""
    corpus, scores, split = planted.corpus, planted.scores, planted.split
    n_tokens = np.full(N_QUERIES, N_TOKENS)
    found = {kind["kind"]: kind for kind in score_floors(corpus, scores, n_tokens, split, planted.groups)["kinds"]}
    background = background_pages(N_PAGES, np.random.default_rng(0))
    removed = without_answers(scores, corpus.relevant, planted.groups)
    both = [signals(each, n_tokens, background) for each in (scores, removed)]
    has_answer = np.repeat([True, False], N_QUERIES)

    def told(made: Int64) -> float:
        folds = grouped_folds(np.concatenate([split, made]), FLOOR_FOLDS, np.random.default_rng(0))
        combined = cross_fitted_probability(np.concatenate(both), has_answer, folds)
        return auroc(combined[:N_QUERIES], combined[N_QUERIES:])

    [row] = [row for row in found["page removed"]["signals"] if row["signal"] == COMBINATION]
    assert row["auroc"]["mean"] == pytest.approx(told(split))
    assert told(split) != pytest.approx(told(split + N_QUERIES))


def test_each_stage_loses_what_its_rankings_lose(planted: Planted) -> None:
    """Float32 scores are planted that find four of the answers that the stored vectors do not."""
    corpus, stored = planted.corpus, planted.scores
    right = columns(corpus)
    of_model = stored.copy()
    first = np.argsort(-stored, axis=1, kind="stable")[:, :10]
    planted_queries = [query for query in range(FIRST_LOST, N_QUERIES) if right[query] not in first[query]][:4]
    for query in planted_queries:
        of_model[query, right[query]] = 100
    stages, lost = stage_losses(corpus, {REFERENCE: stored, FLOAT32: of_model}, planted.queries, planted.judge)
    n = DEFAULT_CANDIDATES
    searched = rank(corpus.store, planted.queries, k=n, prefilter=DEFAULT_PREFILTER, n_candidates=n)
    found = [[(-hit.maxsim, corpus.keys.index(hit.ref.page_id)) for hit in ranking.hits] for ranking in searched]
    top = {
        "model": [row[:10].tolist() for row in np.argsort(-of_model, axis=1, kind="stable")],
        "codec": first.tolist(),
        "prefilter": [[column for _, column in sorted(hits)[:10]] for hits in found],
    }
    expected: dict[str, str | None] = {}
    for query, query_id in enumerate(corpus.query_ids):
        reached = [right[query] in pages[query] for pages in top.values()]
        after = max((place + 1 for place, there in enumerate(reached) if there), default=0)
        expected[query_id] = [*top, None][after]
    assert lost == expected
    counts = {name: list(lost.values()).count(name) for name in top}
    assert counts["codec"] == 4
    assert counts["model"] > 0
    rows = {row["name"]: row for row in reversed(stages["rows"])}  # the first of a name: as shipped
    assert {name: rows[name]["lost"] for name in top} == counts
    shares = {
        after: np.mean([len({*a} & {*b}) / 10 for a, b in zip(top[before], top[after], strict=True)])
        for before, after in pairwise(top)
    }
    assert shares["codec"] == pytest.approx((N_QUERIES - 4 * 0.1) / N_QUERIES)  # one page in ten is another, for four
    assert shares["prefilter"] < 1  # or this shows nothing
    assert {name: rows[name]["kept"]["mean"] for name in shares} == pytest.approx(shares)


def test_sums_over_tokens_are_compared_per_token_and_cosines_are_not(planted: Planted) -> None:
    """Long queries have ten times the tokens, so ten times the sum, with every page."""
    corpus = planted.corpus
    n_tokens = np.where(np.arange(N_QUERIES) % 2, 10, 1)
    cosines = np.where(corpus.relevant, 1.0, 0.5).astype(np.float32)
    sums = (cosines * n_tokens[:, None]).astype(np.float32)
    matrices = {REFERENCE: sums, MEAN: cosines, BM25: sums}
    rows: list[dict[str, Any]] = both_directions(corpus, matrices, n_tokens, planted.judge)
    assert {(row["system"], row["direction"]): row["success"]["1"]["mean"] for row in rows} == {
        (system, direction): 1.0 for system in matrices for direction in ("text_to_page", "page_to_text")
    }
