"""Queries of the embedded encoder without torch: against torch on the same weights, and against each other."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from colret.encoders import load_encoder
from colret.encoders.bert_numpy import BertInNumpy, gelu
from colret.encoders.embedded import EMBEDDED, embedded_folder
from colret.encoders.sources import Source
from colret.encoders.text import TextEncoder, load_embedded
from colret.encoders.text_checkpoints import resolve_text_checkpoint
from colret.encoders.token_models import TokenModel, load_token_model
from colret.encoders.torchvision_guard import import_torchvision
from colret.encoders.weights import quiet_transformers
from colret.errors import ModelError
from colret.scoring import maxsim
from colret.types import Int64, Multivectors, Page, PageRef, QueryEmbedding, Words
from tests.checkpoints import scratch_folder

CLS, SEP, N_PIECES = 101, 102, 30522
SCRIPTS = (
    "abc ABC 0123 .,-'?%$ éßÅÇİı αβγ жЩю 漢字かな カナ 한국 العربية עברית ไทย हिन्दी 😀👍🏽 \u200b\ufeff\x00\x07 ﬁ ﾊ ½ ²"
)
QUESTIONS = (
    "How much did net revenue grow by segment in the third quarter?",
    "Where does the grey heron wait?",
    "flour, water, salt",
    "orbit of the satellite around Mars",
    "Who tuned the violin before the concert?",
)
PAGES = (
    "Net revenue by segment grew in the third quarter of 2023",
    "The grey heron waits for fish in shallow water",
    "Sourdough bread needs flour water salt and time",
    "The satellite reached a stable orbit around Mars",
    "She tuned the old violin before the concert began",
)
texts = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=SCRIPTS, max_size=120),
    st.lists(st.sampled_from(" ".join(PAGES + QUESTIONS).split()), max_size=40).map(" ".join),
)


@cache
def ours() -> TextEncoder:
    return load_embedded(device="cpu", dtype="float32", queries_only=True)


@cache
def in_torch() -> TextEncoder:
    """Return the same encoder with torch in numpy's place."""
    model = load_token_model(resolve_text_checkpoint(Source(EMBEDDED, embedded_folder(), None)), torch.device("cpu"))
    numpy_encoder = ours()
    return TextEncoder(model, lambda: model, numpy_encoder._tokenizer, numpy_encoder._recipe, numpy_encoder.info)


def encode(encoder: TextEncoder, text: str) -> QueryEmbedding:
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on a busy machine two wait for each other
    try:
        return encoder.encode_queries([text])[0]
    finally:
        torch.set_num_threads(n_threads)


def has_pieces(text: str) -> bool:
    return bool(ours()._pieces(text).ids)


# --- The real weights


@settings(deadline=None, max_examples=60)
@given(texts)
def test_any_query_equals_torchs(text: str) -> None:
    assume(has_pieces(text))
    query, expected = encode(ours(), text), encode(in_torch(), text)
    assert query.tokens == expected.tokens
    assert query.vectors.shape == expected.vectors.shape
    assert np.abs(query.vectors - expected.vectors).max() < 2e-6


@pytest.mark.parametrize("n_words", [254, 255, 600])
def test_a_long_query_is_cut_as_torchs_is(n_words: int) -> None:
    words = " ".join(PAGES).split()
    text = " ".join(words[i % len(words)] for i in range(n_words))
    query, expected = encode(ours(), text), encode(in_torch(), text)
    assert query.tokens == expected.tokens
    assert len(query.tokens) >= n_words
    assert np.abs(query.vectors - expected.vectors).max() < 2e-6


def test_rankings_are_torchs() -> None:
    pages = Multivectors.pack([encode(in_torch(), text).vectors for text in PAGES])
    for question in QUESTIONS:
        scores, expected = (maxsim(encode(each, question).vectors, pages) for each in (ours(), in_torch()))
        assert np.argsort(-scores).tolist() == np.argsort(-expected).tolist()
        assert scores == pytest.approx(expected, abs=1e-5)


