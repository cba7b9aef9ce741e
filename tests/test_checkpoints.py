"""Finding checkpoints in folders and on the hub, and loading adapters, old layouts and wrecks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import torch
from huggingface_hub import constants, errors
from safetensors.torch import load_file, save_file

from colret.encoders.checkpoints import Checkpoint, resolve_checkpoint
from colret.encoders.colpali import ColPaliEncoder, load_colpali
from colret.encoders.sources import digest_of, find_source
from colret.encoders.weights import quiet_transformers
from colret.errors import ModelError
from tests.checkpoints import noisy_page, tiny_checkpoint, tiny_encoder

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning"),  # in writing adapters
]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_LINEAR = "(down_proj|gate_proj|up_proj|k_proj|q_proj|v_proj|o_proj)"
TARGETS = {  # as the published adapters state them
    "colpali": rf"(.*(language_model).*{_LINEAR}.*$|.*(custom_text_proj).*$)",
    "colqwen2": rf"(.*(model).*{_LINEAR}.*$|.*(custom_text_proj).*$)",
    "colidefics3": rf"(.*(model.text_model).*{_LINEAR}.*$|.*(linear).*$)",
}
OLD_NAMES = {  # today's module names, and those when the published checkpoints were made
    "colpali": (
        ("model.model.language_model.", "model.language_model.model."),
        ("model.model.vision_tower.", "model.vision_tower.vision_model."),
        ("model.model.multi_modal_projector.", "model.multi_modal_projector."),
    ),
    "colqwen2": (("language_model.", "model."),),
    "colqwen2.5": (("language_model.", "model."),),
    "colqwen3": (("language_model.", "model.language_model."), ("visual.", "model.visual.")),
    "colidefics3": (),
    "colmodernvbert": (),
    "colgemma3": (),
    "colqwen3.5": (),
}


def resolve(name: str, revision: str | None = None) -> Checkpoint:
    return resolve_checkpoint(find_source(name, revision))


def page_vectors(encoder: ColPaliEncoder) -> np.ndarray[Any, np.dtype[np.float32]]:
    return encoder.encode_pages([noisy_page(1, 210, 297)])[0].vectors


def old_name(family: str, name: str) -> str:
    for new, old in OLD_NAMES[family]:
        if name.startswith(new):
            return old + name.removeprefix(new)
    return name


def save_adapter(family: str, folder: Path) -> None:
    """Write a LoRA adapter for a tiny checkpoint, with weights that matter and today's names."""
    from peft import LoraConfig, get_peft_model

    model = load_colpali(str(tiny_checkpoint(family)), device="cpu")._model
    config = LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS[family], init_lora_weights=False)
    torch.manual_seed(1)
    with quiet_transformers():
        adapted = get_peft_model(model, config)
        adapted.save_pretrained(str(folder))
    stated = json.loads((folder / "adapter_config.json").read_text())
    stated["base_model_name_or_path"] = str(tiny_checkpoint(family))
    (folder / "adapter_config.json").write_text(json.dumps(stated))


def change_tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


# --- Folders


def test_a_folder_is_known_by_a_digest_of_its_files(tmp_path: Path) -> None:
    first = resolve(str(tiny_checkpoint("colqwen2")))
    assert first.revision == digest_of(tiny_checkpoint("colqwen2")) == tiny_encoder("colqwen2").info.revision
    shutil.copytree(tiny_checkpoint("colqwen2"), tmp_path / "copy")
    assert resolve(str(tmp_path / "copy")).revision == first.revision
    change_tensors(tmp_path / "copy" / "model.safetensors", lambda tensors: tensors["custom_text_proj.bias"].add_(1))
    assert resolve(str(tmp_path / "copy")).revision != first.revision


def test_a_folder_has_no_revisions() -> None:
    with pytest.raises(ModelError, match="a local folder has no revisions"):
        resolve(str(tiny_checkpoint("colqwen2")), "main")


