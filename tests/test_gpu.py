"""What a CUDA device computes is what the CPU computes; without one, these are skipped and say so."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colret.codecs import CODECS, decode, encode
from colret.encoders import load_encoder
from colret.encoders.families import FAMILY_NAMES
from colret.scoring import maxsim, normalize_rows
from colret.types import Codec
from tests.checkpoints import noisy_page, tiny_checkpoint
from tests.test_text_checkpoints import page_of
from tests.text_checkpoints import TEXT_KINDS, tiny_text_checkpoint

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
PAGES = [noisy_page(1, 210, 297), noisy_page(2, 297, 210), noisy_page(3, 210, 297)]
TEXTS = ["net revenue by segment", "river"]


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize(("dtype", "cosine"), [("float32", 0.9999), ("auto", 0.9)])
def test_a_vision_model_gives_the_same_vectors(family: str, dtype: str, cosine: float) -> None:
    on_cpu, on_gpu = (
        load_encoder(str(tiny_checkpoint(family)), device=device, dtype=precision)
        for device, precision in (("cpu", "float32"), ("cuda", dtype))
    )
    for one, other in zip(on_cpu.encode_pages(PAGES), on_gpu.encode_pages(PAGES), strict=True):
        assert np.array_equal(one.boxes, other.boxes)
        assert (one.vectors * other.vectors).sum(axis=1).mean() > cosine
    for query, same in zip(on_cpu.encode_queries(TEXTS), on_gpu.encode_queries(TEXTS), strict=True):
        assert query.tokens == same.tokens
        assert (query.vectors * same.vectors).sum(axis=1).mean() > cosine


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_vision_models_vectors_do_not_depend_on_the_batch(family: str) -> None:
    encoders = [
        load_encoder(str(tiny_checkpoint(family)), device="cuda", dtype="float32", batch_size=size) for size in (1, 8)
    ]
    for one, other in zip(*(encoder.encode_pages(PAGES) for encoder in encoders), strict=True):
        assert np.abs(one.vectors - other.vectors).max() < 1e-4


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_a_text_model_gives_the_same_vectors(kind: str) -> None:
    pages = [page_of("net revenue by segment " * n, n) for n in (1, 30)]
    on_cpu, on_gpu = (
        load_encoder(str(tiny_text_checkpoint(kind)), device=device, dtype="float32") for device in ("cpu", "cuda")
    )
    for one, other in zip(on_cpu.encode_pages(pages), on_gpu.encode_pages(pages), strict=True):
        assert (one.vectors * other.vectors).sum(axis=1).min() > 0.999
    for query, same in zip(on_cpu.encode_queries(TEXTS), on_gpu.encode_queries(TEXTS), strict=True):
        assert (query.vectors * same.vectors).sum(axis=1).min() > 0.999


@pytest.mark.parametrize("codec", CODECS)
def test_maxsim_ranks_alike(codec: Codec) -> None:
    rng = np.random.default_rng(0)
    query = normalize_rows(rng.normal(size=(24, 128)).astype(np.float32))
    pages = [normalize_rows(rng.normal(size=(n, 128)).astype(np.float32)) for n in (1, 7, 1030, 300, 64)]
    encoded = [encode(page, codec) for page in pages]
    codes = np.frombuffer(b"".join(page.codes for page in encoded), np.uint8)
    sizes = np.array([len(page.codes) for page in encoded], np.int64)
    stored = decode(codes, sizes, np.array([page.scale for page in encoded], np.float32), 128, codec)
    on_cpu, on_gpu = (maxsim(query, stored, device=device) for device in ("cpu", "cuda"))
    assert np.abs(on_cpu - on_gpu).max() / len(query) < 5e-3
    assert np.array_equal(np.argsort(-on_cpu), np.argsort(-on_gpu))
