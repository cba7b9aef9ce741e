"""Encode page images with a late-interaction vision model of colpali-engine.

Pages and queries are prepared one by one and only those of equal length go through the model
together, so no batch holds padding: an embedding cannot depend on the company it was computed
in, beyond the order in which a device adds numbers up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colret.encoders.batches import Prepared, run_batches, unpad
from colret.encoders.checkpoints import resolve_checkpoint
from colret.encoders.devices import Placement, choose_placement
from colret.encoders.families import N_AUGMENTATION, Family
from colret.encoders.geometry import page_boxes, pixels_used
from colret.encoders.sources import OTHERWISE, Source, find_source
from colret.encoders.vision_weights import load_model, load_processor
from colret.encoders.weights import quiet_transformers
from colret.errors import ModelError
from colret.scoring import normalize_rows
from colret.types import Boxes, EncoderInfo, Float32, Page, PageEmbedding, QueryEmbedding

if TYPE_CHECKING:
    import torch

_QUERIES_PER_PAGE = 16  # queries that take about as much memory as one page


def load_colpali(
    name: str,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    batch_size: int | None = None,
    image_tokens_only: bool = False,
) -> ColPaliEncoder:
    """Load a checkpoint of the ColPali family: a full model, or a LoRA adapter and its base.

    Args:
        name: A local folder, or a name on the Hugging Face hub.
        revision: A branch, tag or commit of the hub's repository.
        device: "auto", or a torch device such as "cpu" or "cuda:1".
        dtype: "auto", "float32", "bfloat16" or "float16".
        batch_size: Pages encoded together; by default what suits the device.
        image_tokens_only: Leave out the vectors of the prompt around the image.

    Raises:
        ValueError: If an option has no such value.
        ModelError: If the checkpoint cannot be had, or its weights do not fit the model.
    """
    placement = choose_placement(device, dtype, batch_size)
    return open_colpali(find_source(name, revision), placement, image_tokens_only=image_tokens_only)


def open_colpali(source: Source, placement: Placement, *, image_tokens_only: bool = False) -> ColPaliEncoder:
    """Load the checkpoint whose files lie in ``source``; otherwise as ``load_colpali``."""
    checkpoint = resolve_checkpoint(source)
    processor = load_processor(checkpoint)
    model = load_model(checkpoint, placement.device, placement.dtype)
    info = EncoderInfo(
        name=source.name,
        family=checkpoint.family.name,
        revision=checkpoint.revision,
        dim=int(model.dim),
        query_template=checkpoint.family.query_template(processor.query_augmentation_token),
        reads="image",
        render_pixels=pixels_used(checkpoint.family.layout, processor),
        page_tokens="image" if image_tokens_only else "all",
    )
    return ColPaliEncoder(model, processor, checkpoint.family, info, placement)


class ColPaliEncoder:
    """A loaded vision model: turns page images and queries into multivectors.

    Args:
        model: A model of colpali-engine on its device.
        processor: What prepares images and texts for it.
        family: The row of the table that both come from.
        info: What an index must know of this encoder.
        placement: Device, precision and batch size.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        family: Family,
        info: EncoderInfo,
        placement: Placement,
    ) -> None:
        self.info = info
        self.batch_size = placement.batch_size
        self._model = model
        self._processor = processor
        self._family = family
        self._device = placement.device
        # The model's, not the processor's: Gemma 3's calls the token before an image by that name.
        self._image_token = int(model.config.image_token_id)
        added = processor.tokenizer.added_tokens_decoder.values()
        self._special_tokens = [str(token) for token in added if token.special]

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Return one multivector per page, independent of which pages come together.

        Returns:
            For each page (P, D) float32 unit rows and their (P, 4) uint16 boxes.

        Raises:
            ValueError: If a page comes without its image.
            ModelError: If a page cannot be processed, needs too much memory, or the model
                returns something that is not a direction.
        """
        embeddings: list[PageEmbedding] = []
        chunk_size = self.batch_size  # which may shrink on the way
        for start in range(0, len(pages), chunk_size):
            chunk = pages[start : start + chunk_size]
            prepared = [self._prepare_page(page) for page in chunk]
            vectors, self.batch_size = run_batches(prepared, self._forward, self.batch_size)
            embeddings += map(self._locate, chunk, prepared, vectors)
        return embeddings

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Return one multivector per query, independent of which queries come together.

        Returns:
            For each query (T, D) float32 unit rows and the T tokens they stand for.

        Raises:
            ValueError: If a text is empty.
            ModelError: If the model returns something that is not a direction.
        """
        prepared = [self._prepare_query(text) for text in texts]
        vectors, _ = run_batches(prepared, self._forward, self.batch_size * _QUERIES_PER_PAGE)
        tokens = map(self._tokens, prepared)
        return [QueryEmbedding(rows, names) for rows, names in zip(vectors, tokens, strict=True)]

    def _prepare_page(self, page: Page) -> Prepared:
        if page.image is None:
            raise ValueError(f"{page.ref.page_id} comes without its image, which this encoder reads")
        try:
            with quiet_transformers():
                inputs = self._processor.process_images([page.image])
        except ValueError as error:  # a shape that the image processor refuses, such as 1 x 300
            problem = f"the model cannot take this page: {error}"
            raise ModelError(page.ref.page_id, problem, "leave this page out") from error
        return Prepared(page.ref.page_id, self._model_inputs(inputs))

    def _prepare_query(self, text: str) -> Prepared:
        if not text.strip():
            raise ValueError("a query needs at least one word")
        for token in self._special_tokens:  # typed by a user they are text, not instructions to the model
            text = text.replace(token, f"{token[0]} {token[1:]}")
        suffix = self._processor.query_augmentation_token * N_AUGMENTATION
        with quiet_transformers():
            inputs = self._processor.process_texts([self._family.query_prefix + text + suffix])
        return Prepared(f"query {text!r}", self._model_inputs(inputs))

    def _model_inputs(self, inputs: Any) -> dict[str, torch.Tensor]:
        # PaliGemma's processor adds training labels, for which the model would compute a loss.
        kept = {key: value for key, value in inputs.items() if key != "labels"}
        if self._family.prefix_attention and "token_type_ids" not in kept:
            # The engine omits them for queries, and transformers 5 then decides by whether the
            # batch has padding if a token sees the later ones. The models were trained to see all.
            kept["token_type_ids"] = kept["input_ids"].new_zeros(kept["input_ids"].shape)
        return kept

    def _forward(self, batch: Sequence[Prepared]) -> list[Float32]:
        import torch

        keys = batch[0].inputs
        inputs = {key: torch.cat([item.inputs[key] for item in batch]).to(self._device) for key in keys}
        with torch.inference_mode():
            outputs = self._model(**inputs)
        rows = unpad(outputs.float().cpu().numpy(), inputs["attention_mask"].cpu().numpy())
        return [self._unit_rows(item.name, vectors) for item, vectors in zip(batch, rows, strict=True)]

    def _unit_rows(self, name: str, vectors: Float32) -> Float32:
        try:
            return normalize_rows(vectors)
        except ValueError as error:
            problem = f"{self.info.name} gave no direction for a token: {error}"
            raise ModelError(name, problem, f"try --dtype float32, {OTHERWISE}") from error

    def _locate(self, page: Page, prepared: Prepared, vectors: Float32) -> PageEmbedding:
        assert page.image is not None  # _prepare_page refused it
        is_image = self._image_mask(prepared)
        inputs, processor = prepared.inputs, self._processor
        try:
            boxes: Boxes = page_boxes(self._family.layout, is_image, inputs, processor, page.image.size)
        except ValueError as error:  # a processor set up as none of its family is published
            raise ModelError(
                page.ref.page_id, f"its vectors have no known places: {error}", "try another model"
            ) from error
        if self.info.page_tokens == "image":
            return PageEmbedding(vectors[is_image], boxes[is_image])
        return PageEmbedding(vectors, boxes)

    def _image_mask(self, prepared: Prepared) -> NDArray[np.bool_]:
        ids = prepared.inputs["input_ids"][0].numpy()[prepared.inputs["attention_mask"][0].numpy() == 1]
        mask: NDArray[np.bool_] = ids == self._image_token
        return mask

    def _tokens(self, prepared: Prepared) -> tuple[str, ...]:
        tokenizer = self._processor.tokenizer
        ids = prepared.inputs["input_ids"][0].tolist()
        pieces = tokenizer.convert_ids_to_tokens(ids)
        return tuple(tokenizer.decode([i]).strip() or piece for i, piece in zip(ids, pieces, strict=True))
