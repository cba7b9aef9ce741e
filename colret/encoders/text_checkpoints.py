"""The parts of a text checkpoint: a BERT-type encoder, and for ColBERT a projection of its tokens.

Three layouts are read. The first is a plain folder of transformers. The second is that of
sentence-transformers and PyLate: ``modules.json`` lists a transformer and what follows it;
dense layers before any pooling apply to each token and make a late-interaction model, those
after it concern the pooled vector and are left out. The third is ColBERT's own
(``HF_ColBERT``): the projection lies among the encoder's weights as ``linear.weight``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from colret.encoders.checkpoints import is_adapter
from colret.encoders.sources import OTHERWISE, Source, read_json
from colret.errors import ModelError

STANFORD = "HF_ColBERT"
"""The architecture that ColBERT's own checkpoints state."""


@dataclass(frozen=True, slots=True)
class TextType:
    """What a loader needs to know of one type of text encoder."""

    model_class: str  # of transformers
    has_pooler: bool = False  # unless told not to make one
    skips_positions: bool = False  # numbers positions from behind its padding token's id


_TYPES = {
    "albert": TextType("AlbertModel", has_pooler=True),
    "bert": TextType("BertModel", has_pooler=True),
    "camembert": TextType("CamembertModel", has_pooler=True, skips_positions=True),
    "deberta-v2": TextType("DebertaV2Model"),
    "distilbert": TextType("DistilBertModel"),
    "electra": TextType("ElectraModel"),
    "modernbert": TextType("ModernBertModel"),
    "mpnet": TextType("MPNetModel", has_pooler=True, skips_positions=True),
    "nomic_bert": TextType("NomicBertModel", has_pooler=True),
    "roberta": TextType("RobertaModel", has_pooler=True, skips_positions=True),
    "xlm-roberta": TextType("XLMRobertaModel", has_pooler=True, skips_positions=True),
}

TEXT_TYPES = tuple(_TYPES)
"""``model_type`` of the encoders that can take the embedded one's place."""


@dataclass(frozen=True, slots=True)
class TextCheckpoint:
    """Where the parts of a text model lie."""

    source: Source
    backbone: Path  # folder of the encoder and its tokenizer
    kind: TextType
    projections: tuple[Path, ...]  # folders of the dense layers that each token passes through
    is_stanford: bool  # the projection is in the backbone's file
    mask: Path | None = None  # folder of what says which tokens of a late-interaction model count

    @property
    def name(self) -> str:
        """The checkpoint as the user named it."""
        return self.source.name

    @property
    def is_colbert(self) -> bool:
        """Whether it was trained for late interaction."""
        return self.is_stanford or bool(self.projections)


def is_text_checkpoint(source: Source) -> bool:
    """Tell whether the files are those of a text encoder in the table."""
    backbone = _backbone(source)
    if is_adapter(source) or not (backbone / "config.json").is_file():
        return False
    return _model_type(source, backbone) in _TYPES


def resolve_text_checkpoint(source: Source) -> TextCheckpoint:
    """Find the parts of the text checkpoint in ``source``.

    Raises:
        ModelError: If it holds something that colret does not know how to apply.
    """
    backbone = _backbone(source)
    architectures = read_json(source.name, backbone / "config.json").get("architectures") or ()
    modules = _token_modules(source)
    return TextCheckpoint(
        source=source,
        backbone=backbone,
        kind=_TYPES[_model_type(source, backbone)],
        projections=tuple(source.folder / path for kind, path in modules if kind == "Dense"),
        is_stanford=STANFORD in architectures,
        mask=next((source.folder / path for kind, path in modules if kind == "MultiVectorMask"), None),
    )


def _model_type(source: Source, backbone: Path) -> str:
    return str(read_json(source.name, backbone / "config.json").get("model_type"))


def _backbone(source: Source) -> Path:
    modules = _modules(source)
    return source.folder / modules[0][1] if modules else source.folder


def _token_modules(source: Source) -> list[tuple[str, str]]:
    """Return the modules that each token passes through behind the transformer."""
    found = []
    for kind, path in _modules(source)[1:]:
        if kind == "Pooling":
            break
        if kind not in ("Dense", "Normalize", "MultiVectorMask"):
            problem = f"its modules.json lists a {kind}, which colret does not know"
            raise ModelError(source.name, problem, f"choose another checkpoint, {OTHERWISE}")
        found.append((kind, path))
    return found


def _modules(source: Source) -> list[tuple[str, str]]:
    """Return the last part of each module's class and its folder, as modules.json lists them."""
    path = source.folder / "modules.json"
    if not path.is_file():
        return []
    try:
        entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        modules = [(str(entry["type"]).rpartition(".")[2], str(entry["path"])) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            source.name, f"modules.json cannot be read: {error!r}", f"download it again, {OTHERWISE}"
        ) from error
    for _, module in modules:
        if PurePosixPath(module).is_absolute() or ".." in PurePosixPath(module).parts:
            # What lies elsewhere is no part of the checkpoint, and not of the digest an index checks.
            raise ModelError(
                source.name, f"modules.json leads out of it, to {module}", f"choose another checkpoint, {OTHERWISE}"
            )
    return modules
