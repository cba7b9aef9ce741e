"""Calibration and verdicts on an index of the examples: made queries, what is kept, when it is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import colret.compaction
from colret.background import SAMPLE_PAGES, lift, lifts, sample_places
from colret.calibration import Calibration, calibrate, fit_lanes, load_calibration
from colret.encoders.text import TextEncoder
from colret.errors import StoreError
from colret.ingest import ingest
from colret.lanes import LANES, Lane
from colret.pseudo_queries import FEWEST_WORDS, MOST_WORDS, pseudo_queries
from colret.scoring import maxsim
from colret.search import Ranking, embed, rank, words_only
from colret.store import PageStore
from colret.types import QueryEmbedding
from colret.verdicts import judge
from colret_cli.main import cli
from tests.conftest import TOPICS, write_pdf

ANSWERED = "How much money can employees get back for fitness activities?"
OFF_TOPIC = "Which moons of Jupiter have volcanoes and frozen oceans?"


@pytest.fixture
def index(example_index: Path, tmp_path: Path) -> PageStore:
    """A copy of the index of the examples."""
    return PageStore.open(Path(shutil.copytree(example_index, tmp_path / "copy")))


@pytest.fixture(scope="module")
def calibration(example_index: Path, embedded: TextEncoder) -> Calibration:
    return fit_lanes(PageStore.open(example_index), embedded)


def found(index: PageStore, embedded: TextEncoder, text: str, lane: Lane = "both") -> tuple[QueryEmbedding, Ranking]:
    [query] = words_only([text]) if lane == "text" else embed(index, embedded, [text])
    [ranking] = rank(index, [query], k=3, lane=lane)
    return query, ranking


def test_made_queries_are_words_of_their_pages_in_order(example_index: Path) -> None:
    store = PageStore.open(example_index)
    made = pseudo_queries(store, 20)
    assert len(made) == len({query.place for query in made}) == 20
    for query, text in zip(made, store.texts(np.array([query.place for query in made])), strict=True):
        words = query.text.split()
        assert FEWEST_WORDS <= len(words) <= MOST_WORDS
        at = 0
        for word in words:
            at = text.index(word, at)
    documents = store.page_table().documents[[query.place for query in made]]
    assert set(documents[:4].tolist()) == {0, 1, 2, 3}  # one of each before the second of any
    assert pseudo_queries(PageStore.open(example_index), 20) == made
    assert len(pseudo_queries(store, 1000)) <= store.n_pages()


def test_each_lane_has_a_floor_that_keeps_most_answers(calibration: Calibration) -> None:
    assert set(calibration.lanes) == set(LANES)
    assert calibration.n_pages == 29
    assert 19 <= calibration.n_answered <= 29
    for floor in calibration.lanes.values():
        assert floor.auroc > 0.6
        assert floor.probability(floor.floor - 0.3) < 0.5 < floor.probability(1.2)


def test_it_is_kept_with_the_index(index: PageStore, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through more documents, compaction and new indexes over columns, for whoever opens it; the last one counts."""
    assert load_calibration(index) is None
    calibrate(index, embedded, queries=[query.text for query in pseudo_queries(index, 25)])
    kept = calibrate(index, embedded)
    assert load_calibration(index) == kept
    write_pdf(index.path.parent / "new.pdf", TOPICS["heron"])
    ingest([index.path.parent / "new.pdf"], index, embedded)
    monkeypatch.setattr(colret.compaction, "MANY_FRAGMENTS", 0)
    with index.writing():
        index.build_text_index()
        index.compact()
    assert index.n_pages() == 30
    assert load_calibration(PageStore.open(index.path)) == kept
    assert judge(index, *found(index, embedded, ANSWERED)).basis == "calibrated"


def test_damaged_notes_count_as_none(index: PageStore) -> None:
    notes: list[object] = [[], {"lanes": {"both": {"floor": 1}}}, {"lanes": {}}, "text"]
    for note in notes:
        with index.writing():
            index.put_note("colret:calibration", note)
        assert load_calibration(index) is None


def test_verdicts_by_calibration(index: PageStore, embedded: TextEncoder) -> None:
    calibrate(index, embedded)
    lanes: tuple[Lane, ...] = ("visual", "both")
    for lane in lanes:
        check_verdicts(index, embedded, lane)
    nothing = judge(index, *found(index, embedded, OFF_TOPIC, "text"))
    assert nothing.unanswered  # whatever pages share a word


