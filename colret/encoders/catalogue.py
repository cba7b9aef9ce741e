"""Published checkpoints with short names, and what a person needs to choose one.

Scores are nDCG@5, averaged over the ten sets of ViDoRe v1, as their authors published them;
colret has measured none of them. The hardware is what the weights in bfloat16 and a few pages
at a time need. Where an adapter and its base have two licences, both bind.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A model that can be named by one word."""

    short_name: str
    hub_name: str  # "" where it comes with the installation
    reads: str  # "words" or "image"
    n_parameters: int
    dim: int  # D
    vectors_per_page: str  # prompt included
    licence: str
    ndcg5_vidore1: float | None  # percent
    source: str  # of that score
    hardware: str


_ENGINE = "colpali-engine 0.3.18, README"

CATALOGUE = (
    CatalogueEntry(
        short_name="embedded",
        hub_name="",
        reads="words",
        n_parameters=22_700_000,
        dim=384,
        vectors_per_page="~560",
        licence="Apache-2.0",
        ndcg5_vidore1=None,
        source="",
        hardware="CPU",
    ),
    CatalogueEntry(
        short_name="colmodernvbert",
        hub_name="ModernVBERT/colmodernvbert",
        reads="image",
        n_parameters=250_000_000,
        dim=128,
        vectors_per_page="~900",
        licence="MIT",
        ndcg5_vidore1=81.2,
        source="arXiv 2510.01149 (its authors' re-run, mteb pull request 4337: 80.2)",
        hardware="CPU",
    ),
    CatalogueEntry(
        short_name="colsmol",
        hub_name="vidore/colSmol-256M",
        reads="image",
        n_parameters=256_000_000,
        dim=128,
        vectors_per_page="~900",
        licence="Apache-2.0, adapter MIT",
        ndcg5_vidore1=80.1,
        source=_ENGINE,
        hardware="CPU",
    ),
    CatalogueEntry(
        short_name="colqwen2",
        hub_name="vidore/colqwen2-v1.0",
        reads="image",
        n_parameters=2_200_000_000,
        dim=128,
        vectors_per_page="<= 779",
        licence="Apache-2.0, adapter MIT",
        ndcg5_vidore1=89.3,
        source=_ENGINE,
        hardware="GPU with 8 GB",
    ),
    CatalogueEntry(
        short_name="colqwen2.5",
        hub_name="vidore/colqwen2.5-v0.2",
        reads="image",
        n_parameters=3_800_000_000,
        dim=128,
        vectors_per_page="<= 779",
        licence="Qwen Research: not commercial",
        ndcg5_vidore1=89.4,
        source=_ENGINE,
        hardware="GPU with 12 GB",
    ),
    CatalogueEntry(
        short_name="colpali",
        hub_name="vidore/colpali-v1.3",
        reads="image",
        n_parameters=2_900_000_000,
        dim=128,
        vectors_per_page="1,030",
        licence="Gemma, adapter MIT",
        ndcg5_vidore1=84.8,
        source=_ENGINE,
        hardware="GPU with 12 GB",
    ),
)
"""Every model with a short name, the lightest first."""

SHORTCUTS = {entry.short_name: entry.hub_name for entry in CATALOGUE if entry.hub_name}
"""Short names of published checkpoints on the Hugging Face hub."""
