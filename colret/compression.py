"""From an encoder's vectors to those that are stored: pooled, then projected."""

from __future__ import annotations

from dataclasses import dataclass, replace

from colret.pooling import ward_pool
from colret.projection import project
from colret.types import Float32, PageEmbedding, QueryEmbedding


@dataclass(frozen=True, slots=True)
class Compression:
    """What an index does to vectors before its codec; to a query's, the projection alone."""

    pool: int = 1  # vectors of a page that become one
    matrix: Float32 | None = None  # (D, d) float32 with orthonormal columns

    def page(self, embedding: PageEmbedding) -> PageEmbedding:
        """Return the vectors of a page as they are stored, (ceil(P / pool), d)."""
        vectors, boxes = embedding.vectors, embedding.boxes
        if self.pool > 1 and len(vectors):
            vectors, boxes = ward_pool(vectors, boxes, self.pool)
        return PageEmbedding(self._projected(vectors), boxes)

    def query(self, query: QueryEmbedding) -> QueryEmbedding:
        """Return a query whose vectors can be compared with stored ones, (T, d)."""
        return replace(query, vectors=self._projected(query.vectors))

    def _projected(self, vectors: Float32) -> Float32:
        return vectors if self.matrix is None or not len(vectors) else project(vectors, self.matrix)