def check_verdicts(index: PageStore, embedded: TextEncoder, lane: Lane) -> None:
    verdict = judge(index, *found(index, embedded, ANSWERED, lane))
    assert (verdict.basis, verdict.caveat, verdict.unanswered) == ("calibrated", "", False)
    assert verdict.below[0] is False
    assert verdict.probability is not None
    refused = judge(index, *found(index, embedded, OFF_TOPIC, lane))
    assert refused.below == (True, True, True)
    assert refused.probability is not None
    assert refused.probability < verdict.probability
    assert refused.odds.startswith("1 : ")


def test_below_is_what_scores_below_the_floor(
    index: PageStore, embedded: TextEncoder, calibration: Calibration
) -> None:
    calibrate(index, embedded)
    query, _ = found(index, embedded, ANSWERED)
    [ranking] = rank(index, [query], k=29, lane="both")
    floor = calibration.lanes["both"].floor
    verdict = judge(index, query, ranking)
    assert list(verdict.below) == [hit.score < floor for hit in ranking.hits]
    assert 0 < sum(verdict.below) < 29


def test_what_has_changed_refuses_it(index: PageStore, calibration: Calibration) -> None:
    assert calibration.misfit(index.settings, 29) == ""
    assert calibration.misfit(index.settings, 58) == calibration.misfit(index.settings, 15) == ""
    assert "29 pages, and now there are 59" in calibration.misfit(index.settings, 59)
    assert "now there are 14" in calibration.misfit(index.settings, 14)
    for changed in (replace(index.settings, codec="int8"), replace(index.settings, revision="other")):
        assert "it was fitted with" in calibration.misfit(changed, 29)


def test_a_calibration_that_does_not_hold_is_said_and_left_aside(index: PageStore, embedded: TextEncoder) -> None:
    kept = calibrate(index, embedded)
    with index.writing():
        note = index.note("colret:calibration")
        index.put_note("colret:calibration", note | {"n_pages": 10})
    verdict = judge(index, *found(index, embedded, ANSWERED))
    assert verdict.basis == "background"
    assert "does not hold: it was fitted to 10 pages, and now there are 29" in verdict.caveat
    assert "colret calibrate" in verdict.caveat
    with index.writing():
        index.put_note("colret:calibration", note | {"lanes": {"visual": note["lanes"]["visual"]}})
    assert "lane both do not tell" in judge(index, *found(index, embedded, ANSWERED)).caveat
    assert kept.lanes


def test_without_calibration_a_background_refuses_what_is_far_off(example_index: Path, embedded: TextEncoder) -> None:
    store = PageStore.open(example_index)
    verdict = judge(store, *found(store, embedded, ANSWERED))
    assert (verdict.basis, verdict.probability, verdict.odds) == ("background", None, "")
    assert not verdict.unanswered
    assert verdict.caveat.startswith("the index is not calibrated: judged by a background")
    assert judge(store, *found(store, embedded, OFF_TOPIC, "visual")).unanswered
    words = judge(store, *found(store, embedded, "fitness activities", "text"))
    assert words.basis == "none"
    assert not any(words.below)


def test_a_small_index_has_no_background(store: PageStore, embedded: TextEncoder, folder: Path) -> None:
    ingest([folder], store, embedded)
    verdict = judge(store, *found(store, embedded, "grey heron"))
    assert (verdict.basis, verdict.below) == ("none", (False, False, False))
    assert "too few pages" in verdict.caveat


def test_lifts_are_measured_from_the_median_page(example_index: Path, embedded: TextEncoder) -> None:
    store = PageStore.open(example_index)
    query, ranking = found(store, embedded, ANSWERED, "visual")
    similarities = np.array([hit.maxsim / len(query.vectors) for hit in ranking.hits], np.float32)
    [projected] = [query.vectors if (m := store.projection()) is None else query.vectors @ m]
    every = maxsim(projected, store.vectors(np.arange(29))) / len(query.vectors)  # fewer than the sample takes
    median = np.median(every)
    assert lifts(store, query, similarities) == pytest.approx((similarities - median) / (1 - median), abs=1e-3)
    assert lift(np.ones(1, np.float32), np.ones(1, np.float32)).tolist() == [0.0]
    assert len(sample_places(10**5)) == SAMPLE_PAGES == len(set(sample_places(10**5).tolist()))


