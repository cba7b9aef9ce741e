"""How what was found becomes what is answered."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest

from colret.evidence import Evidence
from colret.results import Hit
from colret.service.answers import (
    Box,
    DocumentAnswer,
    EvidenceAnswer,
    HitAnswer,
    IndexAnswer,
    PageAnswer,
    RegionAnswer,
    SearchAnswer,
    TokenAnswer,
    VerdictAnswer,
)
from colret.service.findings import Found, ShownPage
from colret.types import DocumentRecord, IndexInfo
from colret.verdicts import Verdict


class Names:
    """Files as they are told: whole, or without their folders."""

    def __init__(self, *, hide_paths: bool) -> None:
        self._hidden = hide_paths

    def __call__(self, path: str) -> str:
        """Return a file's name as it may be told."""
        return os.path.basename(path) if self._hidden else path


def search_answer(found: Found, names: Names) -> SearchAnswer:
    """Return what is told of a search."""
    results = found.results
    return SearchAnswer(
        query=results.query,
        lane=results.lane,
        n_pages=results.n_pages,
        n_scored=results.n_scored,
        verdict=None if results.verdict is None else _verdict(results.verdict),
        hits=[
            _hit(hit, evidence, found.documents.get(hit.doc_id), names)
            for hit, evidence in zip_longest(results, found.evidence or [])
        ],
    )


def document_answer(record: DocumentRecord, names: Names) -> DocumentAnswer:
    """Return what is told of a document."""
    paths = _paths([file.path for file in record.files], names)
    changed = max((file.mtime_ns for file in record.files), default=0)
    return DocumentAnswer(
        doc_id=record.doc_id,
        file=paths[0] if paths else "",
        paths=paths,
        status=record.status,
        reason=record.reason or None,
        n_pages=record.n_pages,
        n_blank=record.n_blank,
        skipped=[page.number for page in record.skipped],
        size=record.size,
        modified=datetime.fromtimestamp(changed / 1e9, UTC) if changed else None,
    )


def page_answer(shown: ShownPage, names: Names) -> PageAnswer:
    """Return what is told of a page."""
    paths = _paths([file.path for file in shown.document.files], names)
    snippet = None if shown.evidence is None else shown.evidence.snippet
    return PageAnswer(
        doc_id=shown.ref.doc_id,
        page=shown.ref.number,
        n_pages=shown.document.n_pages,
        file=paths[0] if paths else "",
        paths=paths,
        indexed=shown.details is not None,
        text="" if shown.details is None else shown.details.words.text,
        snippet="" if snippet is None else snippet.text,
        highlights=[] if snippet is None else list(snippet.highlights),
        evidence=None if shown.evidence is None else evidence_answer(shown.evidence),
    )


def index_answer(info: IndexInfo, version: str, *, needs_key: bool, most_hits: int) -> IndexAnswer:
    """Return what is told of the index."""
    return IndexAnswer(
        version=version,
        model=os.path.basename(info.settings.model.rstrip("/")),  # of a folder its name
        codec=info.settings.codec,
        n_documents=info.n_documents,
        n_failed=info.n_failed,
        n_pages=info.n_pages,
        n_blank=info.n_blank,
        n_vectors=info.n_vectors,
        bytes=info.bytes_on_disk,
        needs_key=needs_key,
        most_hits=most_hits,
    )


def evidence_answer(evidence: Evidence) -> EvidenceAnswer:
    """Return what is told of where a page matched."""
    return EvidenceAnswer(
        width=round(evidence.page.width, 2),
        height=round(evidence.page.height, 2),
        regions=[
            RegionAnswer(
                box=_rounded(region.box),
                score=round(region.score, 4),
                tokens=list(filter(None, region.tokens)),
                text=evidence.text_in(region.box),
            )
            for region in evidence.regions
        ],
        tokens=[
            TokenAnswer(token=each.token, similarity=round(each.similarity, 4), box=_rounded(each.box))
            for each in evidence.tokens
            if each.token  # those of a page that is asked with have no text
        ],
        coarse=evidence.coarse or None,
    )


def _hit(hit: Hit, evidence: EvidenceAnswer | None, document: DocumentRecord | None, names: Names) -> HitAnswer:
    return HitAnswer(
        rank=hit.rank,
        doc_id=hit.doc_id,
        page=hit.page,
        page_id=hit.page_id,
        n_pages=hit.page if document is None else document.n_pages,
        file=names(hit.file),
        paths=_paths(hit.paths, names),
        score=round(hit.score, 6),
        maxsim=round(hit.maxsim, 6),
        bm25=round(hit.bm25, 6),
        contents_page=hit.contents_page,
        below_floor=hit.below_floor,
        snippet=hit.snippet,
        highlights=list(hit.highlights),
        evidence=evidence,
    )


def _verdict(verdict: Verdict) -> VerdictAnswer:
    return VerdictAnswer(
        basis=verdict.basis,
        unanswered=verdict.unanswered,
        probability=verdict.probability,
        caveat=verdict.caveat or None,
    )


def _paths(paths: Sequence[str], names: Names) -> list[str]:
    return [names(path) for path in paths]


def _rounded(box: Box) -> Box:
    left, top, right, bottom = (round(value, 2) for value in box)
    return left, top, right, bottom
