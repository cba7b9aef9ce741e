"""The retrievers of docs/recipes, with the libraries that they are for: ``pip install 'colret[recipes]'``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import colret
import colret.encoders
from colret.encoders.text import TextEncoder
from tests.conftest import TOPICS, write_pdf

RECIPES = Path(__file__).parent.parent / "docs" / "recipes"

# The libraries' own, of their own dependencies.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def _perks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder) -> None:
    """The index that the recipes open, in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    write_pdf(tmp_path / "plan.pdf", TOPICS["heron"], "Employees can spend 1000 dollars on fitness")
    with colret.create("perks", model="embedded") as index:
        index.ingest(tmp_path / "plan.pdf")


def run(name: str) -> dict[str, Any]:
    """Run a recipe's code as it stands, and return what it defines."""
    made: dict[str, Any] = {"__name__": name}
    for block in re.findall(r"```python\n(.*?)```", (RECIPES / f"{name}.md").read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, f"{name}.md", "exec", dont_inherit=True), made)
    return made


@pytest.mark.usefixtures("_perks")
def test_langchain_gets_pages_with_their_regions(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langchain_core", reason="needs colret[recipes]")
    made = run("langchain")
    assert re.match(r"\S+/plan\.pdf 2 Employees can spend 1000 dollars on fitness\n", capsys.readouterr().out)
    first, _ = made["retriever"].invoke("fitness budget")
    assert (first.id.endswith(":2"), first.metadata["page"], len(first.metadata["boxes"][0])) == (True, 2, 4)
    sure = made["ColretRetriever"](index=colret.open("perks"), k=1, sure_only=True)
    assert [each.page_content for each in sure.invoke("a heron and fish")] == [TOPICS["heron"]]


@pytest.mark.usefixtures("_perks")
def test_llamaindex_gets_pages_with_their_regions(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llama_index.core", reason="needs colret[recipes]")
    made = run("llamaindex")
    assert re.match(r"\S+/plan\.pdf 2 Employees can spend 1000 dollars on fitness\n", capsys.readouterr().out)
    first, second = made["retriever"].retrieve("fitness budget")
    assert first.score > second.score
    assert (first.node.node_id.endswith(":2"), len(first.metadata["boxes"][0])) == (True, 4)
