"""What tests share: the real embedded encoder, and folders of small real PDFs."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["XDG_CONFIG_HOME"] = os.devnull  # whoever runs the tests has a colret.toml of their own

from colret.encoders.text import TextEncoder, load_embedded
from colret.ingest import ingest
from colret.settings import settings_for
from colret.store import PageStore
from tests.object_store import bucket, s3_endpoint, traffic  # noqa: F401
from tests.pdfs import PdfSpec, build_pdf, text

# A slow machine is no failure, and the same commit gives the same result. `make prove` draws anew.
settings.register_profile("colret", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None)
settings.load_profile(os.environ.get("COLRET_HYPOTHESIS", "colret"))

TOPICS = {
    "revenue": "Net revenue by segment grew in the third quarter of 2023",
    "heron": "The grey heron waits for fish in shallow water",
    "sourdough": "Sourdough bread needs flour water salt and time",
    "orbit": "The satellite reached a stable orbit around Mars",
    "violin": "She tuned the old violin before the concert began",
}
"""Sentences that no encoder should confuse."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-docs", action="store_true", help="write what consoles in README and docs show anew")
    parser.addoption("--prove", action="store_true", help="run the long form of tests that have one: make prove")


@pytest.fixture(scope="session")
def proving(request: pytest.FixtureRequest) -> bool:
    """Whether tests run in their long form."""
    return bool(request.config.getoption("--prove"))


@pytest.fixture(scope="session")
def embedded() -> TextEncoder:
    """The encoder that comes with the installation, in float32 so that every machine agrees."""
    return load_embedded(device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def example_index(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> Path:
    """An index of four of the examples, 29 pages; who writes to it makes a copy."""
    path = tmp_path_factory.mktemp("examples") / "index"
    names = ("PerksPlus", "Benefit_Options", "employee_handbook", "quill")
    files = [Path(__file__).parent.parent / "examples" / f"{name}.pdf" for name in names]
    ingest(files, PageStore.create(path, settings_for(embedded.info)), embedded)
    return path


@pytest.fixture
def store(tmp_path: Path, embedded: TextEncoder) -> PageStore:
    """An empty index for the embedded encoder."""
    return PageStore.create(tmp_path / "index", settings_for(embedded.info))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a PDF of one page for each of three topics."""
    path = tmp_path / "documents"
    path.mkdir()
    for name in ("revenue", "heron", "sourdough"):
        write_pdf(path / f"{name}.pdf", TOPICS[name])
    return path


def write_pdf(path: Path, *pages: str) -> Path:
    """Write a PDF with a page for each text; an empty text makes a blank page."""
    path.write_bytes(build_pdf([PdfSpec(_lines(page)) for page in pages]))
    return path


def _lines(page: str) -> str:
    lines = textwrap.wrap(page, 70)
    return "".join(text(line, 40, 700 - 20 * i, 14) for i, line in enumerate(lines))
