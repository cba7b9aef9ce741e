"""The tokenizer of a text checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colret.encoders.weights import REMEDY, quiet_transformers
from colret.errors import ModelError


def load_tokenizer(name: str, folder: Path) -> tuple[Any, str | None]:
    """Return the ``tokenizers.Tokenizer`` of a checkpoint, and the token that fills its queries up.

    Args:
        name: The checkpoint, for messages.
        folder: Where its tokenizer's files lie.

    Raises:
        ModelError: If they are missing or unreadable, or of a kind without such a tokenizer.
    """
    from transformers import AutoTokenizer

    try:
        with quiet_transformers():
            loaded = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        tokenizer = loaded.backend_tokenizer
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        # transformers has no error of its own for missing files, nor for a kind without a fast tokenizer.
        raise ModelError(name, f"its tokenizer cannot be loaded: {error}", REMEDY) from error
    # Without its files transformers makes an empty tokenizer, to which every word is unknown.
    probe = tokenizer.encode("page", add_special_tokens=False).tokens
    if not probe or set(probe) == {loaded.unk_token}:
        raise ModelError(name, "its tokenizer is missing, or knows no words", REMEDY)
    return whole_text(tokenizer), loaded.mask_token or loaded.eos_token


def whole_text(tokenizer: Any) -> Any:
    """Return ``tokenizer`` set to keep all of a text, and to take special tokens in it as text."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer
