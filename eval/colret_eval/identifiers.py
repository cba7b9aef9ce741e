"""Queries that are rare identifiers: words with digits or underscores that stand on one page or two."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import numpy as np

from colret_eval.measures import Qrels

MOST_PAGES: Final = 2
_SHORTEST, _LONGEST = 4, 30  # characters
_IDENTIFIER = re.compile(r"(?=.*[A-Za-z])(?=.*[\d_])[A-Za-z\d][\w./:@+-]*[A-Za-z\d]")
_AROUND = ".,;:()[]{}<>\"'\u201c\u201d\u2018\u2019"


def identifier_queries(pages: Mapping[str, str], n: int, rng: np.random.Generator) -> tuple[dict[str, str], Qrels]:
    """Return up to ``n`` identifiers drawn from the pages, and the pages that each stands on, as queries and qrels.

    Args:
        pages: Page key to text.
        n: Most queries.
        rng: Draws them.
    """
    found: dict[str, set[str]] = {}
    for key, text in pages.items():
        for word in {word.strip(_AROUND) for word in text.split()}:
            if _SHORTEST <= len(word) <= _LONGEST and _IDENTIFIER.fullmatch(word):
                found.setdefault(word, set()).add(key)
    rare = sorted(word for word, keys in found.items() if len(keys) <= MOST_PAGES)
    drawn = sorted(rng.permutation(rare)[:n].tolist()) if rare else []
    queries = {f"identifier-{i}": word for i, word in enumerate(drawn)}
    return queries, {query_id: dict.fromkeys(found[word], 1) for query_id, word in queries.items()}
