"""Pages that are nearly one: what they are, and every measure with them merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from colret.grouping import alike, components, duplicate_groups, identical, joined, similar
from colret_eval.evaluation.comparison import Judge, run_of, values_of
from colret_eval.evaluation.corpus import Corpus
from colret_eval.leakage import SharedQuery, merged_qrels, merged_run, representatives, shared_queries
from colret_eval.matrices import Bool, Float32
from colret_eval.measures import STANDARD, Float64, Int64, Qrels, random_baseline
from colret_eval.splits import query_groups

HASH_BITS: Final = 2
"""Bits in which the perceptual hashes of near-duplicates may differ."""

COSINE: Final = 0.98
"""Of the mean vectors of near-duplicates: pages that merely continue one another reach 0.96, tables of nothing but
numbers more; the report lists the groups."""

IMAGE_COSINE: Final = 0.9
"""Of pages whose images are alike too: the hashes of pages with a line or two of text hardly differ."""

_SHOWN = 20


def page_groups(corpus: Corpus) -> tuple[Int64, dict[str, Int64]]:
    """Return groups of near-duplicate pages (N,), and the groupings they were joined from."""
    found = [corpus.records[page] if page else None for page in corpus.page_ids]
    hashes = [record.image_hash if record else None for record in found]
    known = np.array([place for place, value in enumerate(hashes) if value is not None], np.int64)
    unsigned = np.array([hashes[place] for place in known], np.int64).view(np.uint64)
    singles = corpus.store.singles(corpus.places[known])
    n = len(found)
    words = [record.text if record else f"\0{place}" for place, record in enumerate(found)]
    groupings = {
        "identical words": identical([text or f"\0{place}" for place, text in enumerate(words)]),
        "images alike": _spread(alike(singles, IMAGE_COSINE, unsigned, HASH_BITS), known, n),
        "vectors alike": _spread(similar(singles, COSINE), known, n),
    }
    return joined(*groupings.values()), groupings


def split_groups(corpus: Corpus, groups: Int64) -> Int64:
    """Return groups of queries that no split may part, (Q,) int64.

    They are about one document, or about near-duplicate pages (``groups``, (N,)), or ask the same.
    """
    documents = dict(zip(corpus.keys, corpus.documents, strict=True))
    by_page = query_groups(corpus.qrels, documents, representatives(corpus.keys, groups))
    places = {query_id: place for place, query_id in enumerate(corpus.query_ids)}
    pairs = [(places[each.first], places[each.second]) for each in _repeated(corpus)]
    return joined(by_page, components(len(places), np.array(pairs, np.int64).reshape(-1, 2)))


def _repeated(corpus: Corpus) -> list[SharedQuery]:
    """Return the pairs of queries that ask the same, each once."""
    texts = corpus.dataset.queries
    return [each for each in shared_queries(texts, texts) if each.first < each.second]


def leakage(
    corpus: Corpus,
    matrices: Mapping[str, Float32],
    values: Mapping[str, Mapping[str, Float64]],
    groups: Int64,
    groupings: Mapping[str, Int64],
    split: Int64,
    judge: Judge,
) -> dict[str, Any]:
    """Return the ``leakage`` of a report: duplicates, every measure with and without, and how queries can be split.

    Args:
        corpus: The set.
        matrices: Scores by system.
        values: Measures by system, (Q,) each.
        groups: (N,) near-duplicate pages, and what they were joined from.
        groupings: As from ``page_groups``.
        split: (Q,) from ``split_groups``.
        judge: Of the set.
    """
    members = duplicate_groups(groups)
    stands_for = representatives(corpus.keys, groups)
    merged = merged_qrels(corpus.qrels, stands_for)
    labelled: Bool = np.any(corpus.relevant, axis=0)
    without = {s: values_of(merged, merged_run(run_of(corpus, scores), stands_for)) for s, scores in matrices.items()}
    repeated = _repeated(corpus)
    return {
        "thresholds": {"hash_bits": HASH_BITS, "cosine": COSINE, "image_cosine": IMAGE_COSINE},
        "n_groups": len(members),
        "n_pages_in_groups": sum(map(len, members)),
        **_merged_chance(corpus, groups, merged),
        "groups": [
            {
                "pages": [corpus.page(corpus.keys[page]) for page in pages],
                "how": [
                    name for name, grouping in groupings.items() if len(set(grouping[pages].tolist())) < len(pages)
                ],
                "n_labelled": int(labelled[pages].sum()),
            }
            for pages in members[:_SHOWN]
        ],
        "systems": _with_and_without(values, without, judge),
        "n_repeated_queries": len(repeated),
        "repeated_queries": [each._asdict() for each in repeated[:_SHOWN]],
        "split": {"n_groups": len(np.unique(split)), "largest": int(np.bincount(split).max())},
    }


def _merged_chance(corpus: Corpus, groups: Int64, merged: Qrels) -> dict[str, Any]:
    """Return the number of pages that are searched once groups are one each, and what a random order of them gives."""
    searched = set(groups[corpus.findable].tolist())
    missing = {corpus.keys[group] for group in np.unique(groups).tolist() if group not in searched}
    by_query = random_baseline(merged, STANDARD, len(searched), missing)
    return {"n_pages_merged": len(searched), "random": {m: float(v.mean()) for m, v in by_query.items()}}


def _with_and_without(
    values: Mapping[str, Mapping[str, Float64]], without: Mapping[str, Mapping[str, Float64]], judge: Judge
) -> list[dict[str, Any]]:
    columns: dict[tuple[str, str, str], Float64] = {}
    for system, row in values.items():
        for measure, before in row.items():
            after = without[system][measure]
            columns |= {(system, measure, "with"): before, (system, measure, "without"): after}
            columns[system, measure, "difference"] = after - before
    found = judge.intervals(columns)
    return [
        {
            "system": system,
            "measures": {m: {way: found[system, m, way] for way in ("with", "without", "difference")} for m in row},
        }
        for system, row in values.items()
    ]


def _spread(groups: Int64, places: Int64, n: int) -> Int64:
    """Return groups of some pages, by their places, as groups of all n."""
    everywhere = np.arange(n)
    everywhere[places] = places[groups]
    return everywhere
