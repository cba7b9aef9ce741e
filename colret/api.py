"""An index as Python programs use it: searched by texts, pages and images, its model loaded once.

What it does is in the modules below; here they are put together as most callers want them.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn, Self

from colret.best_of_documents import best_of_documents
from colret.by_example import file_vectors, page_vectors, sample_query, search_vectors, stored_vectors
from colret.encoders import Encoder, blamed_on_model
from colret.index_encoder import scoring_device
from colret.lanes import Lane, default_lane
from colret.page_names import page_named
from colret.places import given_place
from colret.prefilter import Prefilter
from colret.report import IngestReport, Progress
from colret.results import Asked, Results, results_of
from colret.search import Ranking, Scope, embed, explain, fresh, pages_in_scope, rank, words_only
from colret.store import PageStore
from colret.types import DocumentRecord, Float32, IndexInfo, Page, PageRef, QueryEmbedding
from colret.verdicts import judge

StrPath = str | os.PathLike[str]

DEFAULT_K: Final = 10
"""Pages that a search returns."""


class Index:
    """An open index.

    Searches see what is in the index at that moment, whoever wrote it. Calls from several threads
    are safe and wait for one another; a process that forks opens its own.

    Args:
        store: The index's tables.
        encoder: The encoder that made it.
        device: Where MaxSim is computed: with the model, if that is on a GPU.
    """

    def __init__(self, store: PageStore, encoder: Encoder, *, device: str = "auto") -> None:
        self.path = store.location.folder or store.location  # printable, whichever it is
        self._store = store
        self._encoder = encoder
        self._device = device
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        """Return the index."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let go of the model and of what was read; hits that are kept hold on to what they need."""
        del self._store, self._encoder

    if not TYPE_CHECKING:  # which would take any name for one of ours

        def __getattr__(self, name: str) -> NoReturn:
            """Tell of what ``__exit__`` let go.

            Raises:
                ValueError: If the index is closed.
            """
            if name in ("_store", "_encoder"):
                raise ValueError(f"the index at {self.path} is closed: open it again")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def search(
        self,
        text: str,
        k: int = DEFAULT_K,
        *,
        lane: Lane | None = None,
        where: str | None = None,
        docs: Sequence[str] = (),
        per_document: bool = False,
        prefilter: str | None = None,
        n_candidates: int | None = None,
    ) -> Results:
        """Return the ``k`` best pages for a text; arguments as for ``search_many``."""
        [results] = self.search_many(
            [text],
            k,
            lane=lane,
            where=where,
            docs=docs,
            per_document=per_document,
            prefilter=prefilter,
            n_candidates=n_candidates,
        )
        return results

    def search_many(
        self,
        texts: Sequence[str],
        k: int = DEFAULT_K,
        *,
        lane: Lane | None = None,
        where: str | None = None,
        docs: Sequence[str] = (),
        per_document: bool = False,
        prefilter: str | None = None,
        n_candidates: int | None = None,
    ) -> list[Results]:
        """Return the ``k`` best pages for each of many texts, which share the reading.

        Args:
            texts: Queries.
            k: Pages to return; an index of fewer returns them all.
            lane: "visual", "text" or "both": see ``lanes``; by default what suits the encoder.
            where: A condition in SQL on pages: see ``filters``.
            docs: Documents to search: paths, globs or ids: see ``filters``.
            per_document: Return only the best page of each document.
            prefilter: How candidates are chosen, "none" scoring every page: see ``prefilter``.
            n_candidates: How many are.

        Raises:
            ValueError: If ``k`` or ``n_candidates`` is below 1, the prefilter or lane is unknown,
                or a text has no tokens or too many characters.
            FilterError: If ``where`` is no condition, ``docs`` name nothing, or no page passes.
            StoreError: If the index holds no pages, or its model is another now.
            ModelError: If the model cannot be loaded, or fails.
        """
        with self._lock:
            store, scope = self._store, _scope(where, docs)
            if prefilter is not None:
                Prefilter.parse(prefilter)
            fresh(store, lambda: pages_in_scope(store, scope))  # what is wrong is told before a model is loaded
            lane = lane or default_lane(store.settings)
            queries = words_only(texts) if lane == "text" else self._embed(texts)
            ranked = functools.partial(
                rank,
                store,
                prefilter=prefilter,
                n_candidates=n_candidates,
                scope=scope,
                device="cpu" if lane == "text" else scoring_device(self._device, store.settings.model),
                lane=lane,
            )
            if per_document:
                rankings = [best_of_documents(lambda n, each=each: ranked([each], k=n)[0], k) for each in queries]  # type: ignore[misc]
            else:
                rankings = ranked(queries, k=k)
            return [self._results(*each) for each in zip(texts, queries, rankings, strict=True)]

    def like(
        self,
        file: StrPath,
        page: int = 1,
        k: int = DEFAULT_K,
        *,
        where: str | None = None,
        docs: Sequence[str] = (),
        per_document: bool = False,
    ) -> Results:
        """Return the ``k`` pages most like a page of the index, which is left out.

        Args:
            file: Its document: a path, a glob, or the beginning of an id.
            page: Its number.
            k: Pages to return.
            where: As for ``search_many``, as are the others.
            docs: Documents to search.
            per_document: Return only the best page of each document.

        Raises:
            ColretError: If ``file`` names several documents.
            FilterError: If it names none, and as ``search_many``.
            StoreError: If the index does not hold the page.
        """
        with self._lock:
            ref, _ = fresh(self._store, lambda: page_named(self._store, os.fspath(file), page))
            vectors = stored_vectors(self._store, ref)
            return self._like(f"{file}#{page}", vectors, k, _scope(where, docs), ref, per_document)

    def search_image(
        self,
        path: StrPath,
        page: int = 1,
        k: int = DEFAULT_K,
        *,
        where: str | None = None,
        docs: Sequence[str] = (),
        per_document: bool = False,
    ) -> Results:
        """Return the ``k`` pages most like a page of any file: an image, a PDF; arguments as for ``like``.

        Raises:
            DocumentError: If the file or its page cannot be read, or has nothing that the model reads.
            ModelError: If the model cannot be loaded, or fails.
            FilterError: As for ``search_many``.
        """
        with self._lock:
            vectors = file_vectors(
                self._store, self._encoder, given_place(os.fspath(path), self._store.location.options), number=page
            )
            return self._like(f"{path}#{page}", vectors, k, _scope(where, docs), None, per_document)

    def search_page(
        self,
        page: Page,
        name: str,
        k: int = DEFAULT_K,
        *,
        where: str | None = None,
        docs: Sequence[str] = (),
        per_document: bool = False,
    ) -> Results:
        """Return the ``k`` pages most like a page that was read before; the other arguments as for ``like``.

        Args:
            page: As the model reads pages: with words or an image.
            name: What to call it.
            k: Pages to return.
            where: As for ``like``, as are the others.
            docs: Documents to search.
            per_document: Return only the best page of each document.

        Raises:
            DocumentError: If the page has nothing that the model reads.
            ModelError, FilterError: As for ``search_image``.
        """
        with self._lock:
            vectors = page_vectors(self._store, self._encoder, page, name)
            return self._like(name, vectors, k, _scope(where, docs), None, per_document)

    def ingest(
        self,
        *paths: StrPath,
        prune: bool = False,
        retry_failed: bool = False,
        passwords: Sequence[str] = (),
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> IngestReport:
        """Bring the index up to date with files and folders; arguments as for ``ingest.ingest``.

        Raises:
            StoreError: If the index is being written to by another process, or cannot be.
            ModelError: If the model cannot be loaded.
        """
        from colret.ingest import ingest  # reads files, which a search need not know how to

        with self._lock:
            return ingest(
                [os.fspath(path) for path in paths],
                self._store,
                self._encoder,
                prune=prune,
                retry_failed=retry_failed,
                passwords=passwords,
                on_progress=on_progress,
            )

    def documents(self) -> list[DocumentRecord]:
        """Return what the index knows of each document, failed ones too, ordered by path."""
        with self._lock:
            self._store.refresh()
            return self._store.documents()

    def info(self) -> IndexInfo:
        """Count what the index holds and the bytes it takes on disk."""
        with self._lock:
            self._store.refresh()
            return self._store.info()

    def _embed(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        with blamed_on_model(self._store.settings.model, but=(ValueError,)):
            return embed(self._store, self._encoder, texts)

    def _like(
        self, name: str, vectors: Float32, k: int, scope: Scope, leave_out: PageRef | None, per_document: bool
    ) -> Results:
        device = scoring_device(self._device, self._store.settings.model)

        def ranked(n: int) -> Ranking:
            return search_vectors(self._store, vectors, k=n, scope=scope, device=device, leave_out=leave_out)

        ranking = best_of_documents(ranked, k) if per_document else ranked(k)
        return self._results(name, sample_query(self._store, vectors), ranking)

    def _results(self, text: str, query: QueryEmbedding, ranking: Ranking) -> Results:
        def encoded() -> QueryEmbedding:  # the text lane has not needed it
            return query if len(query.vectors) else self._embed([text])[0]

        explanations = explain(self._store, query, ranking.hits)
        verdict = judge(self._store, query, ranking) if query.text else None
        asked = Asked(self._store, self._encoder, self._lock, encoded)
        return results_of(text, ranking, explanations, verdict, asked)


def _scope(where: str | None, docs: Sequence[str]) -> Scope:
    """Return which pages may be found; one name by itself is a sequence too, of letters."""
    return Scope(where, (docs,) if isinstance(docs, str) else tuple(docs))
