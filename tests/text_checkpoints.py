"""Tiny random text checkpoints in every layout that colret reads, made offline from the real classes."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from colret.encoders.torchvision_guard import import_torchvision
from colret.encoders.weights import quiet_transformers
from tests.checkpoints import byte_tokenizer, scratch_folder

WORDS = ["net", "revenue", "by", "segment", "grew", "in", "the", "third", "quarter", "of"]
WORDS += ["river", "heron", "bread", "mill", "##s", "##ing"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]"]
DIM, PROJECTED = 32, 12
PYLATE = {
    "model_type": "ColBERT",
    "query_prefix": "[Q] ",
    "document_prefix": "[D] ",
    "query_length": 16,
    "document_length": 24,
    "attend_to_expansion_tokens": False,
    "skiplist_words": [",", "."],
    "do_query_expansion": True,
}
ARTIFACT = {
    "query_token_id": "[unused0]",
    "doc_token_id": "[unused1]",
    "query_maxlen": 16,
    "doc_maxlen": 24,
    "mask_punctuation": True,
    "attend_to_mask_tokens": False,
}


@cache
def tiny_text_checkpoint(kind: str) -> Path:
    """Return the folder of a tiny checkpoint, made once per test run: copy it to change it."""
    folder = scratch_folder() / f"text-{kind}"
    _BUILDERS[kind](folder)
    return folder


def save_plain(folder: Path, kind: str, **head: Any) -> None:
    """Write a plain folder of transformers: one of ``PLAIN``, with the backbone's own class or another."""
    import torch

    import_torchvision()
    torch.manual_seed(0)
    with quiet_transformers():
        model, tokenizer = PLAIN[kind](**head)
        _fill(model)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _fill(model: Any) -> None:
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 and "norm" not in name.lower():
                parameter.normal_(std=0.1)  # biases start at zero, which would hide them from a test


def wordpiece_tokenizer(extra: Sequence[str] = ()) -> Any:
    """Return a BERT tokenizer of a few words, every ASCII letter, and ``extra`` tokens."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = [*string.ascii_lowercase, *string.digits, *string.punctuation]
    pieces = dict.fromkeys([*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *WORDS])
    tokenizer = Tokenizer(models.WordPiece(vocab={piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]", **roles)
    fast.add_tokens(list(extra))
    return fast


def _sizes(vocabulary: Any, n_positions: int) -> dict[str, Any]:
    return {
        "vocab_size": len(vocabulary),
        "hidden_size": DIM,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": n_positions,
        "initializer_range": 0.2,
    }


def _bert(model_class: str = "BertModel", extra: Sequence[str] = ()) -> tuple[Any, Any]:
    import transformers

    tokenizer = wordpiece_tokenizer(extra)
    config = transformers.BertConfig(**_sizes(tokenizer, 64), pad_token_id=0)
    return getattr(transformers, model_class)(config), tokenizer


def _distilbert() -> tuple[Any, Any]:
    import transformers

    tokenizer = wordpiece_tokenizer()
    config = transformers.DistilBertConfig(
        vocab_size=len(tokenizer), dim=DIM, hidden_dim=48, n_layers=2, n_heads=2, max_position_embeddings=64
    )
    return transformers.DistilBertModel(config), tokenizer


def _xlm_roberta() -> tuple[Any, Any]:
    """Return a model whose tokenizer works on SentencePiece's terms, and numbers positions from 2."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = [*special, "▁", *string.ascii_letters, *string.digits, *string.punctuation]
    pieces += [f"▁{word}" for word in WORDS if not word.startswith("#")]
    vocabulary = [(piece, 0.0 if piece in special else -float(2 + i)) for i, piece in enumerate(pieces)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    roles = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", mask_token="<mask>", **roles
    )
    config = transformers.XLMRobertaConfig(**_sizes(pieces, 66), pad_token_id=1)
    return transformers.XLMRobertaModel(config), fast


def _modernbert() -> tuple[Any, Any]:
    import transformers
    from tokenizers import processors

    special = ["[PAD]", "[CLS]", "[SEP]", "[MASK]"]
    fast = byte_tokenizer(special, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    fast.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    config = transformers.ModernBertConfig(
        **_sizes(fast, 512),
        pad_token_id=0,
        cls_token_id=1,
        sep_token_id=2,
        global_attn_every_n_layers=2,
        local_attention=8,
    )
    return transformers.ModernBertModel(config), fast


def _stanford(folder: Path) -> None:
    """ColBERT's own layout: the projection and the encoder in one file, settings in artifact.metadata."""
    import torch
    from safetensors.torch import load_file, save_file

    save_plain(folder, "bert", model_class="BertForMaskedLM")
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: tensor for name, tensor in tensors.items() if name.startswith("bert.")}
    tensors["linear.weight"] = torch.randn(PROJECTED, DIM)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["HF_ColBERT"]}))
    (folder / "artifact.metadata").write_text(json.dumps(ARTIFACT))


def _pylate(folder: Path) -> None:
    """PyLate's layout: a dense module of its own, and prefixes that are tokens."""
    import torch
    from safetensors.torch import save_file

    save_plain(folder, "bert", extra=["[Q] ", "[D] "])
    (folder / "1_Dense").mkdir()
    save_file({"linear.weight": torch.randn(PROJECTED, DIM)}, folder / "1_Dense" / "model.safetensors")
    dense: dict[str, Any] = {"in_features": DIM, "out_features": PROJECTED, "bias": False}
    dense |= {"activation_function": "torch.nn.modules.linear.Identity"}
    (folder / "1_Dense" / "config.json").write_text(json.dumps(dense))
    modules = [("", "sentence_transformers.models.Transformer"), ("1_Dense", "pylate.models.Dense.Dense")]
    entries = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(entries))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 23, "do_lower_case": False}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(PYLATE))


PLAIN: dict[str, Callable[..., tuple[Any, Any]]] = {
    "bert": _bert,
    "distilbert": _distilbert,
    "xlm-roberta": _xlm_roberta,
    "modernbert": _modernbert,
}
_BUILDERS: dict[str, Callable[[Path], None]] = {
    **{kind: lambda folder, kind=kind: save_plain(folder, kind) for kind in PLAIN},  # type: ignore[misc]
    "stanford": _stanford,
    "pylate": _pylate,
}
TEXT_KINDS = tuple(_BUILDERS)
