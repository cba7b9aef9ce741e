"""Token embeddings of a page's words: late interaction without a vision model.

Recipe: a page's word pieces in windows of equal length, for a model not trained for late
interaction at most 254 pieces between [CLS] and [SEP]; the last layer's vector of each piece
at unit length, in its word's box. Equal windows leave no short last one without context, and
a vector a piece beats the mean of each two (nDCG@10 of all-MiniLM-L6-v2 on 346 questions and
635 pages: 74.2; means of two 72.1; means of two in windows filled one after the other 71.0,
the difference of 3.2 being at least 0.8 at 95 %), at twice the bytes.

A page's windows are computed apart from all other pages', in tensors whose shapes depend on
that page alone. So its vectors are the same to the last bit whatever it is encoded with.

The embedded encoder's queries go through numpy instead of torch, whose import alone takes
several times as long as the rest of a search. The vectors are the same to about 1e-6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from colret.encoders.bert_numpy import BertInNumpy
from colret.encoders.devices import Placement, check_choice, choose_placement
from colret.encoders.embedded import EMBEDDED, REVISION, check_embedded, embedded_folder
from colret.encoders.pieces import NO_PIECE, framed, piece_boxes, windows
from colret.encoders.recipes import Frame, Recipe, plain_recipe, read_recipe
from colret.encoders.sources import Source
from colret.encoders.text_checkpoints import resolve_text_checkpoint
from colret.encoders.token_models import TokenModel, load_token_model
from colret.encoders.tokenization import load_tokenizer, whole_text
from colret.errors import ModelError
from colret.scoring import normalize_rows
from colret.types import EncoderInfo, Float32, Int64, Page, PageEmbedding, QueryEmbedding

WindowModel = Callable[[Int64, Int64, str], Float32]
"""Takes ids (n, L), mask (n, L) and a subject for messages, as ``TokenModel``; gives (n, L, D)."""


def load_embedded(*, device: str = "auto", dtype: str = "auto", queries_only: bool = False) -> TextEncoder:
    """Load the encoder that comes with the installation: offline, and right after it.

    Args:
        device: Where pages are encoded: "auto", or a torch device. Queries are on the CPU.
        dtype: Precision for pages, as for ``text_placement``; queries are always in float32.
        queries_only: Load the model for pages, and torch, only when the first pages come.

    Raises:
        ValueError: If an option has no such value.
        ModelError: If its files are missing or are not the genuine ones.
    """
    from tokenizers import Tokenizer

    check_choice(device, dtype)
    folder = embedded_folder()
    check_embedded(folder)

    def load_page_model() -> TokenModel:
        placement = text_placement(device, dtype)
        checkpoint = resolve_text_checkpoint(Source(EMBEDDED, folder, None))
        return load_token_model(checkpoint, placement.device).in_dtype(placement.dtype)

    query_model = BertInNumpy(folder, EMBEDDED)
    tokenizer = whole_text(Tokenizer.from_file(str(folder / "tokenizer.json")))
    recipe = plain_recipe(tokenizer)
    info = _info(EMBEDDED, REVISION, query_model.dim, recipe)
    encoder = TextEncoder(query_model, load_page_model, tokenizer, recipe, info)
    if not queries_only:
        encoder.page_model()  # now, so that its failure is not held against a page
    return encoder


def open_text(source: Source, *, device: str = "auto", dtype: str = "auto") -> TextEncoder:
    """Load the text checkpoint whose files lie in ``source``.

    Args:
        source: A BERT-type encoder, or a ColBERT-type one with its projection.
        device: "auto", or a torch device.
        dtype: Precision for pages, as for ``text_placement``; queries are always in float32.

    Raises:
        ValueError: If an option has no such value.
        ModelError: If the weights do not fit the model, or it wants something unknown.
    """
    placement = text_placement(device, dtype)
    checkpoint = resolve_text_checkpoint(source)
    tokenizer, filler = load_tokenizer(source.name, checkpoint.backbone)
    model = load_token_model(checkpoint, placement.device)
    recipe = read_recipe(
        checkpoint, tokenizer, filler, _positions(model.backbone.config, checkpoint.kind.skips_positions)
    )
    info = _info(source.name, source.revision(), model.dim, recipe)
    return TextEncoder(model, lambda: model.in_dtype(placement.dtype), tokenizer, recipe, info)


def _info(name: str, revision: str, dim: int, recipe: Recipe) -> EncoderInfo:
    return EncoderInfo(
        name=name,
        family="text",
        revision=revision,
        dim=dim,
        query_template=recipe.template,
        reads="words",
        render_pixels=0,
    )


def text_placement(device: str = "auto", dtype: str = "auto") -> Placement:
    """Resolve where a text model runs; ``"auto"`` is bfloat16 where the processor has it.

    Raises:
        ValueError: If the device or the dtype is unknown.
        ModelError: If this machine does not have that device.
    """
    placement = choose_placement(device, dtype)
    if dtype == "auto" and placement.device.type == "cpu" and _has_bfloat16():
        return choose_placement(device, "bfloat16")
    return placement


class TextEncoder:
    """An ``Encoder`` over words; see the module's docstring for the recipe.

    Args:
        query_model: The model, in float32: a query is short, and its error would count for every page.
        load_page_model: Gives the model for pages, in their precision; called when the first pages come.
        tokenizer: A ``tokenizers.Tokenizer`` that neither truncates nor pads.
        recipe: What to put around pages and queries, and which vectors count.
        info: What an index must know of this encoder.
    """

    def __init__(
        self,
        query_model: WindowModel,
        load_page_model: Callable[[], TokenModel],
        tokenizer: Any,
        recipe: Recipe,
        info: EncoderInfo,
    ) -> None:
        self.info = info
        self._query_model = query_model
        self.page_model = functools.cache(load_page_model)
        self._tokenizer = tokenizer
        self._recipe = recipe
        self._pool: ThreadPoolExecutor | None = None

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Return one multivector per page, one vector a word piece.

        Raises:
            ModelError: If memory runs out, or the model returns a vector without a direction.
        """
        if self.page_model().device.type != "cpu":  # loads it, before the workers could race for it
            return [self._encode_page(page) for page in pages]
        return list(self._workers().map(self._encode_page, pages))

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Return one multivector per query, one vector a word piece.

        Raises:
            ValueError: If a text has no tokens.
        """
        return [self._encode_query(text) for text in texts]

    def _workers(self) -> ThreadPoolExecutor:
        """Return one worker a core, each computing on one: a page is too small to share out.

        Two threads inside each operation gave a tenth of this on a busy machine, waiting for
        each other.
        """
        import torch

        if self._pool is None:
            n_threads = torch.get_num_threads()
            self._pool = ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,))
        return self._pool

    def _encode_page(self, page: Page) -> PageEmbedding:
        pieces = self._pieces(page.words.text)
        if not pieces.ids:
            return PageEmbedding(np.empty((0, self.info.dim), np.float32), np.empty((0, 4), np.uint16))
        ids, numbers, vectors = self._embed(self.page_model(), pieces.ids, self._recipe.page, page.ref.page_id)
        kept = ~np.isin(ids, list(self._recipe.unscored)) | (numbers == NO_PIECE)
        boxes = piece_boxes(page.words, pieces.offsets)
        return PageEmbedding(self._unit_rows(vectors[kept], page.ref.page_id), boxes[numbers[kept]])

    def _encode_query(self, text: str) -> QueryEmbedding:
        pieces = self._pieces(text)
        if not pieces.ids:
            raise ValueError("the query has no tokens")
        subject = f"query {text!r}"
        n_fillers = self._recipe.n_fillers(len(pieces.ids))
        ids, _, vectors = self._embed(self._query_model, pieces.ids, self._recipe.query, subject, n_fillers)
        return QueryEmbedding(self._unit_rows(vectors, subject), tuple(map(self._tokenizer.id_to_token, ids.tolist())))

    def _pieces(self, text: str) -> Any:
        valid = text.encode(errors="replace").decode()  # a lone surrogate, character by character
        return self._tokenizer.encode(valid, add_special_tokens=False)

    def _embed(
        self, model: WindowModel, pieces: list[int], frame: Frame, subject: str, n_fillers: int = 0
    ) -> tuple[Int64, Int64, Float32]:
        """Run pieces through the model, windows of one length together.

        Returns:
            (P,) ids of the tokens whose vectors count; (P,) which piece each is, or ``NO_PIECE``;
            (P, D) float32 vectors.
        """
        after = [*frame.after, *[self._recipe.filling.token] * n_fillers]
        parts = []
        for window in windows(len(pieces), frame.window):
            ids = framed(np.array(pieces, np.int64)[window], frame.before, after)
            numbers = framed(window, [NO_PIECE] * len(frame.before), [NO_PIECE] * len(after))
            mask = np.ones_like(ids)
            mask[:, ids.shape[1] - n_fillers :] = self._recipe.filling.is_seen
            vectors = model(ids, mask, subject)
            counts = np.full(ids.shape, self._recipe.keeps_special) | (numbers != NO_PIECE)
            parts.append((ids[counts], numbers[counts], vectors[counts]))
        ids, numbers, vectors = (np.concatenate(part) for part in zip(*parts, strict=True))
        return ids, numbers, vectors

    def _unit_rows(self, vectors: Float32, subject: str) -> Float32:
        try:
            return normalize_rows(vectors)
        except ValueError as error:
            raise ModelError(subject, f"the model's output: {error}", "run on --device cpu --dtype float32") from error


def _positions(config: Any, skips: bool) -> int:
    """Return how many tokens a model of ``config`` can take."""
    n_positions = int(config.max_position_embeddings)
    return n_positions - int(config.pad_token_id or 0) - 1 if skips else n_positions


def _has_bfloat16() -> bool:
    """Tell whether this processor multiplies bfloat16 natively; elsewhere it is slower than float32."""
    import torch

    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(check() for check in checks if check is not None)
