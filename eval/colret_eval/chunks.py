"""The single-vector baseline at its best: a sentence embedding per chunk of a page, the best chunk counting.

A page is cut into windows of word pieces; each becomes one vector, the mean of its tokens'
last states, as the sentence-transformers model of this family was trained to be used
(Reimers and Gurevych, "Sentence-BERT", EMNLP 2019, with mean pooling).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colret_eval.measures import Run

Float32 = NDArray[np.float32]

CHUNK_PIECES = 128
"""Word pieces of a chunk, without the two special tokens: better than 160 and 200 for MiniLM
on every set tried, so the baseline is not made weak."""

_BATCH = 32


class ChunkEncoder:
    """A BERT-type sentence encoder, read from a folder of its weights and tokenizer.

    Args:
        folder: Of its files.
        dtype: Precision, the name of torch's; float32 as published.
    """

    def __init__(self, folder: Path, dtype: str = "float32") -> None:
        import torch

        from colret.encoders.torchvision_guard import import_torchvision
        from colret.encoders.weights import quiet_transformers

        import_torchvision()
        from transformers import AutoModel, AutoTokenizer

        with quiet_transformers():
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            self._model: Any = AutoModel.from_pretrained(
                str(folder), local_files_only=True, use_safetensors=True, dtype=getattr(torch, dtype)
            ).eval()

    def encode(self, texts: Sequence[str]) -> list[Float32]:
        """Return for each text its chunks' vectors: (n_chunks, D) float32, unit rows."""
        windows = [list(self._windows(text)) for text in texts]
        flat = [window for of_text in windows for window in of_text]
        vectors = np.zeros((len(flat), self._model.config.hidden_size), np.float32)
        by_length = sorted(range(len(flat)), key=lambda i: len(flat[i]))
        for start in range(0, len(flat), _BATCH):
            rows = by_length[start : start + _BATCH]
            vectors[rows] = self._mean_states([flat[i] for i in rows])
        return np.split(vectors, np.cumsum([len(of_text) for of_text in windows])[:-1])

    def _windows(self, text: str) -> Iterator[list[int]]:
        pieces = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        for start in range(0, len(pieces), CHUNK_PIECES):
            window = pieces[start : start + CHUNK_PIECES]
            yield [self._tokenizer.cls_token_id, *window, self._tokenizer.sep_token_id]

    def _mean_states(self, windows: Sequence[Sequence[int]]) -> Float32:
        import torch

        longest = max(map(len, windows))
        ids = torch.full((len(windows), longest), self._tokenizer.pad_token_id)
        mask = torch.zeros((len(windows), longest), dtype=torch.int64)
        for row, window in enumerate(windows):
            ids[row, : len(window)] = torch.tensor(window)
            mask[row, : len(window)] = 1
        with torch.inference_mode():
            states = self._model(input_ids=ids, attention_mask=mask).last_hidden_state.float()  # (n, longest, D)
        sums = (states * mask[:, :, None]).sum(1)  # the mean's direction; its length goes
        unit: Float32 = torch.nn.functional.normalize(sums, dim=1).numpy()
        return unit


class Chunks:
    """Chunks' vectors of texts, each text encoded once however often it is asked for.

    Args:
        load: Gives the encoder, when the first text comes.
    """

    def __init__(self, load: Callable[[], ChunkEncoder]) -> None:
        self._encoder = functools.cache(load)
        self._known: dict[str, Float32] = {}

    def of(self, texts: Mapping[str, str]) -> dict[str, Float32]:
        """Return the vectors of each text under its key."""
        new = sorted(set(texts.values()) - self._known.keys())
        self._known.update(zip(new, self._encoder().encode(new) if new else (), strict=True))
        return {key: self._known[text] for key, text in texts.items()}


def best_chunk_run(pages: Mapping[str, Float32], queries: Mapping[str, Float32], *, k: int) -> Run:
    """Rank pages by the cosine of their best chunk, at most k for each query.

    Args:
        pages: Page key to its chunks' vectors, (n_chunks, D); a page without chunks is never found.
        queries: Query id to its vectors, (n, D): one, unless the query is longer than a chunk.
        k: Most pages kept per query.

    Raises:
        ValueError: If k is below 1.
    """
    if k < 1:
        raise ValueError(f"a run keeps at least 1 page, not {k}")
    # Descending keys before a stable sort by score: ties end up as the measures break them.
    keys = sorted((key for key, chunks in pages.items() if len(chunks)), reverse=True)
    if not keys:
        return {query_id: {} for query_id in queries}
    chunks = np.concatenate([pages[key] for key in keys])  # (sum n_chunks, D)
    starts = np.cumsum([0, *(len(pages[key]) for key in keys[:-1])])
    run: Run = {}
    for query_id, vectors in queries.items():
        scores = np.maximum.reduceat((chunks @ vectors.T).max(axis=1), starts)  # (N,)
        order = np.argsort(-scores, kind="stable")[:k]
        run[query_id] = {keys[i]: float(scores[i]) for i in order}
    return run
