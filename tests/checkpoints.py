"""Tiny random checkpoints of every ColPali family, made offline from the real classes.

They are what the hub's are, config, weights, tokenizer and processor files, only with a
handful of layers and a byte-level vocabulary, so the product's own loader reads them.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from colret.encoders.colpali import ColPaliEncoder, load_colpali
from colret.encoders.torchvision_guard import import_torchvision
from colret.encoders.weights import quiet_transformers
from colret.types import Page, PageRef, Words

Parts = tuple[Any, Any]  # model, processor

# What mixes tokens: with these at zero, a vector depends on its own patch alone.
_MIXING = ("o_proj.", "out_proj.", "attn.proj.", "attn.Wo.")


@cache
def tiny_checkpoint(family: str, *, local: bool = False) -> Path:
    """Return the folder of a tiny checkpoint, made once per test run: copy it to change it."""
    folder = scratch_folder() / f"{family}-{'local' if local else 'mixing'}"
    return save_checkpoint(folder, family, local=local)


@cache
def tiny_encoder(family: str, *, local: bool = False) -> ColPaliEncoder:
    """Return an encoder of a tiny checkpoint, loaded once per test run: leave it as it is."""
    return load_colpali(str(tiny_checkpoint(family, local=local)), device="cpu")


@cache
def scratch_folder() -> Path:
    """Return a folder that lasts as long as the test run."""
    import torch

    torch.set_num_threads(1)  # more only get in each other's way with matrices this small
    folder = tempfile.mkdtemp(prefix="colret-checkpoints-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def noisy_page(number: int, width: int, height: int) -> Page:
    """Return a page of random pixels, the same ones for the same number."""
    pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), np.uint8)
    return page_of(Image.fromarray(pixels), number)


def painted_page(size: tuple[int, int], spot: tuple[float, float, float, float] | None = None) -> Page:
    """Return a grey page with at most one black spot: its left, top, right, bottom as fractions."""
    width, height = size
    image = Image.new("RGB", size, "grey")
    if spot is not None:
        left, top, right, bottom = spot
        edges = (left * width, top * height, right * width - 1, bottom * height - 1)
        ImageDraw.Draw(image).rectangle(edges, "black")
    return page_of(image)


def page_of(image: Image.Image, number: int = 1) -> Page:
    """Return a page that shows ``image``."""
    return Page(PageRef("doc", number), image.width, image.height, Words.none(), image, 0)


def save_checkpoint(folder: Path, family: str, *, local: bool = False, seed: int = 0) -> Path:
    """Write a tiny checkpoint of ``family`` into ``folder`` and return the folder.

    Args:
        folder: Where to write; created if need be.
        family: A name of ``colret.encoders.families``.
        local: Let no token see another, so that each vector tells where it came from.
        seed: Of the random weights.
    """
    import torch

    import_torchvision()
    torch.manual_seed(seed)
    with quiet_transformers():
        model, processor = _BUILDERS[family]()
        _fill(model, local=local)
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
    return folder


def _fill(model: Any, *, local: bool) -> None:
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if local and any(part in name for part in _MIXING):
                parameter.zero_()
            elif (parameter.dim() == 1 and "norm" not in name) or "mm_input_projection" in name:
                parameter.normal_(std=0.1)  # these start at zero, which would hide them from a test


def byte_tokenizer(special: Sequence[str], **roles: str) -> Any:
    """Return a fast tokenizer with one token per byte and the ``special`` ones whole."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*special, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)
    fast.add_special_tokens({"additional_special_tokens": [t for t in special if t not in roles.values()]})
    return fast


