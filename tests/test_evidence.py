"""Evidence from a real index: on pooled and quantised ones too, and how often it shows the heading asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from colret.encoders.text import TextEncoder
from colret.errors import StoreError
from colret.evidence import Evidence, find_evidence
from colret.ingest import ingest
from colret.search import embed, explain, rank
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import Codec, Words
from colret_eval.datasets import load_dataset
from colret_eval.evidence import Heading, Outcome, find_headings, heading_box, main, measure, summary
from colret_eval.statistics import Interval
from tests.checkpoints import tiny_encoder
from tests.conftest import TOPICS, write_pdf
from tests.pdfs import PdfSpec, build_pdf, text

PAGE = [TOPICS["heron"], TOPICS["sourdough"], TOPICS["orbit"], TOPICS["violin"], TOPICS["revenue"]]
QUERY = "the spacecraft went around the red planet"


def write_page(path: Path) -> Path:
    """Write a page of five sentences, each on a line of its own, 100 points apart."""
    path.write_bytes(build_pdf([PdfSpec("".join(text(line, 40, 700 - 100 * i, 14) for i, line in enumerate(PAGE)))]))
    return path


def evidence_of(
    index: Path, source: Path, encoder: TextEncoder, *, codec: Codec = "int8", pool: int = 1, again: bool = True
) -> Evidence:
    """Return the evidence for the one page of a new index."""
    store = PageStore.create(index, settings_for(encoder.info, codec, pool=pool))
    ingest([source], store, encoder)
    [query] = embed(store, encoder, [QUERY])
    [found] = find_evidence(store, query, store.candidates(), encoder=encoder if again else None)
    return found


@pytest.mark.parametrize("codec", ["float16", "int8", "int4", "binary"])
def test_the_sentence_that_answers_is_the_top_region_whatever_the_codec(
    tmp_path: Path, embedded: TextEncoder, codec: Codec
) -> None:
    found = evidence_of(tmp_path / "index", write_page(tmp_path / "page.pdf"), embedded, codec=codec)
    top = found.regions[0]
    assert found.text_in(top.box) == TOPICS["orbit"]
    assert (top.box.left, top.box.top) == pytest.approx((40, 792 - 500 - 11), abs=4)
    assert found.coarse == ""
    assert {"spacecraft", "planet"} & set(top.tokens)


def test_tokens_have_the_places_of_their_best_words(tmp_path: Path, embedded: TextEncoder) -> None:
    found = evidence_of(tmp_path / "index", write_page(tmp_path / "page.pdf"), embedded)
    assert [match.token for match in found.tokens] == QUERY.split()
    by_token = {match.token: match for match in found.tokens}
    assert found.text_in(by_token["planet"].box) == "Mars"
    assert 0.3 < by_token["planet"].similarity <= 1


def test_a_pooled_page_is_encoded_again_for_its_boxes(tmp_path: Path, embedded: TextEncoder) -> None:
    source = write_page(tmp_path / "page.pdf")
    plain = evidence_of(tmp_path / "plain", source, embedded, codec="float16")
    pooled = evidence_of(tmp_path / "pooled", source, embedded, codec="float16", pool=4)
    assert pooled.coarse == ""
    assert pooled.regions[0].box == plain.regions[0].box
    assert pooled.matches.boxes.tolist() == plain.matches.boxes.tolist()
    assert len(pooled.page.boxes) < len(plain.page.boxes) / 3


@pytest.mark.parametrize(("change", "why"), [("gone", "no such file"), ("changed", "has changed since")])
def test_where_a_pooled_page_cannot_be_encoded_again_its_boxes_are_said_to_be_coarse(
    tmp_path: Path, embedded: TextEncoder, change: str, why: str
) -> None:
    source = write_page(tmp_path / "page.pdf")
    evidence_of(tmp_path / "index", source, embedded, pool=4)
    source.unlink()
    if change == "changed":
        write_pdf(source, TOPICS["violin"])
    store = PageStore.open(tmp_path / "index")
    [query] = embed(store, embedded, [QUERY])
    [found] = find_evidence(store, query, store.candidates(), encoder=embedded)
    assert why in found.coarse
    assert len(found.coarse.splitlines()) == 1
    assert len(found.matches.boxes) <= len(found.page.boxes)


def test_without_an_encoder_pooled_boxes_are_coarse(tmp_path: Path, embedded: TextEncoder) -> None:
    found = evidence_of(tmp_path / "index", write_page(tmp_path / "page.pdf"), embedded, pool=4, again=False)
    assert "no encoder was given" in found.coarse


def test_a_vision_models_evidence_comes_from_cells_of_the_image(tmp_path: Path) -> None:
    encoder = tiny_encoder("colqwen2")
    store = PageStore.create(tmp_path / "index", settings_for(encoder.info))
    ingest([write_page(tmp_path / "page.pdf")], store, encoder)
    [query] = embed(store, encoder, ["net revenue"])
    [found] = find_evidence(store, query, store.candidates())
    assert not found.from_words
    assert "".join(match.token for match in found.tokens) == "netrevenue"
    corners = {tuple(box) for box in found.page.boxes.tolist()}
    for match in found.tokens:
        scale = 65535 / np.array([612, 792, 612, 792])
        assert tuple(np.rint(np.array(match.box) * scale).astype(int).tolist()) in corners


def test_the_snippet_is_that_of_the_hit_and_highlights_what_matched(tmp_path: Path, embedded: TextEncoder) -> None:
    store = PageStore.create(tmp_path / "index", settings_for(embedded.info))
    ingest([write_page(tmp_path / "page.pdf")], store, embedded)
    [query] = embed(store, embedded, [QUERY])
    [ranking] = rank(store, [query])
    [found] = find_evidence(store, query, ranking.hits)
    [explained] = explain(store, query, ranking.hits)
    assert (explained.snippet, explained.highlights) == found.snippet
    assert any("Mars" in found.snippet.text[start:end] for start, end in found.snippet.highlights)


def test_a_page_removed_meanwhile_is_told(tmp_path: Path, embedded: TextEncoder) -> None:
    store = PageStore.create(tmp_path / "index", settings_for(embedded.info))
    ingest([write_page(tmp_path / "page.pdf"), write_pdf(tmp_path / "other.pdf", "other")], store, embedded)
    [query] = embed(store, embedded, [QUERY])
    pages = store.candidates()
    store.remove_documents([pages[0].ref.doc_id])
    with pytest.raises(StoreError, match="1 of the pages found are gone"):
        find_evidence(store, query, pages)
    assert find_evidence(store, query, []) == []


# How often the top region covers the heading that was asked for


def words_at(*words: tuple[str, int, int]) -> Words:
    """Words of so many points' height, 10 points wide, on a page of 100 x 100 points."""
    boxes = np.array([(10 * i, top, 10 * i + 9, top + height) for i, (_, top, height) in enumerate(words)])
    return Words(tuple(word for word, _, _ in words), np.rint(boxes * 655.35).astype(np.uint16))