def test_pages_of_an_encoder_for_queries_are_those_of_any_other() -> None:
    words = tuple(PAGES[0].split())
    page = Page(PageRef("doc", 1), 1, 1, Words(words, np.zeros((len(words), 4), np.uint16)), None, 0)
    [one], [other] = (
        load_encoder(EMBEDDED, device="cpu", dtype="float32", queries_only=queries_only).encode_pages([page])
        for queries_only in (False, True)
    )
    assert one.vectors.tobytes() == other.vectors.tobytes()


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "int8"), ("auto", "int8"), ("abacus", "auto")])
def test_nonsense_is_refused_before_any_page_comes(device: str, dtype: str) -> None:
    with pytest.raises(ValueError, match="unknown"):
        load_encoder(EMBEDDED, device=device, dtype=dtype, queries_only=True)


def test_queries_asked_at_once_are_the_same_and_leave_the_number_of_threads() -> None:
    def vectors(text: str) -> bytes:
        return ours().encode_queries([text])[0].vectors.tobytes()

    questions = QUESTIONS * 6
    expected = [vectors(text) for text in questions]
    before = [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(vectors, questions)) == expected
    assert [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()] == before


# --- The forward pass, on models of many shapes


def bert_folder(n_layers: int, n_heads: int, dim: int) -> Path:
    """Return a folder with a random BERT, its biases and scales far from those of a new one."""
    import_torchvision()
    from transformers import BertConfig, BertModel

    folder = scratch_folder() / f"bert-{n_layers}-{n_heads}-{dim}"
    if folder.exists():
        return folder
    torch.manual_seed(n_layers + n_heads + dim)
    config = BertConfig(
        vocab_size=50,
        hidden_size=dim,
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        intermediate_size=3 * dim,
        max_position_embeddings=40,
        initializer_range=0.2,
    )
    model = BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    with quiet_transformers():
        model.save_pretrained(folder)
    return folder


@cache
def pair(n_layers: int, n_heads: int, dim: int) -> tuple[BertInNumpy, TokenModel]:
    """Return the same random model in numpy and in torch."""
    folder = bert_folder(n_layers, n_heads, dim)
    checkpoint = resolve_text_checkpoint(Source(str(folder), folder, None))
    return BertInNumpy(folder, "tiny"), load_token_model(checkpoint, torch.device("cpu"))


@st.composite
def batches(draw: st.DrawFn) -> tuple[Int64, Int64]:
    """Draw ids (n, L) and a mask in which each row sees something."""
    n, length = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask = rng.integers(0, 2, (n, length))
    mask[:, rng.integers(length)] = 1
    return rng.integers(0, 50, (n, length)), mask if draw(st.booleans()) else np.ones_like(mask)


@settings(deadline=None)
@given(st.sampled_from([(1, 1, 4), (2, 3, 12), (3, 2, 32), (2, 1, 5)]), batches())
def test_any_bert_equals_transformers(shape: tuple[int, int, int], batch: tuple[Int64, Int64]) -> None:
    model, expected = pair(*shape)
    vectors = model(*batch, "test")
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(expected(*batch, "test"), abs=2e-5)
    assert model.dim == expected.dim == vectors.shape[-1]


@settings(deadline=None)
@given(batches())
def test_a_row_is_the_same_to_the_last_bit_whatever_comes_with_it(batch: tuple[Int64, Int64]) -> None:
    model, _ = pair(3, 2, 32)
    ids, mask = batch
    alone = [model(ids[i : i + 1], mask[i : i + 1], "test") for i in range(len(ids))]
    assert np.concatenate(alone).tobytes() == model(ids, mask, "test").tobytes()


@given(st.lists(st.floats(-30, 30, width=32), min_size=1))
def test_gelu_is_x_times_the_normal_distribution(values: list[float]) -> None:
    expected = [x * 0.5 * math.erfc(-x / math.sqrt(2)) for x in values]
    assert gelu(np.array(values, np.float32)) == pytest.approx(expected, abs=4e-7, rel=2e-7)


def test_gelu_of_what_is_no_number_is_none() -> None:
    assert np.isnan(gelu(np.array([np.nan], np.float32))).all()


def test_a_folder_without_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tiny: has no config\.json"):
        BertInNumpy(tmp_path, "tiny")
