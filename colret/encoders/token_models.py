"""Load and run a text encoder that gives a vector for each word piece."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colret.encoders.devices import is_out_of_memory
from colret.encoders.sources import OTHERWISE, read_json
from colret.encoders.text_checkpoints import TextCheckpoint
from colret.encoders.torchvision_guard import import_torchvision
from colret.encoders.weights import REMEDY, check_keys, load_pretrained, place
from colret.errors import ModelError
from colret.types import Float32, Int64

if TYPE_CHECKING:
    import torch

STANFORD_PROJECTION = "linear.weight"
_IDENTITY = "torch.nn.modules.linear.Identity"

# What pre-training leaves behind and no token's vector passes through: the pooler of the first
# token, and the heads that guess masked, replaced or following text.
_UNUSED = re.compile(
    r"^(bert\.|roberta\.|albert\.|electra\.|mpnet\.|deberta\.|distilbert\.|model\.)?"
    r"(pooler\.|embeddings\.position_ids$|cls\.|lm_head\.|predictions\.|sop_classifier\."
    r"|vocab_transform\.|vocab_layer_norm\.|vocab_projector\.|lm_predictions\.|mask_predictions\."
    r"|generator_predictions\.|generator_lm_head\.|discriminator_predictions\.|head\.|decoder\.)"
)


@dataclass(frozen=True, slots=True)
class TokenModel:
    """An encoder of transformers and the projection that its output passes through."""

    name: str  # for messages
    backbone: Any
    projection: torch.nn.Module  # an empty sequence where there is none

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        device: torch.device = self.backbone.device
        return device

    @property
    def dim(self) -> int:
        """D, the dimension of a vector."""
        layers: list[Any] = list(self.projection.children())
        return int(layers[-1].out_features if layers else self.backbone.config.hidden_size)

    def in_dtype(self, dtype: torch.dtype) -> TokenModel:
        """Return the same model in another precision, or itself where it has that one."""
        if self.backbone.dtype == dtype:
            return self
        backbone, projection = copy.deepcopy((self.backbone, self.projection))
        return TokenModel(self.name, backbone.to(dtype), projection.to(dtype))

    def __call__(self, ids: Int64, mask: Int64, subject: str) -> Float32:
        """Return the last layer, projected.

        Args:
            ids: (n, L) int64 piece ids.
            mask: (n, L) int64, 0 for what the other pieces must not see.
            subject: What they are part of, for messages.

        Returns:
            (n, L, D) float32.

        Raises:
            ModelError: If memory runs out.
        """
        import torch

        tokens, seen = (torch.from_numpy(values).to(self.device) for values in (ids, mask))
        try:
            with torch.inference_mode():
                hidden = self.backbone(input_ids=tokens, attention_mask=seen).last_hidden_state
                vectors: Float32 = self.projection(hidden).float().cpu().numpy()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise ModelError(subject, "memory ran out", f"use --device cpu, {OTHERWISE}") from error
        return vectors


def load_token_model(checkpoint: TextCheckpoint, device: torch.device) -> TokenModel:
    """Return the model in float32, with each of its weights read from the checkpoint.

    Raises:
        ModelError: If a tensor is missing, unexpected or wrongly shaped, or a file is unreadable.
    """
    backbone = _load_backbone(checkpoint)
    projection = _load_projection(checkpoint, int(backbone.config.hidden_size))
    return TokenModel(
        checkpoint.name, place(checkpoint.name, backbone, device), place(checkpoint.name, projection, device)
    )


def _load_backbone(checkpoint: TextCheckpoint) -> Any:
    import_torchvision()  # transformers' models import it
    import torch
    import transformers

    model_class = getattr(transformers, checkpoint.kind.model_class)
    options: dict[str, Any] = {"dtype": torch.float32}
    if checkpoint.kind.has_pooler:
        options["add_pooling_layer"] = False
    if model_class._supports_sdpa:
        options["attn_implementation"] = "sdpa"  # the same everywhere, whatever else is installed
    model, report = load_pretrained(checkpoint.name, checkpoint.backbone, model_class, options)
    own = {STANFORD_PROJECTION} if checkpoint.is_stanford else set()
    check_keys(
        checkpoint.name,
        missing=report["missing_keys"],
        unexpected=(key for key in report["unexpected_keys"] if key not in own and not _UNUSED.search(key)),
        misshapen=(entry[0] for entry in report["mismatched_keys"]),
    )
    return model.eval()


def _load_projection(checkpoint: TextCheckpoint, width: int) -> torch.nn.Module:
    import torch

    layers = []
    if checkpoint.is_stanford:
        tensors = _read_tensors(checkpoint, checkpoint.backbone, only=STANFORD_PROJECTION)
        layers.append(_linear(checkpoint, "", tensors, width, bias=False))
    for folder in checkpoint.projections:
        width = layers[-1].out_features if layers else width
        layers.append(_dense(checkpoint, folder, width))
    return torch.nn.Sequential(*layers).eval()


def _dense(checkpoint: TextCheckpoint, folder: Path, width: int) -> torch.nn.Linear:
    """Return the linear layer of a dense module, which must be no more than that."""
    config = read_json(checkpoint.name, folder / "config.json")
    activation = config.get("activation_function", _IDENTITY)
    if activation != _IDENTITY or config.get("use_residual"):
        problem = f"{folder.name} is more than a linear layer ({activation.rpartition('.')[2]}, or a residual)"
        raise ModelError(checkpoint.name, problem, f"choose another checkpoint, {OTHERWISE}")
    tensors = _read_tensors(checkpoint, folder)
    return _linear(checkpoint, f"{folder.name}/", tensors, width, bias=bool(config.get("bias", True)))


def _linear(
    checkpoint: TextCheckpoint, at: str, tensors: dict[str, torch.Tensor], width: int, *, bias: bool
) -> torch.nn.Linear:
    """Return a linear layer of ``tensors``, refusing what does not fit vectors of ``width``."""
    import torch

    weight = tensors.get("linear.weight")
    n_out = weight.shape[0] if weight is not None and weight.ndim == 2 else 0
    wanted = {"linear.weight": (n_out, width)} | ({"linear.bias": (n_out,)} if bias else {})
    common = wanted.keys() & tensors.keys()
    check_keys(
        checkpoint.name,
        missing=(at + key for key in wanted.keys() - tensors.keys()),
        unexpected=(at + key for key in tensors.keys() - wanted.keys()),
        misshapen=(at + key for key in common if tuple(tensors[key].shape) != wanted[key]),
    )
    layer = torch.nn.Linear(width, n_out, bias=bias)
    layer.load_state_dict({key.removeprefix("linear."): tensor for key, tensor in tensors.items()})
    return layer


def _read_tensors(checkpoint: TextCheckpoint, folder: Path, only: str | None = None) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, torch.Tensor] = {}
    try:
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                tensors |= {key: file.get_tensor(key).float() for key in file.keys() if only in (None, key)}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(checkpoint.name, f"its weights cannot be loaded: {error}", REMEDY) from error
    return tensors
