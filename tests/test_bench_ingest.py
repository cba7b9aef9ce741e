"""The benchmark of ingest: both ways make the same pages, and scans are read by OCR."""

from __future__ import annotations

from pathlib import Path

import pytest

from colret.errors import ColretError
from colret.store import PageStore
from colret_eval.bench import report
from colret_eval.bench.ingest import choose_born_digital, measure, scan
from colret_eval.bench.ingest_worker import COLRET, DRAWING_LOOP, LOOP, Job, pages_of, run
from tests.conftest import TOPICS, write_pdf


@pytest.fixture
def born(tmp_path: Path) -> Path:
    """Two documents of three born-digital pages, chosen from among others."""
    folder, chosen = tmp_path / "documents", tmp_path / "born"
    folder.mkdir()
    write_pdf(folder / "a.pdf", TOPICS["orbit"], TOPICS["heron"])
    write_pdf(folder / "b.pdf", TOPICS["violin"], "")  # a page without words could be a scan
    write_pdf(folder / "c.pdf", TOPICS["violin"])
    write_pdf(folder / "d.pdf", TOPICS["revenue"])
    (folder / "torn.pdf").write_text("no PDF")
    choose_born_digital([folder], chosen, 3)
    assert [path.name for path in sorted(chosen.iterdir())] == ["00000-a.pdf", "00002-c.pdf"]
    return chosen


def test_the_loops_make_the_pages_that_colret_makes(born: Path, tmp_path: Path) -> None:
    scanned = tmp_path / "scanned"
    scan(born, scanned, 2)
    for folder, n_pages, n_ocr in ((born, 3, 0), (scanned, 2, 2)):
        pages = []
        for number, way in enumerate((COLRET, LOOP, DRAWING_LOOP)):
            index = tmp_path / f"{folder.name}{number}"
            figures = run(Job(way, str(folder), str(index), "embedded", ""))
            assert (figures["n_pages"], figures["n_ocr"]) == (n_pages, n_ocr)
            assert figures["peak_bytes"] > 50e6
            pages.append(pages_of(PageStore.open(index)))
        assert len(pages[0]) == n_pages
        assert pages[0] == pages[1] == pages[2]


def test_the_report_has_a_row_for_each_way(born: Path, tmp_path: Path) -> None:
    rows = measure([born], ["embedded"], tmp_path / "work", n_pages=2, n_scans=0, rounds=1)
    assert [(row["documents"], row["way"]) for row in rows] == [
        ("born-digital", COLRET),
        ("born-digital", LOOP),
        ("born-digital", DRAWING_LOOP),
    ]
    assert {row["same_vectors"] for row in rows} == {1.0}
    assert rows[1]["to_loop"] == 1.0
    assert "| born-digital | embedded | loop that draws every page | 2 | 0 |" in report._ingest(rows)


def test_a_folder_of_scans_is_no_measure_of_born_digital_ones(tmp_path: Path) -> None:
    write_pdf(tmp_path / "blank.pdf", "")
    with pytest.raises(ColretError, match="text layer"):
        choose_born_digital([tmp_path], tmp_path / "chosen", 3)
