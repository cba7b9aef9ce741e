"""Any text checkpoint in the embedded encoder's place: read as its makers do, or refused by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from colret.encoders import load_encoder
from colret.encoders.embedded import embedded_folder
from colret.encoders.sources import digest_of
from colret.encoders.text import TextEncoder
from colret.encoders.text_checkpoints import TEXT_TYPES
from colret.encoders.token_models import TokenModel
from colret.encoders.weights import quiet_transformers
from colret.errors import ModelError
from colret.types import WHOLE_PAGE, Float32, Page, PageEmbedding, PageRef, Words
from tests.text_checkpoints import (
    ARTIFACT,
    PYLATE,
    TEXT_KINDS,
    save_plain,
    tiny_text_checkpoint,
    wordpiece_tokenizer,
)

QUERY = "net revenue of xyz"
PAGE = "Net revenue, by segment, grew in the third quarter of the river."
LATE = ("stanford", "pylate")
every_kind = pytest.mark.parametrize("kind", TEXT_KINDS)


@cache
def encoder_of(kind: str) -> TextEncoder:
    return load(tiny_text_checkpoint(kind))


def load(folder: Path) -> TextEncoder:
    encoder = load_encoder(str(folder), device="cpu", dtype="float32")
    assert isinstance(encoder, TextEncoder)
    return encoder


def copy_of(kind: str, folder: Path) -> Path:
    return shutil.copytree(tiny_text_checkpoint(kind), folder / kind)


def page_of(text: str, number: int = 1) -> Page:
    """Return a page with each word in a box of its own."""
    texts = tuple(text.split())
    lefts = np.arange(len(texts), dtype=np.uint16)
    boxes = np.stack([lefts, lefts, lefts + 1, lefts + 2], 1)
    return Page(PageRef("doc", number), 1, 1, Words(texts, boxes), None, 0)


def encode(encoder: TextEncoder, text: str = PAGE) -> PageEmbedding:
    return encoder.encode_pages([page_of(text)])[0]


def change_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


# --- Shapes, identity, independence


@every_kind
def test_pages_and_queries_become_unit_vectors_in_their_words_boxes(kind: str) -> None:
    encoder, page = encoder_of(kind), page_of(PAGE)
    embedding, query = encoder.encode_pages([page])[0], encoder.encode_queries([QUERY])[0]
    for vectors in (embedding.vectors, query.vectors):
        assert vectors.dtype == np.float32
        assert vectors.shape[1] == encoder.info.dim
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert len(query.tokens) == len(query.vectors)
    placed = {tuple(box) for box in embedding.boxes.tolist()} - {WHOLE_PAGE}
    assert placed == {tuple(box) for box in page.words.boxes.tolist()}
    assert (encoder.info.family, encoder.info.reads) == ("text", "words")


@every_kind
def test_a_pages_vectors_never_depend_on_its_company(kind: str) -> None:
    encoder = encoder_of(kind)
    pages = [page_of(" ".join((PAGE, "river bread mill") * n), n) for n in (1, 3, 1, 20, 2)] + [page_of("", 9)]
    together = encoder.encode_pages(pages)
    for page, embedding in zip(pages, together, strict=True):
        assert np.array_equal(encoder.encode_pages([page])[0].vectors, embedding.vectors)
    queries = [QUERY, "river", "net " * 40]
    for text, query in zip(queries, encoder.encode_queries(queries), strict=True):
        assert np.array_equal(encoder.encode_queries([text])[0].vectors, query.vectors)
    assert together[-1].vectors.shape == (0, encoder.info.dim)


@every_kind
def test_a_piece_lies_in_the_word_that_it_is_from(kind: str) -> None:
    """With one word replaced, only vectors in its box and their context change: the changed piece is found."""
    encoder = encoder_of(kind)
    pieces = encoder._tokenizer.encode("Net revenue, grew", add_special_tokens=False)
    embedding = encode(encoder, "Net revenue, grew")
    lefts = [int(left) for left in embedding.boxes[(embedding.boxes != WHOLE_PAGE).any(axis=1)][:, 0]]
    words = ("Net", "revenue,", "grew")
    kept = [
        offsets
        for number, offsets in zip(pieces.ids, pieces.offsets, strict=True)
        if number not in encoder._recipe.unscored
    ]
    for left, (start, end) in zip(lefts, kept, strict=True):
        assert "Net revenue, grew"[start:end].strip() in words[left]


def test_the_embedded_encoders_own_folder_gives_its_vectors() -> None:
    by_folder, embedded = load(embedded_folder()), load_encoder("embedded", device="cpu", dtype="float32")
    text = "Net revenue by segment grew. " * 150
    assert np.array_equal(encode(by_folder, text).vectors, embedded.encode_pages([page_of(text)])[0].vectors)
    assert by_folder.info.query_template == embedded.info.query_template == "{}"


@pytest.mark.parametrize("model_type", TEXT_TYPES)
def test_every_type_of_the_table_is_saved_and_loaded_whole(model_type: str, tmp_path: Path) -> None:
    import transformers

    tokenizer = wordpiece_tokenizer()
    defaults = transformers.AutoConfig.for_model(model_type)
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": 0, "hidden_size": 32, "dim": 32, "embedding_size": 32}
    sizes |= {"num_attention_heads": 2, "n_heads": 2, "num_hidden_layers": 2, "n_layers": 2, "hidden_dim": 48}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 64, "head_dim": 16, "num_key_value_heads": 2}
    sizes |= {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    config = type(defaults)(**{name: value for name, value in sizes.items() if name in defaults.to_dict()})
    with quiet_transformers():
        transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
    alone, beside = encode(load(tmp_path)), load(tmp_path).encode_pages([page_of("river"), page_of(PAGE)])[1]
    assert np.array_equal(alone.vectors, beside.vectors)
    assert alone.vectors.shape[1] == 32


# --- Late interaction, as its makers mean it


@pytest.mark.parametrize("kind", LATE)
def test_sentence_transformers_makes_the_same_vectors(kind: str, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    with quiet_transformers():
        theirs = library.MultiVectorEncoder(str(tiny_text_checkpoint(kind)), device="cpu", local_files_only=True)
        query = theirs.encode_query([QUERY], convert_to_numpy=True)[0]
        page = theirs.encode_document([PAGE], convert_to_numpy=True)[0]
        theirs.save(str(tmp_path), create_model_card=False)  # in its own layout, the third
    for encoder in (encoder_of(kind), load(tmp_path)):
        assert np.abs(encoder.encode_queries([QUERY])[0].vectors - query).max() < 1e-6
        assert np.abs(encode(encoder).vectors - page).max() < 1e-6


@pytest.mark.parametrize("kind", LATE)
def test_short_queries_are_filled_up_and_long_ones_are_not_cut(kind: str) -> None:
    short, long = encoder_of(kind).encode_queries(["river", "river " * 70])
    assert short.tokens[3:5] == ("[SEP]", "[MASK]")
    assert len(short.vectors) == 16
    assert long.tokens.count("river") == 70
    assert "[MASK]" not in long.tokens


@pytest.mark.parametrize("kind", LATE)
def test_punctuation_and_no_more_is_left_out_of_a_page(kind: str) -> None:
    with_comma, without = (len(encode(encoder_of(kind), text).vectors) for text in ("river, mill.", "river mill"))
    assert with_comma == without == 2 + 3


def test_the_template_says_what_a_query_is_wrapped_in() -> None:
    assert encoder_of("bert").info.query_template == "{}"
    assert encoder_of("pylate").info.query_template == "[Q] {}, [MASK] up to 16 tokens"
    assert encoder_of("stanford").info.query_template == "[unused0]{}, [MASK] up to 16 tokens"


@pytest.mark.parametrize(
    ("settings", "n_vectors"),
    [
        ({"do_query_expansion": False}, 4),
        ({"query_length": 20}, 20),
        ({"query_prefix": ""}, 16),
        ({"query_prefix": "", "do_query_expansion": False}, 3),
        ({"query_prefix": "ask: ", "do_query_expansion": False}, 3 + 4),  # no token: read as text
    ],
)
def test_the_checkpoints_settings_are_followed(settings: dict[str, Any], n_vectors: int, tmp_path: Path) -> None:
    folder = copy_of("pylate", tmp_path)
    change_json(folder / "config_sentence_transformers.json", **settings)
    assert len(load(folder).encode_queries(["river"])[0].vectors) == n_vectors


def test_what_a_query_sees_of_its_filling_is_the_checkpoints_choice(tmp_path: Path) -> None:
    folder = copy_of("pylate", tmp_path)
    change_json(folder / "config_sentence_transformers.json", attend_to_expansion_tokens=True)
    seen, unseen = (e.encode_queries(["river"])[0].vectors for e in (load(folder), encoder_of("pylate")))
    assert np.abs(seen[:4] - unseen[:4]).max() > 1e-4


@pytest.mark.parametrize(("kind", "window"), [("bert", 62), ("xlm-roberta", 62), ("modernbert", 254), ("pylate", 21)])
def test_a_window_is_what_the_checkpoint_can_and_wants_to_take(kind: str, window: int) -> None:
    seen: list[int] = []
    encoder = load(tiny_text_checkpoint(kind))

    def note(module: Any, args: Any, kwargs: dict[str, torch.Tensor]) -> None:
        seen.append(kwargs["input_ids"].shape[1])

    assert isinstance(encoder._query_model, TokenModel)
    encoder._query_model.backbone.register_forward_pre_hook(note, with_kwargs=True)
    encode(encoder, "x " * 3000)
    n_special = 3 if kind == "pylate" else 2
    assert max(seen) <= window + n_special
    assert max(seen) > 0.9 * window


def test_special_tokens_in_a_text_are_only_text() -> None:
    assert "[MASK]" not in encoder_of("bert").encode_queries(["what is [MASK]?"])[0].tokens


# --- Identity


def test_a_folder_is_known_by_all_its_parts(tmp_path: Path) -> None:
    folder = copy_of("pylate", tmp_path)
    assert digest_of(folder) == encoder_of("pylate").info.revision
    change_tensors(folder / "1_Dense" / "model.safetensors", lambda tensors: tensors["linear.weight"].add_(1))
    assert digest_of(folder) != encoder_of("pylate").info.revision


def test_modules_on_the_hub_are_fetched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, asked = "0" * 40, []
    source = tiny_text_checkpoint("pylate")

    def download(name: str, *, revision: str | None, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        asked.append(revision)
        shutil.copytree(source, tmp_path / commit, dirs_exist_ok=True, ignore=shutil.ignore_patterns("1_Dense"))
        if any(pattern.startswith("1_Dense/") for pattern in allow_patterns):
            shutil.copytree(source / "1_Dense", tmp_path / commit / "1_Dense")
        return str(tmp_path / commit)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    encoder = load_encoder("someone/late", revision="main", device="cpu", dtype="float32")
    assert asked == ["main", commit]
    assert encoder.info.revision == commit
    assert np.array_equal(encoder.encode_pages([page_of(PAGE)])[0].vectors, encode(encoder_of("pylate")).vectors)


# --- Refusals


def drop(tensors: dict[str, torch.Tensor], key: str) -> None:
    del tensors[key]


def rename(tensors: dict[str, torch.Tensor], key: str) -> None:
    tensors[f"no.such.{key}"] = tensors.pop(key)


def reshape(tensors: dict[str, torch.Tensor], key: str) -> None:
    tensors[key] = tensors[key][:-1].clone()


@pytest.mark.parametrize(
    ("kind", "file", "key"),
    [
        ("bert", "model.safetensors", "encoder.layer.1.attention.self.query.weight"),
        ("xlm-roberta", "model.safetensors", "encoder.layer.0.output.dense.bias"),
        ("modernbert", "model.safetensors", "layers.1.attn.Wqkv.weight"),
        ("stanford", "model.safetensors", "linear.weight"),
        ("stanford", "model.safetensors", "bert.embeddings.word_embeddings.weight"),
        ("pylate", "1_Dense/model.safetensors", "linear.weight"),
        ("pylate", "model.safetensors", "embeddings.LayerNorm.weight"),
    ],
)
@pytest.mark.parametrize("spoil", [drop, rename, reshape])
def test_a_spoilt_checkpoint_is_refused_by_name(
    kind: str, file: str, key: str, spoil: Callable[[dict[str, torch.Tensor], str], None], tmp_path: Path
) -> None:
    folder = copy_of(kind, tmp_path)
    change_tensors(folder / file, lambda tensors: spoil(tensors, key))
    if key == "linear.weight" and spoil is reshape:
        change_tensors(folder / file, lambda tensors: tensors.update({key: tensors[key][:, :-1].clone()}))
    with pytest.raises(ModelError, match="weights do not fit the model") as caught:
        load(folder)
    assert key.removeprefix("bert.") in caught.value.problem
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model_class", ["BertForMaskedLM", "BertForPreTraining", "BertModel"])
def test_a_head_or_a_pooler_is_left_aside(model_class: str, tmp_path: Path) -> None:
    save_plain(tmp_path, "bert", model_class=model_class)
    assert encode(load(tmp_path)).vectors.shape[1] == 32


def test_another_models_head_is_not_left_aside(tmp_path: Path) -> None:
    folder = copy_of("bert", tmp_path)
    change_tensors(folder / "model.safetensors", lambda tensors: tensors.update({"extra.weight": torch.zeros(2)}))
    with pytest.raises(ModelError, match=r"unexpected: extra\.weight"):
        load(folder)


@pytest.mark.parametrize(
    ("file", "values", "problem"),
    [
        ("1_Dense/config.json", {"activation_function": "torch.nn.modules.activation.Tanh"}, "more than a linear"),
        ("1_Dense/config.json", {"use_residual": True}, "more than a linear layer"),
        ("1_Dense/config.json", {"bias": True}, "missing: 1_Dense/linear.bias"),
        ("config_sentence_transformers.json", {"query_length": "long"}, "settings for queries and pages"),
        ("config_sentence_transformers.json", {"document_length": 3}, "leave no room beside special ones"),
        ("config_sentence_transformers.json", {"skiplist_words": 7}, "settings for queries and pages"),
    ],
)
def test_what_colret_cannot_do_is_refused(file: str, values: dict[str, Any], problem: str, tmp_path: Path) -> None:
    folder = copy_of("pylate", tmp_path)
    change_json(folder / file, **values)
    with pytest.raises(ModelError, match=problem):
        load(folder)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("modules.json", "{", "modules.json cannot be read"),
        ("modules.json", '[{"path": ""}]', "modules.json cannot be read"),
        ("tokenizer.json", "{", "tokenizer cannot be loaded"),
        ("model.safetensors", None, "has no weights"),
        ("1_Dense/config.json", None, "has no config.json"),
        ("1_Dense/model.safetensors", None, "missing: 1_Dense/linear.weight"),
        ("1_Dense/model.safetensors", "x", "weights cannot be loaded"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(file: str, content: str | None, problem: str, tmp_path: Path) -> None:
    folder = copy_of("pylate", tmp_path)
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    with pytest.raises(ModelError, match=problem) as caught:
        load(folder)
    assert caught.value.remedy.endswith("--model embedded")


def test_an_unknown_module_is_refused(tmp_path: Path) -> None:
    folder = copy_of("pylate", tmp_path)
    entries = json.loads((folder / "modules.json").read_text())
    entries.append({"path": "2_LSTM", "type": "sentence_transformers.models.LSTM"})
    (folder / "modules.json").write_text(json.dumps(entries))
    with pytest.raises(ModelError, match="lists a LSTM, which colret does not know"):
        load(folder)


def test_a_dense_layer_behind_a_pooling_is_no_projection(tmp_path: Path) -> None:
    folder = copy_of("pylate", tmp_path)
    entries = json.loads((folder / "modules.json").read_text())
    entries.insert(1, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})
    (folder / "modules.json").write_text(json.dumps(entries))
    encoder = load(folder)
    assert (encoder.info.dim, encoder.info.query_template) == (32, "{}")


def test_a_transformer_may_lie_in_a_folder_of_its_own(tmp_path: Path) -> None:
    shutil.copytree(tiny_text_checkpoint("bert"), tmp_path / "0_Transformer")
    modules = [{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    modules += [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "0_Transformer" / "sentence_bert_config.json").write_text('{"max_seq_length": 20}')
    encoder = load(tmp_path)
    assert encoder._recipe.page.window == 18
    assert np.array_equal(encode(encoder, "river mill").vectors, encode(encoder_of("bert"), "river mill").vectors)


def test_a_long_query_in_two_windows_is_not_filled_up(tmp_path: Path) -> None:
    folder = copy_of("pylate", tmp_path)
    change_json(folder / "config_sentence_transformers.json", query_length=24)
    (query,) = load(folder).encode_queries(["river " * 23])  # windows of 12 and 11, each below 24
    assert "[MASK]" not in query.tokens
    assert len(query.tokens) == 23 + 2 * 3


def test_a_decoder_is_no_text_encoder(tmp_path: Path) -> None:
    folder = copy_of("bert", tmp_path)
    change_json(folder / "config.json", model_type="llama", architectures=["LlamaForCausalLM"])
    with pytest.raises(ModelError, match=r"a model of type 'llama' .* nor a text encoder that colret knows"):
        load(folder)


def test_words_have_no_image_tokens_to_keep() -> None:
    for name in ("embedded", str(tiny_text_checkpoint("bert"))):
        with pytest.raises(ModelError, match="no image tokens; leave --image-tokens-only out"):
            load_encoder(name, device="cpu", image_tokens_only=True)


def test_half_precision_turns_no_vector_around() -> None:
    half = load_encoder(str(tiny_text_checkpoint("stanford")), device="cpu", dtype="bfloat16")
    assert isinstance(half, TextEncoder)
    exact: Float32 = encode(encoder_of("stanford")).vectors
    assert ((encode(half).vectors * exact).sum(axis=1) > 0.98).all()
    assert np.array_equal(
        half.encode_queries([QUERY])[0].vectors, encoder_of("stanford").encode_queries([QUERY])[0].vectors
    )


def test_the_settings_of_the_tiny_checkpoints_are_the_published_keys() -> None:
    """As colbert-ir/colbertv2.0 and PyLate's models on the hub write them."""
    assert set(ARTIFACT) >= {"query_token_id", "doc_token_id", "query_maxlen", "doc_maxlen", "mask_punctuation"}
    assert set(PYLATE) >= {"query_prefix", "document_prefix", "query_length", "document_length", "skiplist_words"}
