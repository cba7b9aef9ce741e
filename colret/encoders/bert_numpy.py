"""BERT's forward pass in numpy, for queries: importing torch takes longer than encoding a thousand of them.

The network is that of Devlin et al. 2019 (arXiv 1810.04805) with absolute positions, one segment
and the exact GELU of Hendrycks and Gimpel 2016 (arXiv 1606.08415); layers normalise their output.
"""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from colret.encoders.sources import read_json
from colret.types import Float32, Int64

_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)  # a1 to a5
_ERF_P = 0.3275911

_one_core = threading.Lock()  # the number of threads that numpy computes with is the whole process's


def _unlock() -> None:
    """Forget a lock that another thread held at a fork: in the child nobody would release it."""
    global _one_core
    _one_core = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


class _Affine(NamedTuple):
    weight: Float32  # (in, out), or (in,) where each component has its own
    bias: Float32  # (out,)


class _Layer(NamedTuple):
    query_key_value: _Affine  # (D, 3 D)
    attention_output: _Affine
    attention_norm: _Affine
    intermediate: _Affine
    output: _Affine
    output_norm: _Affine


class BertInNumpy:
    """A BERT in float32, on the CPU.

    Args:
        folder: Holds ``config.json`` and ``model.safetensors``, as transformers saves a ``BertModel``.
        name: The model, for messages.

    Raises:
        ModelError: If ``config.json`` is unreadable.
    """

    def __init__(self, folder: Path, name: str) -> None:
        from safetensors import safe_open
        from threadpoolctl import ThreadpoolController

        config = read_json(name, folder / "config.json")
        self.dim = int(config["hidden_size"])
        self._n_heads = int(config["num_attention_heads"])
        self._epsilon = np.float32(config["layer_norm_eps"])
        file: Any = safe_open(folder / "model.safetensors", "numpy")
        # Half of the file is word pieces, of which a query has a dozen: their rows are read when needed.
        self._words = file.get_slice("embeddings.word_embeddings.weight")
        positions = file.get_tensor("embeddings.position_embeddings.weight")
        self._places: Float32 = positions + file.get_tensor("embeddings.token_type_embeddings.weight")[0]
        self._norm = _norm(file, "embeddings.LayerNorm")
        self._layers = [_layer(file, f"encoder.layer.{i}") for i in range(int(config["num_hidden_layers"]))]
        self._threads = ThreadpoolController()

    def __call__(self, ids: Int64, mask: Int64, subject: str = "") -> Float32:
        """Return the last layer's vectors, the same to the last bit whatever rows come together.

        One core computes them: the matrices are too small to share out, and on a busy machine two
        threads took 3 to 15 times the CPU time of one, waiting for each other. Calls from several
        threads take turns.

        Args:
            ids: (n, L) int64.
            mask: (n, L) int64, 0 for what the other pieces must not see; each row has a 1.
            subject: Not used, as memory runs out elsewhere first.

        Returns:
            (n, L, D) float32.
        """
        with _one_core, self._threads.limit(limits=1, user_api="blas"):
            return self._forward(ids, mask)

    def _forward(self, ids: Int64, mask: Int64) -> Float32:
        words = np.concatenate([self._words[i : i + 1] for i in ids.ravel().tolist()])
        hidden = self._normalized(words.reshape(*ids.shape, -1) + self._places[: ids.shape[1]], self._norm)
        unseen = np.where(mask[:, None, None, :], np.float32(0), np.float32(-np.inf))
        for layer in self._layers:
            attended = _affine(self._attend(_affine(hidden, layer.query_key_value), unseen), layer.attention_output)
            hidden = self._normalized(hidden + attended, layer.attention_norm)
            inner = gelu(_affine(hidden, layer.intermediate))
            hidden = self._normalized(hidden + _affine(inner, layer.output), layer.output_norm)
        return hidden

    def _attend(self, query_key_value: Float32, unseen: Float32) -> Float32:
        """Return scaled dot-product attention, (n, L, D), of (n, L, 3 D) with (n, 1, 1, L) added to the logits."""
        n, length, _ = query_key_value.shape
        heads = query_key_value.reshape(n, length, 3, self._n_heads, -1).transpose(2, 0, 3, 1, 4)
        query, key, value = heads  # each (n, heads, L, D / heads)
        logits = query @ key.swapaxes(-1, -2) * np.float32(query.shape[-1] ** -0.5) + unseen
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        attended: Float32 = (weights @ value).swapaxes(1, 2).reshape(n, length, -1)
        return attended

    def _normalized(self, values: Float32, norm: _Affine) -> Float32:
        """Layer normalisation of the last axis (Ba et al. 2016, arXiv 1607.06450)."""
        centred = values - values.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        normalized: Float32 = centred / np.sqrt(variance + self._epsilon) * norm.weight + norm.bias
        return normalized


def gelu(values: Float32) -> Float32:
    """Return x Phi(x) for each float32, Phi being the standard normal distribution, within 4e-7 of it.

    Phi is (1 + erf(x / sqrt(2))) / 2, and erf formula 7.1.26 of Abramowitz and Stegun, Handbook of
    Mathematical Functions, 1964, whose error is at most 1.5e-7.
    """
    magnitude: Float32 = np.abs(values)
    t: Float32 = np.reciprocal(1 + np.float32(_ERF_P / math.sqrt(2)) * magnitude)
    polynomial = np.full_like(t, _ERF[-1])
    for coefficient in _ERF[-2::-1]:
        polynomial *= t
        polynomial += np.float32(coefficient)
    tail: Float32 = np.float32(0.5) * polynomial * t * np.exp(np.float32(-0.5) * magnitude * magnitude)  # 1 - Phi(|x|)
    result: Float32 = np.maximum(values, 0) - magnitude * tail
    return result


def _affine(values: Float32, layer: _Affine) -> Float32:
    result: Float32 = values @ layer.weight
    result += layer.bias
    return result


def _layer(file: Any, prefix: str) -> _Layer:
    attention = f"{prefix}.attention"
    parts = [_dense(file, f"{attention}.self.{part}") for part in ("query", "key", "value")]
    return _Layer(
        query_key_value=_Affine(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))),
        attention_output=_dense(file, f"{attention}.output.dense"),
        attention_norm=_norm(file, f"{attention}.output.LayerNorm"),
        intermediate=_dense(file, f"{prefix}.intermediate.dense"),
        output=_dense(file, f"{prefix}.output.dense"),
        output_norm=_norm(file, f"{prefix}.output.LayerNorm"),
    )


def _dense(file: Any, name: str) -> _Affine:
    """Read a dense layer, turned to lie as it is multiplied: that alone makes a query three times as fast."""
    weight = np.ascontiguousarray(file.get_tensor(f"{name}.weight").T)
    return _Affine(weight, file.get_tensor(f"{name}.bias"))


def _norm(file: Any, name: str) -> _Affine:
    return _Affine(file.get_tensor(f"{name}.weight"), file.get_tensor(f"{name}.bias"))
