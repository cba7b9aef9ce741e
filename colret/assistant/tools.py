"""What the tools do: read the index as it is then, and change nothing."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from colret.api import Index
from colret.assistant.answers import (
    Answer,
    Documents,
    Found,
    FoundPage,
    FoundRegion,
    IndexSummary,
    ListedDocument,
    ReadPage,
)
from colret.assistant.arguments import (
    MAX_CHARACTERS,
    IndexInfoArguments,
    ListDocumentsArguments,
    ReadPageArguments,
    SearchArguments,
)
from colret.calibration import load_calibration
from colret.characters import running_text
from colret.encoders import Encoder
from colret.errors import StoreError
from colret.evidence import Evidence
from colret.lanes import default_lane
from colret.originals import find_original
from colret.page_images import page_image
from colret.page_names import page_named
from colret.results import Hit, Results
from colret.search import fresh
from colret.store import PageStore
from colret.types import DocumentRecord, PageDetails

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_IMAGE_BYTES: Final = 1_500_000
"""Of a page's PNG, which an answer carries as a third more characters."""

_SMALLER = 0.8  # times the size, while that is too much
_LONGEST_REGION = 500  # characters of its text


class Given(NamedTuple):
    """What a tool gives."""

    answer: Answer
    png: bytes | None = None


class IndexTools:
    """The tools over an index, whose model is loaded by the first search that needs it.

    Args:
        store: The index.
        encoder: The encoder that made it.
        device: As for ``colret.open``.
    """

    def __init__(self, store: PageStore, encoder: Encoder, *, device: str = "auto") -> None:
        self._store = store
        self._index = Index(store, encoder, device=device)

    def search(self, asked: SearchArguments) -> Given:
        """Rank pages."""
        results = self._index.search(
            asked.text, asked.k, lane=asked.lane, where=asked.where, docs=asked.docs, per_document=asked.per_document
        )
        verdict = results.verdict
        assert verdict is not None  # only a query by example has none
        return Given(
            Found(
                text=results.query,
                lane=results.lane,
                n_pages=results.n_pages,
                n_scored=results.n_scored,
                answered=not verdict.unanswered,
                probability=verdict.probability,
                odds=verdict.odds or None,
                basis=verdict.basis,
                caveat=verdict.caveat or None,
                hits=[_found(*each) for each in zip(results, _evidence(results), strict=True)],
            )
        )

    def read_page(self, asked: ReadPageArguments) -> Given:
        """Return a page's text and, if asked for, its image."""
        page, file = fresh(self._store, lambda: self._page(asked.file, asked.page))
        text = running_text(page.words.texts)
        end = asked.offset + MAX_CHARACTERS
        answer = ReadPage(
            file=file,
            page=page.ref.number,
            page_id=page.ref.page_id,
            width=round(page.width, 2),
            height=round(page.height, 2),
            text=text[asked.offset : end],
            n_characters=len(text),
            next_offset=end if end < len(text) else None,
        )
        if not asked.image:
            return Given(answer)
        return Given(
            answer, bounded_png(page_image(find_original(self._store, page.ref.doc_id), page.ref, size=asked.size))
        )

    def list_documents(self, asked: ListDocumentsArguments) -> Given:
        """List documents, ordered by path."""
        wanted = (asked.contains or "").casefold()
        known = [record for record in self._index.documents() if record.status != "replaced"]
        records = [record for record in known if any(wanted in file.path.casefold() for file in record.files)]
        end = asked.offset + asked.limit
        listed = [_listed(record, wanted) for record in records[asked.offset : end]]
        return Given(
            Documents(
                documents=listed,
                n_documents=len(records),
                n_indexed=len(known),
                next_offset=end if end < len(records) else None,
            )
        )

    def index_info(self, asked: IndexInfoArguments) -> Given:
        """Count what the index holds."""
        info = self._index.info()
        calibration = load_calibration(self._store)
        return Given(
            IndexSummary(
                model=info.settings.model,
                n_documents=info.n_documents,
                n_failed_documents=info.n_failed,
                n_pages=info.n_pages,
                n_blank_pages=info.n_blank,
                n_unreadable_pages=info.n_skipped_pages,
                n_vectors=info.n_vectors,
                codec=info.settings.codec,
                dimensions=info.settings.stored_dim,
                bytes=info.bytes_on_disk,
                default_lane=default_lane(info.settings),
                calibrated=calibration is not None and not calibration.misfit(info.settings, info.n_pages),
                created=info.settings.created,
            )
        )

    def _page(self, name: str, number: int) -> tuple[PageDetails, str]:
        ref, place = page_named(self._store, name, number)
        file = self._store.paths([ref.doc_id])[ref.doc_id][0]
        if place is None:
            problem = "the index holds nothing of it: it is blank, unreadable, or there is no such page"
            raise StoreError(f"{file} page {number}", problem, "choose one that search finds")
        return self._store.details([place.row_id])[0], file


def _evidence(results: Results) -> Sequence[Evidence | None]:
    """Return what of each hit matched; the text lane has it only from the model, which it does without."""
    return [None] * len(results) if results.lane == "text" else results.evidence()


def _found(hit: Hit, evidence: Evidence | None) -> FoundPage:
    regions = evidence.regions if evidence else ()
    return FoundPage(
        rank=hit.rank,
        file=hit.file,
        page=hit.page,
        page_id=hit.page_id,
        score=round(hit.score, 6),
        snippet=hit.snippet,
        below_floor=hit.below_floor,
        contents_page=hit.contents_page,
        regions=[
            FoundRegion(
                box=[round(edge, 1) for edge in region.box],
                share=round(region.score, 4),
                text=evidence.text_in(region.box)[:_LONGEST_REGION] if evidence else "",
            )
            for region in regions
        ],
    )


def _listed(record: DocumentRecord, wanted: str) -> ListedDocument:
    failed = record.status == "failed"
    return ListedDocument(
        doc_id=record.doc_id,
        file=next(file.path for file in record.files if wanted in file.path.casefold()),
        more_files=len(record.files) - 1,
        n_pages=record.n_pages,
        status="failed" if failed else "done",
        problem=f"{record.reason}: {record.message}" if failed else None,
    )


def bounded_png(image: Image) -> bytes:
    """Return an image as PNG of at most ``MAX_IMAGE_BYTES``, made smaller where it has to be."""
    png = _as_png(image)
    while len(png) > MAX_IMAGE_BYTES:
        image = image.resize(_smaller(image.size))
        png = _as_png(image)
    return png


def _smaller(size: tuple[int, int]) -> tuple[int, int]:
    width, height = (max(1, int(side * _SMALLER)) for side in size)
    return width, height


def _as_png(image: Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    return stream.getvalue()
