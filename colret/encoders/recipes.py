"""How a text checkpoint wants pages and queries put before it.

A plain encoder reads its tokenizer's own special tokens around a window of word pieces, and
only the pieces' vectors count. A late-interaction one was trained with more: a marker that
says query or page, queries filled up with [MASK] tokens that take part in the score, and
punctuation that does not; all its vectors count. Whatever the checkpoint states is done.

A window of a plain encoder holds 256 tokens, or less where the checkpoint states or can take
no more: how far it can read says nothing about how well its single vectors keep what they
stand for, and 256 is what was measured. A late-interaction checkpoint states how long its
documents were in training, and that is taken.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colret.encoders.sources import OTHERWISE, read_json
from colret.encoders.text_checkpoints import TextCheckpoint
from colret.errors import ModelError

PLAIN_TOKENS = 256
"""Tokens of a window of a plain encoder, special ones included."""

_QUERY_TOKENS, _PAGE_TOKENS = 32, 180  # ColBERT's, where a checkpoint states none


@dataclass(frozen=True, slots=True)
class Frame:
    """The special tokens around a window of word pieces, and how many pieces it may hold."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    window: int


@dataclass(frozen=True, slots=True)
class Filling:
    """Tokens that fill a short query up: ColBERT's query augmentation."""

    token: int
    length: int  # tokens of a filled query, special ones included; 0 fills none
    is_seen: bool  # the query's other tokens attend to them


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that is done to a page or a query before and after the model sees it."""

    page: Frame
    query: Frame
    filling: Filling
    keeps_special: bool  # special tokens' vectors count
    unscored: frozenset[int]  # pieces of a page whose vectors are left out
    template: str  # how a query is wrapped, for people to read and indexes to compare

    def n_fillers(self, n_pieces: int) -> int:
        """Return how many tokens fill up a query of ``n_pieces``; a longer one is not cut."""
        return max(0, self.filling.length - n_pieces - len(self.query.before) - len(self.query.after))


def plain_recipe(tokenizer: Any, max_tokens: int = PLAIN_TOKENS) -> Recipe:
    """Return the recipe of an encoder that was not trained for late interaction.

    Args:
        tokenizer: A ``tokenizers.Tokenizer``.
        max_tokens: Tokens of a window, special ones included.

    Raises:
        ValueError: If special tokens leave no room for pieces.
    """
    frame = _frame(tokenizer, max_tokens)
    return Recipe(frame, frame, Filling(0, 0, True), False, frozenset(), "{}")


def read_recipe(checkpoint: TextCheckpoint, tokenizer: Any, filler: str | None, n_positions: int) -> Recipe:
    """Return the recipe that a checkpoint states in its files.

    Args:
        checkpoint: The checkpoint.
        tokenizer: Its ``tokenizers.Tokenizer``.
        filler: The token to fill queries up with, most often "[MASK]".
        n_positions: Tokens that the encoder can take.

    Raises:
        ModelError: If what it states is nonsense, or colret cannot do it.
    """
    try:
        stated = _stated(checkpoint)
        if not checkpoint.is_colbert:
            limit = int(stated.get("max_seq_length") or PLAIN_TOKENS)
            return plain_recipe(tokenizer, min(PLAIN_TOKENS, limit, n_positions))
        return _late_interaction_recipe(stated, tokenizer, filler, n_positions)
    except (ValueError, TypeError, AttributeError) as error:
        problem = f"its settings for queries and pages are not usable: {error}"
        raise ModelError(checkpoint.name, problem, f"choose another checkpoint, {OTHERWISE}") from error


def _late_interaction_recipe(stated: Mapping[str, Any], tokenizer: Any, filler: str | None, n_positions: int) -> Recipe:
    page = _frame(tokenizer, min(int(stated["page_tokens"]), n_positions), stated["page_prefix"])
    length = min(int(stated["query_tokens"]), n_positions) if stated["is_filled"] else 0
    query = _frame(tokenizer, min(max(int(stated["page_tokens"]), length), n_positions), stated["query_prefix"])
    filler = stated.get("filler") or filler
    token = tokenizer.token_to_id(filler) if filler else None
    if length and token is None:
        raise ValueError("queries are to be filled up, but the tokenizer has no mask token")
    unscored = {tokenizer.token_to_id(word) for word in stated["unscored"]} - {None}
    template = stated["query_prefix"] + "{}" + (f", {filler} up to {length} tokens" if length else "")
    return Recipe(
        page, query, Filling(token or 0, length, bool(stated["sees_filler"])), True, frozenset(unscored), template
    )


def _stated(checkpoint: TextCheckpoint) -> dict[str, Any]:
    """Return what the checkpoint's files say, under one set of names."""
    if checkpoint.is_stanford:
        return _stanford(_optional(checkpoint.name, checkpoint.backbone / "artifact.metadata"))
    transformer = _optional(checkpoint.name, checkpoint.backbone / "sentence_bert_config.json")
    if not checkpoint.is_colbert:
        return transformer
    settings = _optional(checkpoint.name, checkpoint.source.folder / "config_sentence_transformers.json")
    if checkpoint.mask is None:
        return _pylate(settings)
    return _multi_vector(settings, transformer, read_json(checkpoint.name, checkpoint.mask / "config.json"))