@pytest.mark.parametrize(
    ("query", "box"),
    [
        ("Mathematical Symbols", (30, 50, 49, 60)),  # the larger, though it comes later
        ("symbols", (40, 50, 49, 60)),
        ("K-PKE", (70, 10, 89, 12)),  # parted by a line's end
        ("symbols of", None),
        ("mathemat", None),  # a part of a word
    ],
)
def test_a_heading_is_where_its_words_are_set_largest(query: str, box: tuple[float, ...] | None) -> None:
    words = words_at(
        ("the", 10, 5), ("mathematical", 10, 5), ("symbols", 10, 5), ("Mathematical", 50, 10), ("Symbols:", 50, 10),
        ("a", 80, 5), ("of", 80, 5), ("K-", 10, 2), ("PKE", 10, 2),
    )  # fmt: skip
    found = heading_box(words, query, 100, 100)
    assert found == (None if box is None else pytest.approx(box, abs=0.02))


def outcome(covered: float, area: float) -> Outcome:
    heading = Heading("q", "text", "file.pdf", 1, (0, 0, 10, 10), 100.0)  # type: ignore[arg-type]
    return Outcome(heading, covered, area, 0.0)


def test_a_region_must_cover_half_the_heading_and_at_most_a_quarter_of_the_page() -> None:
    assert [outcome(*each).found for each in ((0.5, 0.25), (0.49, 0.1), (1.0, 0.26))] == [True, False, False]
    share = summary([outcome(1.0, 0.1)] * 3 + [outcome(0.0, 0.1)])
    assert isinstance(share, Interval)
    assert (share.mean, share.n_units) == (0.75, 4)
    assert share.low < 0.75 < share.high


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A set of one document whose two headings are queries, and a query that is none."""
    (tmp_path / "set" / "pdfs").mkdir(parents=True)
    body = [TOPICS["heron"], TOPICS["sourdough"], TOPICS["orbit"]]
    lines = "".join(text(line, 40, 500 - 20 * i, 11) for i, line in enumerate(body * 2))
    pages = [PdfSpec(text(heading, 40, 700, 22) + lines) for heading in ("Termination Of Contracts", "Travel Expenses")]
    (tmp_path / "set" / "pdfs" / "rules.pdf").write_bytes(build_pdf(pages))
    queries = [("Termination of contracts", 1), ("Travel expenses", 2), ("water and time", 1)]
    rows = [
        {"query_id": f"q{i}", "query": query, "pdf": "rules.pdf", "pages": [page]}
        for i, (query, page) in enumerate(queries)
    ]
    (tmp_path / "set" / "qrels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "set"


def test_headings_are_found_and_covered(dataset: Path, tmp_path: Path, embedded: TextEncoder) -> None:
    loaded = load_dataset(dataset)
    headings = find_headings(loaded)
    assert {heading.text for heading in headings} == {"Termination of contracts", "Travel expenses"}
    for heading in headings:
        assert heading.box.left == pytest.approx(40, abs=3)
        assert 75 < heading.box.top < heading.box.bottom < 100
    store = PageStore.create(tmp_path / "index", settings_for(embedded.info))
    ingest(loaded.pdfs, store, embedded)
    store.refresh()
    outcomes = measure(loaded, headings, store, embedded)
    assert all(each.found and each.covered == pytest.approx(1, abs=0.05) for each in outcomes)


def test_the_measurement_prints_its_figure_and_failures(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(dataset), "--index", str(tmp_path / "index")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "set: 3 queries, 2 of them headings found on their page; of 2, the top region covers 2: 100.0%"
    )
    assert second.startswith("a region of any rank covers 2; mean area of the top region ")
    assert main([str(tmp_path / "nothing")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
