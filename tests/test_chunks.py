"""The best-chunk baseline: its windows and means against a plain loop, its ranking against another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace

from colret.encoders.torchvision_guard import import_torchvision
from colret_eval.chunks import CHUNK_PIECES, ChunkEncoder, best_chunk_run
from colret_eval.measures import ranked

WORDS = [f"w{i}" for i in range(20)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer with random weights, whose word pieces are whole words."""
    import_torchvision()
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(folder)
    return folder


def words(n: int, seed: int) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, n))


def test_shapes(folder: Path) -> None:
    texts = ["w1", "", words(CHUNK_PIECES, 0), words(CHUNK_PIECES + 1, 0)]
    encoded = ChunkEncoder(folder).encode(texts)
    assert [chunks.shape for chunks in encoded] == [(1, 8), (0, 8), (1, 8), (2, 8)]
    assert all(chunks.dtype == np.float32 for chunks in encoded)
    for chunks in encoded:
        assert np.linalg.norm(chunks, axis=1) == pytest.approx(np.ones(len(chunks)), abs=1e-6)


def test_vectors_are_means_of_a_window_alone_whatever_shares_its_batch(folder: Path) -> None:
    from transformers import AutoModel

    text = words(CHUNK_PIECES + 30, 1)
    together = ChunkEncoder(folder).encode([words(5, 2), text, words(90, 3)])[1]
    model = AutoModel.from_pretrained(folder).eval()
    ids = [4 + WORDS.index(word) for word in text.split()]
    for row, window in enumerate((ids[:CHUNK_PIECES], ids[CHUNK_PIECES:])):
        with torch.inference_mode():
            states = model(input_ids=torch.tensor([[2, *window, 3]])).last_hidden_state[0].numpy()
        mean = states.mean(axis=0)
        assert together[row] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


@given(n_chunks=st.lists(st.integers(0, 3), min_size=1, max_size=6), k=st.integers(1, 7), seed=st.integers(0, 99))
def test_run_equals_a_naive_loop(n_chunks: list[int], k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Small whole numbers, so that scores tie.
    pages = {f"d:{i}": rng.integers(-1, 2, (n, 2)).astype(np.float32) for i, n in enumerate(n_chunks)}
    query = rng.integers(-1, 2, (1, 2)).astype(np.float32)
    best = {key: max(float(chunk @ query[0]) for chunk in chunks) for key, chunks in pages.items() if len(chunks)}
    run = best_chunk_run(pages, {"q": query}, k=k)["q"]
    assert list(run) == ranked(best)[:k]
    assert run == {key: best[key] for key in run}


def test_errors() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        best_chunk_run({}, {}, k=0)
