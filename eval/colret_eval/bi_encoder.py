"""Single-vector vision models of colpali-engine (Bi*): what late interaction is compared with on page images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from PIL import Image

from colret.encoders import blamed_on_model
from colret.encoders.checkpoints import resolve_checkpoint
from colret.encoders.devices import choose_placement
from colret.encoders.families import N_AUGMENTATION, Family, find_family
from colret.encoders.geometry import pixels_used
from colret.encoders.sources import find_source
from colret.encoders.vision_weights import load_model, load_processor
from colret.encoders.weights import quiet_transformers
from colret.errors import ModelError
from colret.scoring import normalize_rows
from colret.types import Float32

COUNTERPARTS: Final = {
    "colmodernvbert": "ModernVBERT/bimodernvbert",
    "colqwen2": "vidore/biqwen2-v0.1",
}
"""Published single-vector checkpoints by the late-interaction family that they belong to."""

_MODELS: Final = {
    "paligemma": ("BiPali", "BiPaliProcessor"),
    "qwen2_vl": ("BiQwen2", "BiQwen2Processor"),
    "qwen2_5_vl": ("BiQwen2_5", "BiQwen2_5_Processor"),
    "qwen3_vl": ("BiQwen3", "BiQwen3Processor"),
    "qwen3_5": ("BiQwen3_5", "BiQwen3_5Processor"),
    "idefics3": ("BiIdefics3", "BiIdefics3Processor"),
    "modernvbert": ("BiModernVBert", "BiModernVBertProcessor"),
    "gemma3": ("BiGemma3", "BiGemmaProcessor3"),
}
"""Model and processor of colpali-engine by the backbone's ``model_type``."""


class BiEncoder:
    """A loaded model: a vector a page image, and a vector a query.

    Pages and queries go through it one at a time, so that padding cannot change them.
    """

    def __init__(self, name: str, device: str = "auto") -> None:
        """Load the checkpoint called ``name``, a folder or a hub name.

        Raises:
            ModelError: If it cannot be had, or its weights do not fit.
        """
        placement = choose_placement(device, "auto", None)
        with blamed_on_model(name):
            checkpoint = resolve_checkpoint(find_source(name), find_bi_family)
            self._processor = load_processor(checkpoint)
            self._model = load_model(checkpoint, placement.device, placement.dtype)
        self.name = name
        self._family = checkpoint.family
        self._device = placement.device
        self.pixels = pixels_used(self._family.layout, self._processor)
        """Largest number of pixels of a page image worth rendering."""

    def encode_image(self, image: Image.Image) -> Float32:
        """Return the vector of a page, (D,) float32 of unit length."""
        with quiet_transformers():
            inputs = self._processor.process_images([image])
        return self._vector(inputs)

    def encode_queries(self, texts: Sequence[str]) -> Float32:
        """Return the vectors of queries, (n, D) float32 unit rows."""
        suffix = self._processor.query_augmentation_token * N_AUGMENTATION
        vectors = []
        for text in texts:
            with quiet_transformers():
                inputs = self._processor.process_texts([self._family.query_prefix + text + suffix])
            vectors.append(self._vector(inputs))
        return np.stack(vectors)

    def _vector(self, inputs: Any) -> Float32:
        import torch

        kept = {key: value.to(self._device) for key, value in inputs.items() if key != "labels"}
        with torch.inference_mode(), blamed_on_model(self.name):
            output = self._model(**kept)
            vector: Float32 = normalize_rows(output.float().cpu().numpy())[0]
        return vector


def find_bi_family(name: str, config: dict[str, Any]) -> Family:
    """Return how to load the single-vector model whose ``config.json`` holds ``config``.

    Raises:
        ModelError: If there is none for its backbone.
    """
    backbone = str(config.get("model_type"))
    if backbone not in _MODELS:
        problem = f"a model of type {backbone!r} has no single-vector model in colpali-engine"
        raise ModelError(name, problem, f"name one of {', '.join(_MODELS)}")
    model_class, processor_class = _MODELS[backbone]
    like = find_family(name, {"model_type": backbone})
    return replace(like, name=f"bi-{like.name}", model_class=model_class, processor_class=processor_class)
