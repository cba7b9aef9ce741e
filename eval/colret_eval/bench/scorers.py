"""Exact scorers over pages in memory: each makes ready once, then scores a query against all.

Pages come as one (N, P, D) float32 array of unit rows; a scorer returns (N,) scores whose
order is that of MaxSim, whatever their scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from colret.types import Codec, Float32, Multivectors

Score = Callable[[Float32], Any]
"""From a (T, D) query to (N,) scores."""


class Scorer(NamedTuple):
    """How to make a scorer, and the distribution that it comes from."""

    distribution: str
    make: Callable[[Float32], Score]


def _numpy(pages: Float32) -> Score:
    return lambda query: np.array([(page @ query.T).max(axis=0).sum() for page in pages])


def _colpali_engine(dtype: str) -> Callable[[Float32], Score]:
    def make(pages: Float32) -> Score:
        import torch

        from colret.encoders.torchvision_guard import import_torchvision

        import_torchvision()
        from colpali_engine.utils.processing_utils import BaseVisualRetrieverProcessor

        passages = list(torch.from_numpy(pages).to(getattr(torch, dtype)))

        def score(query: Float32) -> Any:
            asked = [torch.from_numpy(query).to(passages[0].dtype)]
            return BaseVisualRetrieverProcessor.score_multi_vector(asked, passages, device="cpu")[0].numpy()

        return score

    return make


def _maxsim_cpu(pages: Float32) -> Score:
    import maxsim_cpu

    return lambda query: maxsim_cpu.maxsim_scores(query, pages)


def _numkong(dtype: Any) -> Callable[[Float32], Score]:
    def make(pages: Float32) -> Score:
        import numkong

        packed = [numkong.maxsim_pack(numkong.astype(page, dtype)) for page in pages]

        def score(query: Float32) -> Any:
            asked = numkong.maxsim_pack(numkong.astype(query, dtype))
            return np.array([-numkong.maxsim_packed(asked, page) for page in packed])  # it returns distances

        return score

    return make


def _colret(codec: Codec | None) -> Callable[[Float32], Score]:
    def make(pages: Float32) -> Score:
        from colret.scoring import maxsim

        if codec is None:
            packed = Multivectors.pack(list(pages))
            return lambda query: maxsim(query, packed)
        stored, rotation = _encoded(pages, codec)
        return lambda query: maxsim(query @ rotation, stored)

    return make


def _colret_hamming(pages: Float32) -> Score:
    from colret.scoring import hamming_maxsim

    signs, rotation = _encoded(pages, "binary")
    return lambda query: hamming_maxsim(query @ rotation, signs)


def _encoded(pages: Float32, codec: Codec) -> tuple[Multivectors, Float32]:
    """Return pages as an index stores them, and the rotation of their dimensions there."""
    from colret.codecs import decode, encode
    from colret.projection import fit
    from colret.settings import COARSE_CODECS

    rotation = np.eye(pages.shape[2], dtype=np.float32)
    if codec in COARSE_CODECS:
        rotation = fit(rotation, pages.shape[2], balance=True)
    stored = [encode(page @ rotation, codec) for page in pages]
    codes = np.frombuffer(b"".join(page.codes for page in stored), np.uint8)
    sizes = np.array([len(page.codes) for page in stored], np.int64)
    scales = np.array([page.scale for page in stored], np.float32)
    return decode(codes, sizes, scales, pages.shape[2], codec), rotation


SCORERS: dict[str, Scorer] = {
    "numpy float32": Scorer("numpy", _numpy),
    "colpali-engine float32": Scorer("colpali-engine", _colpali_engine("float32")),
    "colpali-engine bfloat16": Scorer("colpali-engine", _colpali_engine("bfloat16")),
    "maxsim-cpu float32": Scorer("maxsim-cpu", _maxsim_cpu),
    "numkong float32": Scorer("numkong", _numkong("float32")),
    "numkong bfloat16": Scorer("numkong", _numkong("bfloat16")),
    "colret float32": Scorer("colret", _colret(None)),
    "colret float16": Scorer("colret", _colret("float16")),
    "colret int8": Scorer("colret", _colret("int8")),
    "colret int4": Scorer("colret", _colret("int4")),
    "colret binary": Scorer("colret", _colret("binary")),
    "colret Hamming": Scorer("colret", _colret_hamming),
}
"""Each scorer by its name; those of colret start with its name."""
OURS = "colret"
