"""Checks of a model: its weights, what batches do to its vectors, and the scores made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colret.doctor.checks import Check, failed
from colret.encoders import Encoder, blamed_on_model, load_encoder
from colret.errors import ColretError
from colret.kernels import OFF
from colret.products import arithmetic
from colret.scoring import float_vectors, int8_scale, maxsim, normalize_rows, quantize
from colret.types import Float32, Multivectors, Page, PageRef, Words

_SAME = 1e-5  # largest difference of a component that rounding in float32 explains
_ALIKE = 0.1  # the same in half precision, where a batch may be added up in another order
_SIDE = 448  # pixels of a test page: enough for any model, and quick on a CPU
_SENTENCES = ("Net revenue by segment grew in the third quarter", "The grey heron waits for fish in shallow water")


def check_model(
    name: str, *, revision: str | None, device: str, dtype: str, image_tokens_only: bool
) -> tuple[Encoder | None, Check]:
    """Load a model, and report what it is or why not."""
    try:
        encoder = load_encoder(
            name,
            revision=revision,
            device=device,
            dtype=dtype,
            batch_size=2,  # so that check_batches has one
            image_tokens_only=image_tokens_only,
        )
    except ColretError as error:
        return None, failed("model", error)
    except ImportError as error:
        return None, Check("model", "error", f"{name}: a library is missing: {error}", "pip install --upgrade colret")
    except ValueError as error:
        return None, Check("model", "error", str(error), "leave --device and --dtype at auto")
    info = encoder.info
    found = f"{info.name}: {info.family}, {info.revision}, D = {info.dim}, every weight in its place"
    return encoder, Check("model", "ok", f"{found}; queries as {info.query_template!r}")


def check_batches(encoder: Encoder) -> Check:
    """Encode two pages alone and together: no vector may depend on the company."""
    pages = _test_pages(encoder.info.reads)
    try:
        with blamed_on_model(encoder.info.name):
            together = encoder.encode_pages(pages)
            alone = [encoder.encode_pages([page])[0] for page in pages]
    except ColretError as error:
        return failed("batches", error)
    differences = [_difference(one.vectors, other.vectors) for one, other in zip(alone, together, strict=True)]
    worst = max(differences)
    found = f"two pages alone and together differ by {worst:.1e} at most"
    if worst <= _SAME:
        return Check("batches", "ok", found)
    if worst <= _ALIKE:
        remedy = "--dtype float32 makes them equal, --batch-size 1 makes them independent"
        return Check("batches", "warning", f"{found}, as half precision does", remedy)
    return Check("batches", "error", found, "use --batch-size 1 and report the model")


def check_maxsim() -> Check:
    """Compare the int8 MaxSim of this processor with float32 on the same stored vectors."""
    rng = np.random.default_rng(0)
    query = normalize_rows(rng.normal(size=(24, 128)).astype(np.float32))
    pages = [normalize_rows(rng.normal(size=(n, 128)).astype(np.float32)) for n in (1, 64, 1030)]
    scales = np.array([int8_scale(page) for page in pages], np.float32)
    codes = [quantize(page, np.asarray(scale)) for page, scale in zip(pages, scales, strict=True)]
    offsets = Multivectors.pack(pages).offsets
    stored = Multivectors(np.concatenate(codes), offsets, scales, "int8")
    exact = maxsim(query, Multivectors.pack([float_vectors(stored, i) for i in range(len(stored))]))
    worst = float(np.abs(maxsim(query, stored) - exact).max() / len(query))
    name, compiled = arithmetic()
    found = f"int8 by {name}; it and float32 differ by {worst:.1e} a query token at most"
    if worst > 0.01:
        return Check("MaxSim", "error", found, f"report this processor; {OFF}=1 scores without compiled code")
    if not compiled:
        remedy = f"install a C compiler, unset {OFF}, and install colret again"
        return Check("MaxSim", "warning", f"{found}; the compiled kernels are faster", remedy)
    return Check("MaxSim", "ok", found)


def _test_pages(reads: str) -> Sequence[Page]:
    return [_words_page(i) if reads == "words" else _image_page(i) for i in range(2)]


def _words_page(number: int) -> Page:
    texts = tuple((_SENTENCES[number] + " ").split() * (number + 1))  # of two lengths
    boxes = np.zeros((len(texts), 4), np.uint16)
    return Page(PageRef("doctor", number + 1), 1, 1, Words(texts, boxes), None, 0)


def _image_page(number: int) -> Page:
    from PIL import Image

    pixels = np.random.default_rng(number).integers(0, 256, (_SIDE, _SIDE, 3), np.uint8)
    return Page(PageRef("doctor", number + 1), _SIDE, _SIDE, Words.none(), Image.fromarray(pixels), 0)


def _difference(one: Float32, other: Float32) -> float:
    return float(np.abs(one - other).max()) if one.shape == other.shape else float("inf")
