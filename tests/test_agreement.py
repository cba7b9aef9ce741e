"""The tools that compare precisions and devices, on sets of a few pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from colret_eval import gpu, precision
from tests.checkpoints import tiny_checkpoint
from tests.conftest import TOPICS, write_pdf


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A labelled set of three pages and two questions."""
    folder = tmp_path / "tiny-set"
    (folder / "pdfs").mkdir(parents=True)
    for name in ("revenue", "heron", "sourdough"):
        write_pdf(folder / "pdfs" / f"{name}.pdf", TOPICS[name])
    lines = [
        {"query_id": "1", "query": "which bird catches fish?", "pdf": "heron.pdf", "pages": [1]},
        {"query_id": "2", "query": "how is bread made?", "pdf": "sourdough.pdf", "pages": [1]},
    ]
    (folder / "qrels.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_precisions_are_compared_on_a_set(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert precision.main([str(dataset)]) == 0
    line = capsys.readouterr().out
    assert line.startswith("tiny-set: 3 pages, 2 queries; nDCG@10 100.0 in float32, 100.0 in bfloat16; 100.0 %")
    assert "the first page 2 times" in line


def test_a_folder_that_is_no_set_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert precision.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("model", ["embedded", "colqwen2"])
def test_a_device_is_compared_with_the_cpu(model: str, dataset: Path) -> None:
    """Here with the CPU by its other name, whose MaxSim is not the int8 one."""
    name = model if model == "embedded" else str(tiny_checkpoint(model))
    lines = gpu.compare(name, dataset / "pdfs", "cpu:0", 8)
    assert "3 pages, 3 queries" in lines[0]
    assert "differ by 0.0e+00 at most, mean cosine 1.000000, 100.0 % of the top-10 kept" in lines[1]
    assert lines[3].startswith("MaxSim, int8 as stored: scores differ by")
    assert lines[3].endswith("100.0 % of the top-10 kept")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_nothing_is_compared_and_nothing_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main([]) == 0
    assert capsys.readouterr().out == "no CUDA device here: nothing was compared\n"
