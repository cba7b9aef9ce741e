"""Sentences that report.md and report.html share, so that both say the same of a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colret.prefilter import SMALL


def resampling(interval: Mapping[str, Any], n_sources: int | None = None) -> str:
    """Return what the intervals of a set resample, how much of it there is, and what they can therefore speak of.

    Args:
        interval: Any of the set's, with its ``unit`` and ``n_units``.
        n_sources: Documents that the set's queries are about, if that is known.
    """
    n = f"{interval.get('n_units') or 0:,}"
    if interval.get("unit") == "documents":
        return (
            f"Intervals resample documents, {n} of them, each with all its queries: they speak of questions about "
            "other documents like these."
        )
    documents = "this one document" if n_sources == 1 else "these same documents"
    if n_sources and n_sources > 1:
        documents = f"these same {n_sources:,} documents"
    return (
        f"Intervals resample queries, {n} of them, because the documents are too few to resample: they speak of more "
        f"questions about {documents}, and understate how far figures on other documents may lie from these."
    )


def near_duplicates(thresholds: Mapping[str, Any]) -> str:
    """Return what makes two pages near-duplicates."""
    return (
        f"Two pages are nearly the same if they have the same words, or mean vectors with a cosine of at least "
        f"{thresholds.get('cosine')}, or mean vectors with a cosine of at least {thresholds.get('image_cosine')} and "
        f"images whose perceptual hashes differ in at most {thresholds.get('hash_bits')} of 64 bits. Pages "
        "linked through others are in one group."
    )


def conformal(chosen: Mapping[str, Any]) -> str:
    """Return what is promised of a chosen floor, and under which assumption."""
    return (
        f"A new query of the same kind that has an answer gets one with a probability of at least "
        f"{chosen['guarantee']:.1%} (split conformal, from {chosen['n_queries']:,} queries), and in 95 % of such "
        f"calibrations at least {chosen['probable']:.1%} of them do. Both take the queries for independent draws: "
        "queries about one document are alike, so that for other documents less is certain."
    )


def shipped(n_pages: int) -> str:
    """Return which search a user gets of so many pages without asking for one."""
    if n_pages > SMALL:
        return f"Two-stage search is what colret does by default above {SMALL} pages, as here."
    return (
        f"With {n_pages:,} pages colret searches exactly by default: two-stage search takes over above {SMALL} pages, "
        "and is here only measured."
    )
