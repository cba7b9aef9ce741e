"""Every family, through the product's own loader, on tiny checkpoints of the real classes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from colret.encoders.batches import unpad
from colret.encoders.colpali import ColPaliEncoder, load_colpali
from colret.encoders.families import FAMILY_NAMES, find_family
from colret.errors import ModelError
from colret.types import Page
from tests.checkpoints import noisy_page, tiny_checkpoint, tiny_encoder

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

Tensors = dict[str, torch.Tensor]

TEMPLATES = {
    "colpali": "Query: {}<pad>x10",
    "colqwen2": "Query: {}<|endoftext|>x10",
    "colqwen2.5": "Query: {}<|endoftext|>x10",
    "colqwen3": "Query: {}<|endoftext|>x10",
    "colqwen3.5": "Query: {}<|endoftext|>x10",
    "colidefics3": "Query: {}<end_of_utterance>x10",
    "colmodernvbert": "Query: {}<end_of_utterance>x10",
    "colgemma3": "user turn: Query: {}<eos>x10",
}
QUERIES = ["net revenue by segment 2023", "a", "two words", "net profit by segment 2023", "b"]
every_family = pytest.mark.parametrize("family", FAMILY_NAMES)


def pages() -> list[Page]:
    sizes = [(210, 297), (297, 210), (210, 297), (200, 200), (90, 600), (210, 297), (297, 210), (64, 48)]
    return [noisy_page(number, *size) for number, size in enumerate(sizes, start=1)]


def maxsim(encoder: ColPaliEncoder) -> np.ndarray[Any, np.dtype[np.float32]]:
    found = encoder.encode_pages(pages())
    queries = encoder.encode_queries(QUERIES)
    return np.array([[(q.vectors @ p.vectors.T).max(axis=1).sum() for p in found] for q in queries])


@every_family
def test_pages_and_queries_become_unit_vectors(family: str) -> None:
    encoder = tiny_encoder(family)
    for page, embedding in zip(pages(), encoder.encode_pages(pages()), strict=True):
        assert embedding.vectors.shape == (len(embedding.boxes), encoder.info.dim)
        assert embedding.vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(embedding.vectors, axis=1), 1, atol=1e-5)
        assert embedding.boxes.dtype == np.uint16
        assert np.isfinite(embedding.vectors).all(), page
    for query in encoder.encode_queries(QUERIES):
        assert query.vectors.shape == (len(query.tokens), encoder.info.dim)
        assert np.allclose(np.linalg.norm(query.vectors, axis=1), 1, atol=1e-5)


@every_family
def test_info_tells_what_an_index_must_know(family: str) -> None:
    info = tiny_encoder(family).info
    assert (info.family, info.reads, info.query_template) == (family, "image", TEMPLATES[family])
    assert info.dim == (320 if family == "colqwen3" else 128)
    assert info.revision.startswith("sha256:")
    assert info.render_pixels > 112 * 112


def test_pages_are_bounded_where_the_checkpoint_allows_millions_of_pixels(tmp_path: Path) -> None:
    shutil.copytree(tiny_checkpoint("colqwen3"), tmp_path / "unbounded")
    file = tmp_path / "unbounded" / "processor_config.json"
    stated = json.loads(file.read_text())
    stated["image_processor"]["size"]["longest_edge"] = 16_777_216
    file.write_text(json.dumps(stated))
    encoder = load_colpali(str(tmp_path / "unbounded"), device="cpu")
    assert encoder.info.render_pixels == 1280 * 32 * 32
    prepared = encoder._prepare_page(noisy_page(1, 1600, 2000))
    assert encoder._image_mask(prepared).sum() == 1280


@every_family
def test_a_query_is_prefixed_and_followed_by_ten_augmentation_tokens(family: str) -> None:
    encoder = tiny_encoder(family)
    (query,) = encoder.encode_queries(["net revenue"])
    text = "".join(query.tokens).replace("Ġ", " ")
    assert "Query: net revenue" + encoder._processor.query_augmentation_token * 10 in text


@every_family
def test_an_embedding_does_not_depend_on_its_company(family: str) -> None:
    alone = tiny_encoder(family)
    reference, queries = alone.encode_pages(pages()), alone.encode_queries(QUERIES)
    scores = maxsim(alone)
    for batch_size in (3, 8):
        encoder = load_colpali(str(tiny_checkpoint(family)), device="cpu", batch_size=batch_size)
        for one, many in zip(reference, encoder.encode_pages(pages()), strict=True):
            assert np.array_equal(one.boxes, many.boxes)
            assert np.abs(one.vectors - many.vectors).max() < 1e-5
        for text, one_query in zip(QUERIES, queries, strict=True):
            assert np.abs(one_query.vectors - encoder.encode_queries([text])[0].vectors).max() < 1e-5
        assert np.array_equal(np.argsort(-maxsim(encoder)), np.argsort(-scores))


@every_family
def test_vectors_equal_those_of_a_padded_batch_of_the_engine(family: str) -> None:
    """Left or right, padding is told by the mask alone, and what remains is the same."""
    encoder = tiny_encoder(family)
    processor = encoder._processor
    suffix = processor.query_augmentation_token * 10
    texts = [encoder._family.query_prefix + text + suffix for text in QUERIES]
    images = [page.image for page in pages()]
    for inputs, expected in (
        (processor.process_images(images), [page.vectors for page in encoder.encode_pages(pages())]),
        (processor.process_texts(texts), [query.vectors for query in encoder.encode_queries(QUERIES)]),
    ):
        inputs.pop("labels", None)
        if encoder._family.prefix_attention:  # without these, padding would turn attention causal
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        with torch.inference_mode():
            outputs = encoder._model(**inputs)
        rows = unpad(outputs.numpy(), inputs["attention_mask"].numpy())
        for own, theirs in zip(expected, rows, strict=True):
            assert own.shape == theirs.shape
            assert np.abs(own - theirs).max() < 2e-5


@every_family
def test_half_precision_stays_close(family: str) -> None:
    exact = tiny_encoder(family)
    half = load_colpali(str(tiny_checkpoint(family)), device="cpu", dtype="bfloat16")
    one, other = (encoder.encode_pages([noisy_page(1, 210, 297)])[0].vectors for encoder in (exact, half))
    assert other.dtype == np.float32
    assert np.allclose(np.linalg.norm(other, axis=1), 1, atol=1e-5)
    assert (one * other).sum(axis=1).mean() > 0.95


def drop(tensors: Tensors, key: str) -> None:
    del tensors[key]


def rename(tensors: Tensors, key: str) -> None:
    tensors[f"{key}_old"] = tensors.pop(key)


def reshape(tensors: Tensors, key: str) -> None:
    tensors[key] = tensors[key][:-1].clone()


@pytest.mark.parametrize("spoil", [drop, rename, reshape])
@every_family
def test_a_spoilt_tensor_is_refused_by_name(family: str, spoil: Callable[[Tensors, str], None], tmp_path: Path) -> None:
    for part in ("proj.weight", "layers.1."):
        folder = tmp_path / part.strip(".")
        shutil.copytree(tiny_checkpoint(family), folder)
        tensors = load_file(folder / "model.safetensors")
        key = next(key for key in sorted(tensors) if part in key and tensors[key].dim() == 2)
        spoil(tensors, key)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelError, match="weights do not fit") as caught:
            load_colpali(str(folder), device="cpu")
        assert ".".join(key.split(".")[-2:]) in caught.value.problem
        assert "--model embedded" in caught.value.remedy


@every_family
def test_loading_and_encoding_print_nothing(family: str, capfd: pytest.CaptureFixture[str]) -> None:
    encoder = load_colpali(str(tiny_checkpoint(family)), device="cpu")
    encoder.encode_pages([noisy_page(1, 210, 297)])
    encoder.encode_queries(["net revenue"])
    assert capfd.readouterr() == ("", "")


def test_the_table_goes_by_architecture_then_by_backbone() -> None:
    assert find_family("m", {"architectures": ["ColQwen2"], "model_type": "qwen2_vl"}).name == "colqwen2"
    assert find_family("m", {"model_type": "paligemma"}).name == "colpali"
    ported = {"architectures": ["ColQwen2ForRetrieval"], "vlm_config": {"model_type": "qwen2_vl"}}
    assert find_family("m", ported).name == "colqwen2"
    raw = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3"}
    assert find_family("m", raw).name == "colgemma3"


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["BiQwen2"], "model_type": "qwen2_vl"},
        {"architectures": ["ColPaliForRetrieval"], "model_type": "colpali"},
        {"architectures": ["ColOther"], "model_type": "colother", "vlm_config": {"model_type": "other"}},
        {"architectures": ["BertModel"], "model_type": "bert"},
        {},
    ],
)
def test_other_kinds_of_models_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="is not one of colpali, colqwen2"):
        find_family("someone/model", config)
