"""The doctor on a healthy set-up and on broken ones: the right line each time, and never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import colret.doctor.index
import colret.doctor.model
from colret.doctor import Check, examine
from colret.encoders import load_encoder
from colret.encoders.text import TextEncoder
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import Page, PageEmbedding
from colret_cli.main import cli
from tests.checkpoints import tiny_checkpoint
from tests.test_checkpoints import change_tensors
from tests.text_checkpoints import tiny_text_checkpoint

ROOT = Path(__file__).parent.parent
NOBODY = 65534


def report(model: str | None, index: Path, **options: Any) -> dict[str, Check]:
    return {check.name: check for check in examine(model, index, device="cpu", **options)}


def index_of(model: str, path: Path) -> Path:
    PageStore.create(path, settings_for(load_encoder(model, device="cpu").info))
    return path


def text_model() -> str:
    return str(tiny_text_checkpoint("bert"))


def run_doctor(*arguments: str, **environment: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Run the command in a process of its own; return its exit code and checks by name."""
    paths = os.pathsep.join([environment.pop("BEFORE", ""), *(str(ROOT / part) for part in ("", "cli", "eval"))])
    run = subprocess.run(
        [sys.executable, "-m", "colret_cli", "doctor", *arguments, "--device", "cpu", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"} | environment,
    )
    assert "Traceback" not in run.stderr, run.stderr
    return run.returncode, {check["name"]: check for check in json.loads(run.stdout)}


# --- Healthy


@pytest.mark.parametrize("kind", ["text", "vision"])
def test_a_healthy_set_up_has_no_error(kind: str, tmp_path: Path) -> None:
    model = text_model() if kind == "text" else str(tiny_checkpoint("colqwen2"))
    checks = report(None, index_of(model, tmp_path / "index"))
    assert {name for name, check in checks.items() if check.status == "error"} == set()
    for name in ("versions", "torch", "device", "MaxSim", "model", "batches", "index", "folder"):
        assert checks[name].status == "ok", checks[name]
        assert checks[name].remedy == ""
    assert "made by this very model" in checks["index"].found
    assert model in checks["model"].found


def test_without_an_index_there_is_none_yet(tmp_path: Path) -> None:
    checks = report(text_model(), tmp_path / "none")
    assert checks["index"] == Check("index", "ok", f"none at {tmp_path / 'none'} yet")
    assert checks["folder"].found.startswith(f"{tmp_path}: writable")


def test_the_command_prints_a_line_for_each_check_and_ends_in_0(tmp_path: Path) -> None:
    run = CliRunner().invoke(cli, ["doctor", text_model(), "--index", str(tmp_path / "none")])
    assert run.exit_code == 0, run.output
    states = [line.split()[:2] for line in run.output.splitlines() if not line.startswith(" ")]
    assert ["ok", "model"] in states
    assert ["ok", "batches"] in states
    assert {state for state, _ in states} <= {"ok", "warning"}


def test_an_index_keeps_its_choice_of_page_tokens(tmp_path: Path) -> None:
    encoder = load_encoder(str(tiny_checkpoint("colpali")), device="cpu", image_tokens_only=True)
    PageStore.create(tmp_path / "index", settings_for(encoder.info))
    assert report(None, tmp_path / "index")["index"].status == "ok"


# --- Broken


def test_without_poppler_pages_are_rendered_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check = report(text_model(), tmp_path / "none")["poppler"]
    assert check.status == "warning"
    assert "pypdfium2 renders all pages" in check.found
    assert check.remedy.startswith("apt install poppler-utils")


def test_a_poppler_that_does_not_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pdfinfo", "pdftoppm"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    check = report(text_model(), tmp_path / "none")["poppler"]
    assert (check.status, "does not run" in check.found) == ("warning", True)


@pytest.mark.parametrize(
    "failure",
    [
        "RuntimeError('different CUDA major versions')",
        "OSError('libtorch_cuda.so: cannot open shared object file')",
        "ImportError('No module named torchvision')",
    ],
)
def test_a_torchvision_that_cannot_load_is_told_and_so_is_the_model(failure: str, tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(f"raise {failure}")
    code, checks = run_doctor(text_model(), "--index", str(tmp_path / "none"), BEFORE=str(tmp_path))
    assert code == 1
    assert checks["torchvision"]["status"] == checks["model"]["status"] == "error"
    assert failure.split("'")[1] in checks["torchvision"]["found"]
    assert "https://pytorch.org/get-started" in checks["torchvision"]["remedy"]
    assert checks["MaxSim"]["status"] in ("ok", "warning")  # a warning where nothing is compiled
    assert "batches" not in checks


def test_a_torch_that_cannot_load_ends_the_checks_that_need_it(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libc10.so: cannot open shared object file')")
    code, checks = run_doctor("--index", str(tmp_path / "none"), BEFORE=str(tmp_path))
    assert code == 1
    assert checks["torch"]["status"] == "error"
    assert "libc10.so" in checks["torch"]["found"]
    assert set(checks) == {"versions", "poppler", "folder", "torch", "index"}


def test_a_broken_checkpoint_is_told_with_the_key(tmp_path: Path) -> None:
    shutil.copytree(tiny_checkpoint("colqwen2"), tmp_path / "broken")
    change_tensors(tmp_path / "broken" / "model.safetensors", lambda tensors: tensors.pop("custom_text_proj.bias"))
    run = CliRunner().invoke(cli, ["doctor", str(tmp_path / "broken"), "--index", str(tmp_path / "none"), "--json"])
    assert run.exit_code == 1
    (check,) = [check for check in json.loads(run.output) if check["name"] == "model"]
    assert check["status"] == "error"
    assert "missing: custom_text_proj.bias" in check["found"]
    assert check["remedy"].endswith("--model embedded")


def test_an_index_of_another_model_is_told(tmp_path: Path) -> None:
    index = index_of(text_model(), tmp_path / "index")
    check = report(str(tiny_text_checkpoint("pylate")), index)["index"]
    assert check.status == "error"
    assert f"was made by {text_model()}" in check.found
    assert check.remedy == "leave --model out, or ingest into a new --index"


def test_a_damaged_text_index_is_told_with_the_remedy(example_index: Path, tmp_path: Path) -> None:
    index = shutil.copytree(example_index, tmp_path / "index")
    assert report(text_model(), index)["text index"] == Check("text index", "ok", "finds a word")
    for file in (index / "pages.lance" / "_indices").glob("*/metadata.lance"):
        file.unlink()
    check = report(text_model(), index)["text index"]
    assert (check.status, check.found) == ("error", f"{index}: its full-text index is damaged")
    assert check.remedy == f"make it anew from its pages with: colret ingest FOLDER --index {index}"


def test_an_index_of_another_format_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(text_model(), tmp_path / "index")
    monkeypatch.setattr("colret.schema.FORMAT_VERSION", 99)
    check = report(text_model(), index)["index"]
    assert (check.status, "this colret reads format 99" in check.found) == ("error", True)


@pytest.fixture
def readable_index() -> Iterator[Path]:
    """An index that everyone may read and only its owner may write, where everyone can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="colret-doctor-"))
    folder.chmod(0o755)
    shutil.copytree(tiny_text_checkpoint("bert"), folder / "model")
    index = index_of(str(folder / "model"), folder / "index")
    for path in [*folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield index
    for path in [*folder.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user without rights meanwhile: those of root do not end at a file's mode."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_index_is_told(readable_index: Path) -> None:
    report(None, readable_index)  # imports what it needs, which nobody may not be allowed to read
    with without_rights():
        run = CliRunner().invoke(cli, ["doctor", "--index", str(readable_index), "--device", "cpu", "--json"])
    assert run.exit_code == 1, run.output
    checks = {check["name"]: check for check in json.loads(run.output)}
    assert checks["folder"]["status"] == "error"
    assert checks["folder"]["found"] == f"{readable_index}: cannot be written: Permission denied"
    assert "make it writable" in checks["folder"]["remedy"]
    assert checks["index"]["status"] == "ok", checks["index"]  # it can still be read


def test_an_index_below_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = report(text_model(), tmp_path / "file" / "index")["folder"]
    assert (check.status, check.found) == ("error", f"{tmp_path / 'file'}: cannot be written: Not a directory")


@pytest.mark.parametrize(("free", "status"), [(5e9, "ok"), (5e8, "warning"), (1e6, "error")])
def test_a_full_disk_is_told_before_it_is_met(
    free: float, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=int(free))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert colret.doctor.index.check_folder(tmp_path).status == status


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colret.doctor.machine._PACKAGES", ("torch", "no-such-package"))
    check = report(text_model(), tmp_path / "none")["versions"]
    assert check == Check("versions", "error", "not installed: no-such-package", "pip install no-such-package")


@pytest.mark.parametrize(
    ("options", "name"), [({"dtype": "int8"}, "device"), ({"dtype": "int8"}, "model"), ({"revision": "v2"}, "model")]
)
def test_nonsense_is_a_line_too(options: dict[str, str], name: str, tmp_path: Path) -> None:
    assert report(text_model(), tmp_path / "none", **options)[name].status == "error"


def test_vectors_that_depend_on_the_company_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = TextEncoder.encode_pages

    def mixed(encoder: TextEncoder, pages: Sequence[Page]) -> list[PageEmbedding]:
        found = real(encoder, pages)
        return [replace(page, vectors=np.roll(page.vectors, len(pages), axis=1)) for page in found]

    monkeypatch.setattr(TextEncoder, "encode_pages", mixed)
    check = report(text_model(), tmp_path / "none")["batches"]
    assert (check.status, check.remedy) == ("error", "use --batch-size 1 and report the model")


def test_scoring_without_compiled_kernels_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLRET_NO_KERNELS", "1")
    check = colret.doctor.model.check_maxsim()
    assert check.status == "warning"
    assert check.found.startswith("int8 by torch; ")
