"""Where pages are lost: by the model, the storage, the prefilter or the ANN index, never in one number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from colret.compression import Compression
from colret.prefilter import DEFAULT_PREFILTER
from colret.scoring import mean_direction
from colret.search import DEFAULT_CANDIDATES
from colret.types import IndexSettings, QueryEmbedding
from colret_eval.evaluation.comparison import Judge
from colret_eval.evaluation.corpus import Corpus
from colret_eval.evaluation.systems import FLOAT32, REFERENCE, searched_scores
from colret_eval.matrices import Float32, first_columns
from colret_eval.stages import Rankings, Stage, kept, lost_at

K: Final = 10
OTHER_PREFILTERS: Final = ("sketch", "single")


def stage_losses(
    corpus: Corpus, matrices: Mapping[str, Float32], queries: Sequence[QueryEmbedding], judge: Judge
) -> tuple[dict[str, Any], dict[str, str | None]]:
    """Return the ``stages`` of a report, and by query id the stage that lost its last relevant page.

    Args:
        corpus: The set.
        matrices: Scores of the systems, among them the reference and float32.
        queries: With an answer, encoded.
        judge: Of the set.
    """
    n = len(corpus.query_ids)
    model, stored = (_rankings(corpus, matrices[system][:n], K) for system in (FLOAT32, REFERENCE))
    searched = {
        name: _rankings(corpus, searched_scores(corpus, queries, name, DEFAULT_CANDIDATES), K)
        for name in (DEFAULT_PREFILTER, *OTHER_PREFILTERS)
    }
    ann = _ann(corpus, queries)
    storage, what_is_stored = _storage(corpus.store.settings)
    shares = {name: kept(stored, ranking, K) for name, ranking in searched.items()} | {storage: kept(model, stored, K)}
    if ann:
        shares["ann"] = kept(*ann, DEFAULT_CANDIDATES)
    intervals = judge.intervals(shares)
    lost = lost_at(
        corpus.qrels,
        [Stage("model", model, K), Stage(storage, stored, K), Stage("prefilter", searched[DEFAULT_PREFILTER], K)],
    )
    counts = Counter(lost.values())
    rows = [
        _row("model", f"MaxSim of float32 vectors puts no relevant page among its first {K}", None, counts["model"]),
        _row(
            storage,
            f"share of the float32 top {K} that vectors stored as {what_is_stored} keep",
            intervals[storage],
            counts[storage],
        ),
        _row("prefilter", _keeps(DEFAULT_PREFILTER), intervals[DEFAULT_PREFILTER], counts["prefilter"], _small(corpus)),
        *(_row("prefilter", _keeps(name), intervals[name], None, "not what is shipped") for name in OTHER_PREFILTERS),
        _row(
            "ann",
            f"share of the flat search's first {DEFAULT_CANDIDATES} single vectors that the ANN index finds",
            intervals.get("ann"),
            None,
            "" if ann else "no ANN index: every single vector is compared, so none is lost",
        ),
    ]
    return {"k": K, "rows": rows, "found": counts[None], "n_queries": len(corpus.query_ids)}, lost


def _rankings(corpus: Corpus, scores: Float32, k: int) -> Rankings:
    """Return the first k pages of each answered query, those that can be found."""
    top = first_columns(scores, min(k, scores.shape[1]))
    return {
        query_id: [corpus.keys[column] for column in columns.tolist() if row[column] > -float("inf")]
        for query_id, row, columns in zip(corpus.query_ids, scores, top, strict=True)
    }


def _ann(corpus: Corpus, queries: Sequence[QueryEmbedding]) -> tuple[Rankings, Rankings] | None:
    """Return the flat and the indexed neighbours of each query's mean vector, if there is an ANN index."""
    store = corpus.store
    if store.ann_settings() is None:
        return None
    compression = Compression(matrix=store.projection())
    directions = [mean_direction(compression.query(query).vectors) for query in queries]
    flat, indexed = (
        {
            query_id: [page.ref.page_id for page in store.nearest(direction, DEFAULT_CANDIDATES, exact=exact)]
            for query_id, direction in zip(corpus.query_ids, directions, strict=True)
        }
        for exact in (True, False)
    )
    return flat, indexed


def _storage(settings: IndexSettings) -> tuple[str, str]:
    """Return the name of the stage between the model and the index, the codec only where nothing else is done."""
    if settings.stored_dim == settings.dim and settings.pool == 1:
        return "codec", settings.codec
    dims = f"{settings.stored_dim} of {settings.dim} dimensions"
    return "storage", f"{settings.codec}, {dims}, pool {settings.pool}, together,"


def _keeps(prefilter: str) -> str:
    return f"share of the exact top {K} that {DEFAULT_CANDIDATES} candidates of the prefilter {prefilter} keep"


def _small(corpus: Corpus) -> str:
    return f"all {corpus.n_pages} pages are candidates" if corpus.n_pages <= DEFAULT_CANDIDATES else ""


def _row(name: str, what: str, share: dict[str, Any] | None, lost: int | None, note: str = "") -> dict[str, Any]:
    return {"name": name, "what": what, "compared": lost is None, "note": note, "kept": share, "lost": lost}