def _stanford(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "query_prefix": metadata.get("query_token_id", "[unused0]"),
        "page_prefix": metadata.get("doc_token_id", "[unused1]"),
        "query_tokens": metadata.get("query_maxlen", _QUERY_TOKENS),
        "page_tokens": metadata.get("doc_maxlen", _PAGE_TOKENS),
        "is_filled": True,
        "sees_filler": metadata.get("attend_to_mask_tokens", False),
        "unscored": string.punctuation if metadata.get("mask_punctuation", True) else "",
    }


def _pylate(settings: Mapping[str, Any]) -> dict[str, Any]:
    unscored: Iterable[str] | None = settings.get("skiplist_words")
    return {
        "query_prefix": settings.get("query_prefix", "[Q] ") or "",
        "page_prefix": settings.get("document_prefix", "[D] ") or "",
        "query_tokens": settings.get("query_length") or _QUERY_TOKENS,
        "page_tokens": settings.get("document_length") or _PAGE_TOKENS,
        "is_filled": settings.get("do_query_expansion") is not False,
        "sees_filler": settings.get("attend_to_expansion_tokens") or False,
        "unscored": list(string.punctuation) if unscored is None else list(unscored),
    }


def _multi_vector(
    settings: Mapping[str, Any], transformer: Mapping[str, Any], mask: Mapping[str, Any]
) -> dict[str, Any]:
    """Read what sentence-transformers 6 writes for its MultiVectorEncoder."""
    prompts = settings.get("prompts") or {}
    expansion = transformer.get("query_expansion") or {}
    if expansion.get("strategy", "fixed") != "fixed" or mask.get("skiplist_tasks", ["document"]) != ["document"]:
        raise ValueError("queries are to be filled up to no fixed length, or scored only in part")
    return {
        "query_prefix": prompts.get("query") or "",
        "page_prefix": prompts.get("document") or "",
        "query_tokens": expansion.get("length") or _QUERY_TOKENS,
        "page_tokens": transformer.get("document_length") or transformer.get("max_seq_length") or _PAGE_TOKENS,
        "is_filled": bool(expansion),
        "filler": expansion.get("token"),
        "sees_filler": expansion.get("attend", False),
        "unscored": mask.get("skiplist_words") or (),
    }


def _optional(name: str, path: Path) -> dict[str, Any]:
    return read_json(name, path) if path.is_file() else {}


def _frame(tokenizer: Any, max_tokens: int, prefix: str = "") -> Frame:
    """Return the tokenizer's own special tokens, with ``prefix`` behind the first ones."""
    probe = tokenizer.encode("a")
    special = [bool(flag) for flag in probe.special_tokens_mask]
    if all(special):
        raise ValueError("the tokenizer knows no letter")
    first, last = special.index(False), len(special) - special[::-1].index(False)
    before = (*probe.ids[:first], *_prefix_ids(tokenizer, prefix))
    after = tuple(probe.ids[last:])
    window = max_tokens - len(before) - len(after)
    if window < 1:
        raise ValueError(f"{max_tokens} tokens leave no room beside special ones")
    return Frame(before, after, window)


def _prefix_ids(tokenizer: Any, prefix: str) -> list[int]:
    """Return a prefix as one token where it is one, such as "[Q] " with its space, else as text."""
    for token in (prefix, prefix.strip()):
        number = tokenizer.token_to_id(token) if token else None
        if number is not None:
            return [number]
    ids: list[int] = tokenizer.encode(prefix, add_special_tokens=False).ids
    return ids