@pytest.mark.parametrize("name", ["./missing", "/nowhere/at/all", "a/b/c", "~nobody", "two words"])
def test_a_missing_folder_is_told_as_such(name: str) -> None:
    with pytest.raises(ModelError, match="no such folder, and not a hub name"):
        resolve(name)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("config.json", None, "has no config.json"),
        ("config.json", "{", "config.json cannot be read"),
        ("config.json", "[]", "config.json holds no settings"),
        ("model.safetensors", None, "has no weights"),
        ("model.safetensors", "not tensors", "weights cannot be loaded"),
        ("tokenizer.json", "{", "processor cannot be loaded"),
        ("processor_config.json", None, "processor cannot be loaded"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(tmp_path: Path, file: str, content: str | None, problem: str) -> None:
    folder = tmp_path / "wreck"
    shutil.copytree(tiny_checkpoint("colqwen2"), folder)
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    with pytest.raises(ModelError, match=problem) as caught:
        load_colpali(str(folder), device="cpu")
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy.endswith("--model embedded")


@pytest.mark.parametrize("family", OLD_NAMES)
def test_weights_under_the_names_of_their_time_are_found(family: str, tmp_path: Path) -> None:
    shutil.copytree(tiny_checkpoint(family), tmp_path / "old")
    state = tiny_encoder(family)._model.state_dict()
    tensors = {old_name(family, name): tensor.clone() for name, tensor in state.items()}
    tensors["lm_head.weight"] = torch.zeros(300, 32)  # the generator's, of no use to a retriever
    save_file(tensors, tmp_path / "old" / "model.safetensors", metadata={"format": "pt"})
    encoder = load_colpali(str(tmp_path / "old"), device="cpu")
    assert np.array_equal(page_vectors(encoder), page_vectors(tiny_encoder(family)))


@pytest.mark.parametrize("family", ["colpali", "colqwen2", "colqwen3", "colmodernvbert"])
@pytest.mark.parametrize("inner", ["", "model."])
def test_the_transformers_native_ports_are_read_too(family: str, inner: str, tmp_path: Path) -> None:
    shutil.copytree(tiny_checkpoint(family), tmp_path / "port")
    row = tiny_encoder(family)._family

    def ported(name: str) -> str:
        if name.startswith("custom_text_proj"):
            return name.replace("custom_text_proj", "embedding_proj_layer")
        return f"vlm.{inner}{name.removeprefix(row.backbone_prefix)}"

    state = tiny_encoder(family)._model.state_dict()
    tensors = {ported(name): tensor.clone() for name, tensor in state.items()}
    save_file(tensors, tmp_path / "port" / "model.safetensors", metadata={"format": "pt"})
    backbone = json.loads((tmp_path / "port" / "config.json").read_text())
    config = {"architectures": [f"{row.model_class}ForRetrieval"], "vlm_config": backbone}
    (tmp_path / "port" / "config.json").write_text(json.dumps(config | {"model_type": row.name}))
    encoder = load_colpali(str(tmp_path / "port"), device="cpu")
    assert np.array_equal(page_vectors(encoder), page_vectors(tiny_encoder(family)))


def test_every_single_tensor_is_needed(tmp_path: Path) -> None:
    folder = tmp_path / "one-missing"
    shutil.copytree(tiny_checkpoint("colpali"), folder)
    whole = load_file(folder / "model.safetensors")
    for key in whole:
        rest = {name: tensor for name, tensor in whole.items() if name != key}
        save_file(rest, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelError, match="weights do not fit the model: missing"):
            load_colpali(str(folder), device="cpu")


# --- Adapters


@pytest.mark.parametrize("family", TARGETS)
def test_an_adapter_adds_its_update_to_its_base(family: str, tmp_path: Path) -> None:
    save_adapter(family, tmp_path)
    encoder = load_colpali(str(tmp_path), device="cpu")
    own, base = encoder._model.state_dict(), tiny_encoder(family)._model.state_dict()
    updated = [name for name in own if name.endswith(".base_layer.weight")]
    assert len(updated) == 2 * 7 + 1
    for name in updated:
        stem = name.removesuffix(".base_layer.weight")
        update = own[f"{stem}.lora_B.default.weight"] @ own[f"{stem}.lora_A.default.weight"]
        assert torch.allclose(own[name], base[f"{stem}.weight"] + 8 / 4 * update, atol=1e-6)
    assert np.abs(page_vectors(encoder) - page_vectors(tiny_encoder(family))).max() > 0.01
    assert encoder.info.family == family
    assert encoder.info.revision == f"{digest_of(tmp_path)}+{digest_of(tiny_checkpoint(family))}"


def test_an_adapter_in_half_precision_is_not_rounded_into_its_base(tmp_path: Path) -> None:
    save_adapter("colqwen2", tmp_path)
    exact, half = (load_colpali(str(tmp_path), device="cpu", dtype=dtype) for dtype in ("float32", "bfloat16"))
    assert (page_vectors(exact) * page_vectors(half)).sum(axis=1).mean() > 0.95
    base = tiny_encoder("colqwen2")._model.state_dict()["custom_text_proj.weight"]
    kept = half._model.state_dict()["custom_text_proj.base_layer.weight"]
    assert torch.equal(kept, base.to(torch.bfloat16))


@pytest.mark.parametrize("family", ["colpali", "colqwen2"])
def test_an_adapter_under_the_names_of_its_time_is_found(family: str, tmp_path: Path) -> None:
    save_adapter(family, tmp_path)
    expected = page_vectors(load_colpali(str(tmp_path), device="cpu"))
    prefix = "base_model.model."

    def age(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[prefix + old_name(family, name.removeprefix(prefix))] = tensors.pop(name)

    change_tensors(tmp_path / "adapter_model.safetensors", age)
    assert np.array_equal(page_vectors(load_colpali(str(tmp_path), device="cpu")), expected)


def test_an_adapter_may_bring_the_projection_that_its_base_lacks(tmp_path: Path) -> None:
    shutil.copytree(tiny_checkpoint("colqwen2"), tmp_path / "base")
    backbone = tmp_path / "base" / "model.safetensors"
    save_adapter("colqwen2", tmp_path / "adapter")
    stated = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    stated |= {"base_model_name_or_path": "../base", "modules_to_save": ["custom_text_proj"]}
    stated["target_modules"] = r".*layers.*(q_proj|v_proj)"
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(stated))
    projection = load_file(backbone)["custom_text_proj.weight"] + 1

    def make(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if "q_proj" not in name and "v_proj" not in name]:
            del tensors[name]
        tensors["base_model.model.custom_text_proj.weight"] = projection
        tensors["base_model.model.custom_text_proj.bias"] = torch.zeros(128)

    change_tensors(tmp_path / "adapter" / "adapter_model.safetensors", make)
    change_tensors(backbone, lambda tensors: [tensors.pop(f"custom_text_proj.{p}") for p in ("weight", "bias")])
    encoder = load_colpali(str(tmp_path / "adapter"), device="cpu")
    assert torch.equal(encoder._model.custom_text_proj.modules_to_save["default"].weight, projection)
    assert not np.isnan(page_vectors(encoder)).any()
    with pytest.raises(ModelError, match=r"missing: custom_text_proj\.bias, custom_text_proj.weight"):
        load_colpali(str(tmp_path / "base"), device="cpu")


Q_PROJ = "base_model.model.language_model.layers.1.self_attn.q_proj.lora_A.weight"


def drop(tensors: dict[str, torch.Tensor]) -> None:
    del tensors[Q_PROJ]


def add(tensors: dict[str, torch.Tensor]) -> None:
    tensors["base_model.model.no.such.lora_A.weight"] = tensors[Q_PROJ].clone()


def reshape(tensors: dict[str, torch.Tensor]) -> None:
    tensors[Q_PROJ] = tensors[Q_PROJ][:, :-1].clone()


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (drop, "missing: language_model.layers.1.self_attn.q_proj.lora_A.weight"),
        (add, "unexpected: no.such.lora_A.weight"),
        (reshape, "wrongly shaped: language_model.layers.1.self_attn.q_proj.lora_A.weight"),
    ],
)
def test_a_spoilt_adapter_is_refused_by_name(
    tmp_path: Path, spoil: Callable[[dict[str, torch.Tensor]], None], problem: str
) -> None:
    save_adapter("colqwen2", tmp_path)
    change_tensors(tmp_path / "adapter_model.safetensors", spoil)
    with pytest.raises(ModelError) as caught:
        load_colpali(str(tmp_path), device="cpu")
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"base_model_name_or_path": None}, "names no base model"),
        ({"base_model_name_or_path": "/no/such/folder"}, "its base model /no/such/folder: no such folder"),
        ({"target_modules": "nothing_like_it"}, "does not fit its base model"),
        ({"peft_type": "NOVEL"}, "adapter_config.json is not usable"),
        ({"setting_of_tomorrow": 1, "target_modules": "nothing_like_it"}, "does not fit its base model"),
        ({"peft_type": "IA3", "feedforward_modules": []}, "adapters of type .*IA3 are not supported"),
    ],
)
def test_an_unusable_adapter_is_refused(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    save_adapter("colqwen2", tmp_path)
    stated = json.loads((tmp_path / "adapter_config.json").read_text()) | change
    if change.get("peft_type") == "IA3":
        stated = {key: stated[key] for key in ("base_model_name_or_path", "peft_type", "target_modules")}
    (tmp_path / "adapter_config.json").write_text(json.dumps(stated))
    with pytest.raises(ModelError, match=problem):
        load_colpali(str(tmp_path), device="cpu")


def test_an_adapter_to_an_adapter_is_refused(tmp_path: Path) -> None:
    save_adapter("colqwen2", tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    stated = json.loads((tmp_path / "second" / "adapter_config.json").read_text())
    stated["base_model_name_or_path"] = "../first"
    (tmp_path / "second" / "adapter_config.json").write_text(json.dumps(stated))
    with pytest.raises(ModelError, match=r"its base model \.\./first is an adapter too"):
        resolve(str(tmp_path / "second"))


# --- The hub


def test_a_cached_hub_model_is_used_offline_and_known_by_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "models--someone--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    shutil.copytree(tiny_checkpoint("colqwen2"), repository / "snapshots" / COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    encoder = load_colpali("someone/tiny", device="cpu")
    assert (encoder.info.name, encoder.info.revision) == ("someone/tiny", COMMIT)
    assert load_colpali("someone/tiny", revision=COMMIT, device="cpu").info.revision == COMMIT
    with pytest.raises(ModelError, match=r"^someone/other: not downloaded yet, and the hub"):
        load_colpali("someone/other", device="cpu")


def hub_error(kind: type[errors.HfHubHTTPError], status: int) -> errors.HfHubHTTPError:
    request = httpx2.Request("GET", "https://huggingface.co/api/models/someone/tiny")
    return kind("from the hub", response=httpx2.Response(status, request=request))


@pytest.mark.parametrize(
    ("error", "problem", "remedy"),
    [
        (hub_error(errors.GatedRepoError, 403), "accepted its licence", "accept its licence at https://hugg"),
        (hub_error(errors.RevisionNotFoundError, 404), "has no revision v9", "check --revision"),
        (hub_error(errors.RepositoryNotFoundError, 404), "not on the hub, or private", "check the name"),
        (hub_error(errors.HfHubHTTPError, 503), "cannot be downloaded: from the hub", "try again"),
        (errors.LocalEntryNotFoundError("x"), "not downloaded yet", "go online once"),
        (OSError("No space left on device"), "cannot be downloaded: No space left", "try again"),
        (errors.HFValidationError("x"), "cannot be downloaded", "try again"),
    ],
)
def test_what_the_hub_refuses_is_told_with_its_cause_and_remedy(
    monkeypatch: pytest.MonkeyPatch, error: Exception, problem: str, remedy: str
) -> None:
    def refuse(name: str, **options: Any) -> str:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(ModelError) as caught:
        load_colpali("someone/tiny", revision="v9")
    assert caught.value.subject == "someone/tiny"
    assert problem in caught.value.problem
    assert caught.value.remedy.startswith(remedy)
    assert caught.value.remedy.endswith("or use --model embedded")
