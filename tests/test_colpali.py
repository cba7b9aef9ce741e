"""What the vision encoder promises whatever the family: memory, refusals, queries, devices."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from colret.encoders.batches import unpad
from colret.encoders.colpali import ColPaliEncoder, load_colpali
from colret.encoders.devices import choose_placement, is_out_of_memory
from colret.errors import ModelError
from colret.types import WHOLE_PAGE, Page
from tests.checkpoints import noisy_page, page_of, tiny_checkpoint, tiny_encoder

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

Hook = Callable[..., Any]


@pytest.fixture
def hooked() -> Iterator[Callable[[Hook], ColPaliEncoder]]:
    """Give encoders whose real model calls a hook before each forward pass."""
    handles = []

    def load(hook: Hook) -> ColPaliEncoder:
        encoder = load_colpali(str(tiny_checkpoint("colqwen2")), device="cpu", batch_size=8)
        handles.append(encoder._model.register_forward_pre_hook(hook, with_kwargs=True))
        return encoder

    yield load
    for handle in handles:
        handle.remove()


def same_shaped_pages(n: int) -> list[Page]:
    return [noisy_page(number, 210, 297) for number in range(1, n + 1)]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"),
    ],
    ids=["cuda", "cpu", "mps"],
)
def test_a_batch_too_large_for_memory_is_halved_and_its_pages_tried_again(
    hooked: Callable[[Hook], ColPaliEncoder], error: RuntimeError
) -> None:
    tried: list[int] = []

    def fail_above_two(module: Any, args: Any, kwargs: dict[str, torch.Tensor]) -> None:
        tried.append(len(kwargs["input_ids"]))
        if tried[-1] > 2:
            raise error

    encoder = hooked(fail_above_two)
    found = encoder.encode_pages(same_shaped_pages(5))
    expected = tiny_encoder("colqwen2").encode_pages(same_shaped_pages(5))
    assert tried == [5, 2, 2, 1]
    assert encoder.batch_size == 2
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one.vectors - other.vectors).max() < 1e-5


def test_no_page_is_skipped_when_the_batch_shrinks_on_the_way(
    hooked: Callable[[Hook], ColPaliEncoder],
) -> None:
    def fail_above_three(module: Any, args: Any, kwargs: dict[str, torch.Tensor]) -> None:
        if len(kwargs["input_ids"]) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")

    found = hooked(fail_above_three).encode_pages(same_shaped_pages(20))
    expected = tiny_encoder("colqwen2").encode_pages(same_shaped_pages(20))
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one.vectors - other.vectors).max() < 1e-5


def test_a_page_too_large_even_alone_is_named(hooked: Callable[[Hook], ColPaliEncoder]) -> None:
    def fail(module: Any, args: Any, kwargs: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(ModelError, match=r"^doc:1: memory ran out even for this alone"):
        hooked(fail).encode_pages(same_shaped_pages(3))


def test_other_failures_are_not_taken_for_a_lack_of_memory(hooked: Callable[[Hook], ColPaliEncoder]) -> None:
    def fail(module: Any, args: Any, kwargs: Any) -> None:
        raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape mismatch"):
        hooked(fail).encode_pages(same_shaped_pages(1))


@pytest.mark.parametrize("value", [float("nan"), 0.0])
def test_a_vector_without_a_direction_is_refused_with_its_page(value: float) -> None:
    encoder = load_colpali(str(tiny_checkpoint("colqwen2")), device="cpu", batch_size=8)

    def spoil(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        spoilt = output.clone()
        spoilt[1, 5] = value
        return spoilt

    handle = encoder._model.register_forward_hook(spoil)
    try:
        with pytest.raises(ModelError, match=r"^doc:2: .* gave no direction for a token"):
            encoder.encode_pages(same_shaped_pages(3))
    finally:
        handle.remove()


def test_a_model_too_large_for_the_device_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: Any, device: torch.device) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("transformers.PreTrainedModel.to", fail)
    with pytest.raises(ModelError, match=r"does not fit into the memory of cpu; try --device cpu"):
        load_colpali(str(tiny_checkpoint("colqwen2")), device="cpu")


def test_padding_is_told_by_the_mask_on_either_side_and_not_by_zeros() -> None:
    outputs = np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    outputs[0, 1] = 0  # a real token, whatever its vector
    left, right = unpad(outputs, np.array([[0, 1, 1, 1], [1, 1, 0, 0]]))
    assert left.tolist() == [[0, 0], [4, 5], [6, 7]]
    assert right.tolist() == [[8, 9], [10, 11]]


@pytest.mark.parametrize("family", ["colpali", "colidefics3"])
def test_prompt_tokens_can_be_left_out(family: str) -> None:
    full = tiny_encoder(family).encode_pages(same_shaped_pages(1))[0]
    encoder = load_colpali(str(tiny_checkpoint(family)), device="cpu", image_tokens_only=True)
    only = encoder.encode_pages(same_shaped_pages(1))[0]
    placed = (only.boxes != WHOLE_PAGE).any(axis=1)
    n_overview = {"colpali": 0, "colidefics3": 4}[family]
    assert len(only.vectors) == placed.sum() + n_overview < len(full.vectors)
    rows = {row.tobytes() for row in full.vectors}
    assert all(row.tobytes() in rows for row in only.vectors)


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "1", "P"])
def test_images_of_any_mode_are_encoded(mode: str) -> None:
    page = page_of(Image.new("RGB", (60, 80), "white").convert(mode))
    assert len(tiny_encoder("colqwen2").encode_pages([page])[0].vectors) > 0


def test_a_page_of_an_impossible_shape_is_named() -> None:
    with pytest.raises(ModelError, match=r"^doc:1: the model cannot take this page: absolute aspect ratio"):
        tiny_encoder("colqwen2").encode_pages([page_of(Image.new("RGB", (4, 1000)))])


def test_a_page_without_an_image_is_the_callers_mistake() -> None:
    page = noisy_page(1, 10, 10)
    blind = Page(page.ref, page.width, page.height, page.words, None, 0)
    with pytest.raises(ValueError, match="doc:1 comes without its image"):
        tiny_encoder("colpali").encode_pages([blind])


def test_no_pages_and_no_queries_give_no_embeddings() -> None:
    assert tiny_encoder("colpali").encode_pages([]) == []
    assert tiny_encoder("colpali").encode_queries([]) == []


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_query_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at least one word"):
        tiny_encoder("colpali").encode_queries(["fine", text])


@pytest.mark.parametrize("family", ["colpali", "colqwen2", "colqwen3", "colidefics3", "colgemma3"])
def test_special_tokens_in_a_query_are_only_text(family: str) -> None:
    encoder = tiny_encoder(family)
    image_token = encoder._processor.tokenizer.convert_ids_to_tokens(encoder._image_token)
    (query,) = encoder.encode_queries([f"what does {image_token} mean?"])
    assert image_token not in query.tokens


def test_a_colpali_query_token_sees_the_whole_query() -> None:
    """PaliGemma attends both ways; transformers 5 forgets that beside padding unless it is told."""
    one, other = tiny_encoder("colpali").encode_queries(["net sum", "net sun"])
    assert np.abs(one.vectors[3] - other.vectors[3]).max() > 1e-4


def test_the_devices_of_this_machine_are_found() -> None:
    expected = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert choose_placement().device.type == expected
    assert choose_placement("cpu") == (torch.device("cpu"), torch.float32, 1)
    assert choose_placement("cpu", "bfloat16", 7) == (torch.device("cpu"), torch.bfloat16, 7)


def test_a_gpu_is_used_in_bfloat16_with_larger_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    assert choose_placement() == (torch.device("cuda"), torch.bfloat16, 8)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    assert choose_placement().dtype == torch.float32


def test_a_device_that_is_not_there_is_refused_with_the_remedy() -> None:
    with pytest.raises(ModelError, match=r"cuda:99: this machine has no such device; use --device cpu"):
        choose_placement("cuda:99")


def test_nonsense_options_are_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="unknown device 'gpu'"):
        choose_placement("gpu")
    with pytest.raises(ValueError, match="unknown dtype 'int8'"):
        choose_placement("cpu", "int8")
    with pytest.raises(ValueError, match="at least 1"):
        choose_placement("cpu", batch_size=0)


def test_out_of_memory_is_told_from_other_failures() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("x"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("family", ["colpali", "colqwen2", "colmodernvbert"])
def test_a_gpu_gives_the_same_vectors(family: str) -> None:
    on_gpu = load_colpali(str(tiny_checkpoint(family)), device="cuda", dtype="float32")
    pages = same_shaped_pages(3)
    for one, other in zip(on_gpu.encode_pages(pages), tiny_encoder(family).encode_pages(pages), strict=True):
        assert np.abs(one.vectors - other.vectors).max() < 1e-3


def run_python(code: str) -> None:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_importing_the_encoder_loads_no_heavy_library() -> None:
    heavy = {
        "torch",
        "torchvision",
        "transformers",
        "colpali_engine",
        "peft",
        "huggingface_hub",
        "safetensors",
    }
    run_python(f"import colret.encoders.colpali, sys; assert not {heavy} & set(sys.modules), sys.modules.keys()")


def test_torchvision_imports_whatever_it_was_linked_against() -> None:
    run_python(
        "from colret.encoders.torchvision_guard import import_torchvision\n"
        "import_torchvision(); import_torchvision()\n"
        "import torch, torchvision.transforms\n"
        "assert torch.ops.torchvision.nms"
    )


BROKEN = """
import sys, types, pathlib, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "torchvision").mkdir()
(folder / "torchvision" / "__init__.py").write_text({source!r})
sys.path.insert(0, str(folder))
from colret.encoders import torchvision_guard
from colret.errors import ModelError
"""


def test_a_sound_torchvision_is_left_alone() -> None:
    run_python(
        BROKEN.format(source="fine = True")
        + "torchvision_guard.import_torchvision()\n"
        + "assert sys.modules['torchvision'].fine and torchvision_guard._library is None"
    )


def test_another_failure_of_torchvision_is_not_hidden() -> None:
    run_python(
        BROKEN.format(source="raise RuntimeError('different CUDA major versions')")
        + "try:\n    torchvision_guard.import_torchvision()\n"
        + "except ModelError as error:\n    assert 'CUDA major' in str(error)\n"
        + "else:\n    raise SystemExit('nothing was raised')"
    )