def _colpali() -> Parts:
    from colpali_engine.models import ColPali, ColPaliProcessor
    from transformers import PaliGemmaConfig, SiglipImageProcessor

    tokenizer = byte_tokenizer(
        ["<pad>", "<eos>", "<bos>", "<image>"], pad_token="<pad>", eos_token="<eos>", bos_token="<bos>"
    )
    config = PaliGemmaConfig(
        text_config={
            "model_type": "gemma",
            "vocab_size": 300,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "initializer_range": 0.2,
            "pad_token_id": 0,
        },
        vision_config=_siglip(image_size=112, patch_size=14) | {"projection_dim": 32},
        image_token_index=3,
        projection_dim=32,
        hidden_size=32,
    )
    half = [0.5, 0.5, 0.5]
    images = SiglipImageProcessor(size={"height": 112, "width": 112}, image_mean=half, image_std=half)
    images.image_seq_length = 64
    return ColPali(config), ColPaliProcessor(image_processor=images, tokenizer=tokenizer)


def _siglip(image_size: int, patch_size: int) -> dict[str, Any]:
    return {
        "model_type": "siglip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": image_size,
        "patch_size": patch_size,
        "vision_use_head": False,
    }


def _colqwen2() -> Parts:
    from colpali_engine.models import ColQwen2, ColQwen2Processor
    from transformers import Qwen2VLConfig

    config = Qwen2VLConfig(
        text_config=_qwen_text("qwen2_vl_text"),
        vision_config={"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
        | {"patch_size": 14, "spatial_merge_size": 2},
        **_QWEN_IDS,
    )
    return ColQwen2(config), _qwen_processor(ColQwen2Processor, patch_size=14)


def _colqwen2_5() -> Parts:
    from colpali_engine.models import ColQwen2_5, ColQwen2_5_Processor
    from transformers import Qwen2_5_VLConfig

    config = Qwen2_5_VLConfig(
        text_config=_qwen_text("qwen2_5_vl_text"),
        # Windows of 2 x 2 tokens and one layer with full attention: patches are reordered inside.
        vision_config={"depth": 2, "hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 48}
        | {"num_heads": 2, "patch_size": 14, "window_size": 56, "fullatt_block_indexes": [1]},
        **_QWEN_IDS,
    )
    return ColQwen2_5(config), _qwen_processor(ColQwen2_5_Processor, patch_size=14)


def _colqwen3() -> Parts:
    from colpali_engine.models import ColQwen3, ColQwen3Processor
    from transformers import Qwen3VLConfig

    config = Qwen3VLConfig(
        text_config=_qwen_text("qwen3_vl_text"),
        vision_config={"depth": 2, "hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 48}
        | {"num_heads": 2, "patch_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [0]},
        **_QWEN_IDS,
    )
    return ColQwen3(config), _qwen_processor(ColQwen3Processor, patch_size=16)


def _colqwen3_5() -> Parts:
    from colpali_engine.models import ColQwen3_5, ColQwen3_5Processor
    from transformers import Qwen3_5Config

    text = _qwen_text("qwen3_5_text") | {
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
        | {"partial_rotary_factor": 0.5, "mrope_interleaved": True},
    }
    config = Qwen3_5Config(
        text_config=text,
        vision_config={"depth": 1, "hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 48}
        | {"num_heads": 2, "patch_size": 16, "num_position_embeddings": 64},
        **_QWEN_IDS,
    )
    return ColQwen3_5(config), _qwen_processor(ColQwen3_5Processor, patch_size=16)


_QWEN_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
_QWEN_IDS = {
    "vision_start_token_id": 3,
    "vision_end_token_id": 4,
    "image_token_id": 5,
    "video_token_id": 6,
    "tie_word_embeddings": True,
}


def _qwen_text(model_type: str) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "vocab_size": 300,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "initializer_range": 0.2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
    }


def _qwen_processor(processor_class: Any, patch_size: int) -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    cell = (2 * patch_size) ** 2
    images = Qwen2VLImageProcessor(
        patch_size=patch_size, merge_size=2, size={"shortest_edge": 4 * cell, "longest_edge": 60 * cell}
    )
    tokenizer = byte_tokenizer(_QWEN_TOKENS, pad_token="<|endoftext|>", eos_token="<|im_end|>")
    videos = Qwen2VLVideoProcessor()
    return processor_class(image_processor=images, tokenizer=tokenizer, video_processor=videos)


def _colidefics3() -> Parts:
    from colpali_engine.models import ColIdefics3, ColIdefics3Processor
    from transformers import Idefics3Config

    tokenizer = byte_tokenizer(
        ["<|im_start|>", "<|im_end|>", *_IDEFICS_TOKENS], pad_token="<|im_end|>", bos_token="<|im_start|>"
    )
    config = Idefics3Config(
        text_config={
            "model_type": "llama",
            "vocab_size": 400,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "initializer_range": 0.2,
            "pad_token_id": 1,
        },
        vision_config=_siglip(image_size=64, patch_size=16) | {"model_type": "idefics3_vision"},
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        tie_word_embeddings=True,
    )
    return ColIdefics3(config), _tiling_processor(ColIdefics3Processor, tokenizer)


def _colmodernvbert() -> Parts:
    from colpali_engine.models import ColModernVBert, ColModernVBertProcessor
    from transformers import ModernVBertConfig

    tokenizer = byte_tokenizer(
        ["[PAD]", "[CLS]", "[SEP]", "<|begin_of_text|>", *_IDEFICS_TOKENS],
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )
    config = ModernVBertConfig(
        text_config={
            "model_type": "modernbert",
            "vocab_size": 400,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "pad_token_id": 0,
            "global_attn_every_n_layers": 2,
            "local_attention": 16,
            "initializer_range": 0.2,
            "reference_compile": False,
        },
        vision_config=_siglip(image_size=64, patch_size=16),
        pixel_shuffle_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )
    return ColModernVBert(config), _tiling_processor(ColModernVBertProcessor, tokenizer)


_IDEFICS_TOKENS = [
    "<end_of_utterance>",
    "<fake_token_around_image>",
    "<image>",
    "<global-img>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
]


def _tiling_processor(processor_class: Any, tokenizer: Any) -> Any:
    from transformers import Idefics3ImageProcessor

    images = Idefics3ImageProcessor(size={"longest_edge": 256}, max_image_size={"longest_edge": 64})
    return processor_class(image_processor=images, tokenizer=tokenizer, image_seq_len=4)


def _colgemma3() -> Parts:
    from colpali_engine.models import ColGemma3, ColGemmaProcessor3
    from transformers import Gemma3Config, Gemma3ImageProcessor

    special = ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"]
    special += ["<start_of_image>", "<end_of_image>", "<image_soft_token>"]
    tokenizer = byte_tokenizer(
        special,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        boi_token="<start_of_image>",
        eoi_token="<end_of_image>",
        image_token="<image_soft_token>",
    )
    tokenizer.chat_template = _GEMMA_TEMPLATE
    config = Gemma3Config(
        text_config={
            "model_type": "gemma3_text",
            "vocab_size": 300,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
            "initializer_range": 0.2,
        },
        vision_config=_siglip(image_size=112, patch_size=14),
        mm_tokens_per_image=16,
        boi_token_index=5,
        eoi_token_index=6,
        image_token_index=7,
    )
    images = Gemma3ImageProcessor(size={"height": 112, "width": 112}, image_seq_length=16)
    return ColGemma3(config), ColGemmaProcessor3(images, tokenizer, image_seq_length=16)


_GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message['role'] }}\n"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<start_of_image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<end_of_turn>\n{% endfor %}"
)


_BUILDERS: dict[str, Callable[[], Parts]] = {
    "colpali": _colpali,
    "colqwen2": _colqwen2,
    "colqwen2.5": _colqwen2_5,
    "colqwen3": _colqwen3,
    "colqwen3.5": _colqwen3_5,
    "colidefics3": _colidefics3,
    "colmodernvbert": _colmodernvbert,
    "colgemma3": _colgemma3,
}
