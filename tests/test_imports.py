"""The command line starts light: what a command does not need is not imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from colret import kernels
from colret.encoders.text import TextEncoder
from colret.ingest import ingest
from colret.settings import settings_for
from colret.store import PageStore

HEAVY = (
    "torch",
    "torchvision",
    "lancedb",
    "colpali_engine",
    "transformers",
    "onnxruntime",
    "huggingface_hub",
    "numpy",
    "scipy",
    "pyarrow",
    "PIL",
    "fastapi",
    "pypdfium2",
    "mcp",
    "pydantic",
    "ray",
)
ROOT = Path(__file__).parent.parent


def imported(arguments: list[str]) -> set[str]:
    """Return the heavy modules that ``colret`` with ``arguments`` has imported when it ends."""
    program = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "cli")!r}, {str(ROOT / "eval")!r}]
from colret_cli.main import cli
try:
    cli({arguments!r})
finally:
    print("MODULES", *sorted(sys.modules), file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    modules = run.stderr.split("MODULES")[1].split()
    return {name for name in HEAVY if name in modules}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["ingest", "--help"], ["query", "--help"], ["serve", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported(arguments) == set()


def test_a_mistake_in_usage_imports_no_model(tmp_path: Path) -> None:
    assert imported(["query", "", "--index", str(tmp_path)]) == set()
    assert not imported(["ingest", str(tmp_path / "none")]) & {"torch", "lancedb", "colpali_engine", "transformers"}


def test_listing_an_index_loads_no_model(tmp_path: Path) -> None:
    assert not imported(["list", "--index", str(tmp_path)]) & {"torch", "colpali_engine", "transformers"}


@pytest.mark.skipif(not kernels.available(), reason="without the compiled kernels torch scores")
@pytest.mark.parametrize("options", [[], ["--exact", "--device", "cpu"], ["--json"]])
def test_a_query_of_the_embedded_encoder_imports_no_torch(
    options: list[str], tmp_path: Path, folder: Path, embedded: TextEncoder
) -> None:
    index = tmp_path / "index"
    ingest([folder], PageStore.create(index, settings_for(embedded.info)), embedded)
    modules = imported(["query", "sourdough", "--index", str(index), *options])
    assert "lancedb" in modules  # it did search
    assert not modules & {"torch", "torchvision", "transformers", "onnxruntime", "huggingface_hub"}


def test_a_sync_of_nothing_new_loads_no_model(tmp_path: Path, folder: Path, embedded: TextEncoder) -> None:
    index = tmp_path / "index"
    ingest([folder], PageStore.create(index, settings_for(embedded.info)), embedded)
    assert not imported(["ingest", str(folder), "--index", str(index)]) & {"torch", "transformers"}