def test_info_tells_that_a_calibration_is_missing_or_does_not_hold(index: PageStore, calibration: Calibration) -> None:
    def told(*options: str) -> str:
        return CliRunner().invoke(cli, ["info", "--index", str(index.location), *options]).stdout

    assert "calibrated no; colret calibrate" in told()
    assert json.loads(told("--json"))["calibration"] is None
    with index.writing():
        index.put_note("colret:calibration", asdict(calibration) | {"n_pages": 1000})
    assert "calibrated no longer: it was fitted to 1,000 pages, and now there are 29; calibrate it again" in told()
    assert "fitted to 1,000 pages" in json.loads(told("--json"))["calibration"]["misfit"]


def test_what_cannot_be_calibrated_says_why(store: PageStore, embedded: TextEncoder, folder: Path) -> None:
    with pytest.raises(StoreError, match="0 queries could be made of its pages"):
        calibrate(store, embedded)
    ingest([folder], store, embedded)
    with pytest.raises(StoreError, match="2 queries were given, and a floor needs 19"):
        calibrate(store, embedded, queries=["grey heron", "sourdough bread"] * 10)  # repeats tell nothing new
    assert load_calibration(store) is None


def test_pages_that_change_meanwhile_are_not_mixed_up(index: PageStore, embedded: TextEncoder, tmp_path: Path) -> None:
    """Made queries know their page by its place, which another process's documents may shift."""

    def add_a_document(phase: str) -> None:
        if phase == "lane text":
            other = PageStore.open(index.location)
            ingest([write_pdf(tmp_path / "0.pdf", TOPICS["violin"])], other, embedded)

    with pytest.raises(StoreError, match="has changed while it was calibrated; run it again"):
        calibrate(index, embedded, on_phase=add_a_document)
    assert load_calibration(index) is None
    calibrate(index, embedded)


def test_one_document_needs_questions_without_an_answer(
    store: PageStore, embedded: TextEncoder, tmp_path: Path
) -> None:
    write_pdf(tmp_path / "one.pdf", *TOPICS.values())
    ingest([tmp_path / "one.pdf"], store, embedded)
    asked = [" ".join(text.split()[i : i + 4]) for text in TOPICS.values() for i in range(4)]
    with pytest.raises(StoreError, match=r"several documents.*--no-answer"):
        fit_lanes(store, embedded, queries=asked)
    given = fit_lanes(store, embedded, queries=asked, no_answer=[OFF_TOPIC, "income tax forms", "a visa for Peru"])
    assert (given.n_answered, given.n_unanswered, given.made_of) == (20, 3, "file; file")
    assert given.lanes["visual"].auroc > 0.9


def test_the_command_fits_keeps_and_prints(index: PageStore, tmp_path: Path) -> None:
    command = ["calibrate", "--index", str(index.path)]
    printed = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert printed.exit_code == 0
    assert "documents left out), 29 pages" in printed.stdout
    assert [line.split()[0] for line in printed.stdout.splitlines()[2:]] == list(LANES)
    questions = tmp_path / "without.txt"
    questions.write_text(f"{OFF_TOPIC}\nHow is a violin tuned?\n", encoding="utf-8")
    shown = CliRunner().invoke(cli, [*command, "--no-answer", str(questions), "--json"], catch_exceptions=False)
    assert json.loads(shown.stdout)["n_unanswered"] == 2
    index.refresh()
    kept = load_calibration(index)
    assert kept is not None
    assert kept.made_of == "pages; file"
    info = ["info", "--index", command[-1]]
    assert "pages; floors visual 0." in CliRunner().invoke(cli, info).stdout
    told = json.loads(CliRunner().invoke(cli, [*info, "--json"]).stdout)["calibration"]
    assert (told["created"], told["misfit"], set(told["lanes"])) == (kept.created, None, set(LANES))
    few = CliRunner().invoke(cli, [*command, "--queries", str(questions)])
    assert few.exit_code == 1
    assert few.stderr.splitlines()[-1].startswith("colret: ")
    assert "a floor needs 19; add --queries FILE" in few.stderr
