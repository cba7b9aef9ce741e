"""Predicted sizes: the published one, and those of real codes."""

from __future__ import annotations

import numpy as np
import pytest

from colret.codecs import encode
from colret.types import Codec
from colret_eval.storage import predicted_bytes


def test_published_size_of_a_hundred_million_single_vectors() -> None:
    assert round(predicted_bytes(10**8, 512) / 1e9) == 205


@pytest.mark.parametrize("codec", ["float16", "int8", "int4", "binary"])
def test_prediction_is_the_size_of_real_codes(codec: Codec) -> None:
    vectors = np.random.default_rng(0).normal(size=(7, 20)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert len(encode(vectors, codec).codes) == predicted_bytes(7, 20, codec)
