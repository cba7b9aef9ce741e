"""What the floor does to labelled questions: hand-made signals, and a set of made documents from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from colret.encoders.text import TextEncoder
from colret.ingest import ingest
from colret.settings import settings_for
from colret.store import PageStore
from colret_eval.calibrated_floor import Questions, held_out, labelled, main, signals
from colret_eval.datasets import load_dataset
from tests.conftest import write_pdf

SUBJECTS = {
    "birds": "heron kestrel nest feather migration wetland beak plumage",
    "bread": "sourdough flour oven crust yeast dough kneading baker",
    "space": "satellite orbit telescope rocket asteroid launch galaxy gravity",
    "music": "violin concert melody rhythm orchestra piano composer harmony",
    "taxes": "revenue income deduction receipt auditor invoice expense refund",
}
VERBS = ["describes", "measures", "explains", "changes", "follows", "compares", "improves", "reports"]
ADJECTIVES = ["early", "quiet", "large", "broken", "famous", "northern", "simple", "regular", "hidden", "modern"]


def sentences(nouns: list[str], rng: np.random.Generator) -> list[str]:
    """Three sentences that no other page has."""
    made = []
    for _ in range(3):
        first, second, third = rng.permutation(nouns)[:3]
        a, b, c = rng.permutation(ADJECTIVES)[:3]
        made.append(f"The {a} {first} {rng.choice(VERBS)} every {b} {second} beside some {c} {third} again.")
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> tuple[Path, Path]:
    """A labelled set of five documents of five pages, two questions a document, and its index."""
    folder = tmp_path_factory.mktemp("set")
    (folder / "pdfs").mkdir()
    rng = np.random.default_rng(3)
    lines = []
    for name, nouns in SUBJECTS.items():
        pages = [sentences(nouns.split(), rng) for _ in range(5)]
        write_pdf(folder / "pdfs" / f"{name}.pdf", *(" ".join(page) for page in pages))
        for page in (2, 4):
            query = "what " + " ".join(pages[page - 1][0].split()[2:7])
            lines.append({"query_id": f"{name}{page}", "query": query, "pdf": f"{name}.pdf", "pages": [page]})
    (folder / "qrels.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    index = folder / "index"
    ingest([folder / "pdfs"], PageStore.create(index, settings_for(embedded.info)), embedded)
    return folder, index


def test_labels_become_places(made: tuple[Path, Path]) -> None:
    folder, index = made
    store = PageStore.open(index)
    found = labelled(load_dataset(folder), store)
    assert len(found.texts) == 10
    numbers = [store.candidates()[places[0]].ref.number for places in found.relevant]
    assert numbers == [2, 4] * 5
    assert found.sources[:3] == ["birds.pdf", "birds.pdf", "bread.pdf"]


def test_report(made: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder, index = made
    assert main([f"{folder}={index}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("10 questions, N = 25, lane both")
    assert "| document removed, caught | page removed, caught |" in lines[3]
    kept, caught = (float(cell.split()[0]) for cell in lines[5].split("|")[3:5])
    assert kept >= 0.9
    assert caught > 0.5  # subjects have no noun in common
    [score] = [line for line in lines if line.startswith("| score ")]
    assert float(score.split("|")[2]) > 0.95


def test_signals_of_a_hand_made_query() -> None:
    scores, similarities = (np.array(row, np.float32) for row in ([0.5, 0.9, 0.7, 0.1], [0.4, 0.8, 0.6, 0.2]))
    nothing = np.zeros(4, np.bool_)
    best, lifted, z = signals(scores, similarities, nothing)
    assert (best, lifted) == pytest.approx((0.9, (0.8 - 0.5) / 0.5))
    assert z == pytest.approx((0.8 - 0.5) / (1.4826 * 0.2))
    without = signals(scores, similarities, np.array([False, True, False, False]))
    assert without[:2] == pytest.approx([0.7, (0.6 - 0.4) / 0.6])


def test_a_documents_questions_are_held_out() -> None:
    scores = np.array([*np.full(25, 0.1), *np.full(25, 0.9)])
    questions = Questions(np.stack([scores] * 3, axis=1), ["low"] * 25 + ["high"] * 25)
    floor, floors = held_out(questions)
    assert floor == 0.1
    assert floors.tolist() == [0.9] * 25 + [0.1] * 25


def test_mistakes_are_told_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["no-index"])
    assert "DATASET_FOLDER=INDEX" in capsys.readouterr().err
    assert main([f"{tmp_path}={tmp_path / 'none'}"]) == 1
    assert "no index here" in capsys.readouterr().err
