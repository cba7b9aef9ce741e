"""Models of their own that late interaction is compared with, loaded when they are first asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from PIL import Image

from colret.reading import open_document
from colret.types import EncoderInfo, PageRef
from colret_eval.chunks import ChunkEncoder, Chunks
from colret_eval.evaluation.corpus import Corpus
from colret_eval.evaluation.page_documents import name_in_keys

if TYPE_CHECKING:
    from colret_eval.bi_encoder import BiEncoder


class Baselines:
    """MiniLM, which knows each text once, and a single-vector vision model.

    Args:
        info: The encoder that is evaluated, whose family the vision model should be of.
        bi_model: Folder or hub name of another one.
        device: Where the vision model runs.
    """

    def __init__(self, info: EncoderInfo, bi_model: str | None = None, device: str = "auto") -> None:
        self.chunks = Chunks(load_chunk_encoder)
        self._family, self._bi_model, self._device = info.family, bi_model, device
        self.bi_encoder = functools.cache(self._load_bi_encoder)

    def _load_bi_encoder(self) -> BiEncoder | None:
        """Return the single-vector model, None where nobody has named one.

        Raises:
            ModelError: If it cannot be had.
        """
        from colret_eval.bi_encoder import COUNTERPARTS, BiEncoder

        name = self._bi_model or COUNTERPARTS.get(self._family)
        return BiEncoder(name, self._device) if name else None


def load_chunk_encoder() -> ChunkEncoder:
    """Load MiniLM from the files that come with the installation, in the precision that pages are encoded in."""
    from colret.encoders.embedded import embedded_folder
    from colret.encoders.text import text_placement

    return ChunkEncoder(embedded_folder(), str(text_placement("cpu").dtype).removeprefix("torch."))


def page_images(corpus: Corpus, pixels: int) -> Iterator[tuple[int, Image.Image]]:
    """Yield the column and the image of each page that can be found.

    Raises:
        ColretError: A page has no image.
    """
    columns: dict[str, list[tuple[int, PageRef]]] = {}
    for column, key in enumerate(corpus.keys):
        if corpus.findable[column]:
            ref = PageRef.parse(key)
            columns.setdefault(ref.doc_id, []).append((column, ref))
    for name, path in corpus.dataset.documents.items():
        wanted = columns.get(name_in_keys(name), [])
        if wanted:
            with open_document(path) as document:
                for column, ref in wanted:
                    image = document.read_page(ref.number, ref=ref, pixels=pixels, ocr=False).image
                    assert image is not None  # pixels were asked for
                    yield column, image
    for name, pages in corpus.dataset.page_documents.items():
        for column, ref in columns.get(name_in_keys(name), []):
            image = pages.read_page(ref.number, ref=ref, pixels=pixels, ocr=False).image
            assert image is not None
            yield column, image
