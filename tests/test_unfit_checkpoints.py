"""Checkpoints that are unfit in ways that no library has an error for: refused in one line, never run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from colret.encoders import load_encoder
from colret.encoders.embedded import embedded_folder
from colret.encoders.families import FAMILY_NAMES
from colret.errors import ModelError
from colret_cli.main import cli
from tests.checkpoints import tiny_checkpoint
from tests.conftest import TOPICS, write_pdf
from tests.text_checkpoints import tiny_text_checkpoint


def change_json(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    settings = json.loads(path.read_text())
    change(settings)
    path.write_text(json.dumps(settings))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_text_checkpoint("bert"), tmp_path / "bert"))


@pytest.mark.parametrize("family", ["bert", *FAMILY_NAMES])
def test_a_checkpoint_without_its_tokenizer_is_refused(family: str, tmp_path: Path) -> None:
    """Transformers makes an empty one, to which every word is unknown: all pages would be alike."""
    made = tiny_text_checkpoint(family) if family == "bert" else tiny_checkpoint(family)
    folder = Path(shutil.copytree(made, tmp_path / "checkpoint"))
    for path in [*folder.glob("tokenizer*"), *folder.glob("vocab*"), *folder.glob("special_tokens*")]:
        path.unlink()
    refused = r"its (tokenizer is missing, or knows no words|tokenizer cannot be loaded|processor cannot be loaded)"
    with pytest.raises(ModelError, match=refused):
        load_encoder(str(folder))


@pytest.mark.parametrize("path", ["../elsewhere", "/elsewhere"])
def test_a_module_outside_the_checkpoint_is_refused(plain: Path, path: str) -> None:
    (plain / "modules.json").write_text(json.dumps([{"type": "a.Transformer", "path": path}]))
    with pytest.raises(ModelError, match=r"modules\.json leads out of it, to"):
        load_encoder(str(plain))


@pytest.mark.parametrize(
    "change",
    [
        lambda settings: settings.update(hidden_size="abc"),
        lambda settings: settings.update(hidden_act="foo"),
        lambda settings: settings.update(architectures=5),
        lambda settings: settings.update(num_attention_heads=0),
    ],
)
@pytest.mark.parametrize("kind", ["text", "vision"])
def test_settings_that_make_no_model_are_one_line(
    kind: str, change: Callable[[dict[str, Any]], Any], plain: Path, tmp_path: Path
) -> None:
    folder = plain if kind == "text" else Path(shutil.copytree(tiny_checkpoint("colidefics3"), tmp_path / "vision"))
    change_json(folder / "config.json", lambda settings: change(settings.get("text_config", settings)))
    change_json(folder / "config.json", lambda settings: change(settings) if "architectures" in settings else None)
    run = CliRunner().invoke(cli, ["doctor", str(folder), "--index", str(tmp_path / "none"), "--json"])
    assert run.exit_code == 1, run.output
    (check,) = [check for check in json.loads(run.stdout) if check["name"] == "model"]
    assert check["status"] == "error"


def test_a_model_that_fails_on_pages_is_told_and_stops_nothing(plain: Path, tmp_path: Path) -> None:
    """A tokenizer with more words than the model has: some pages can be encoded, others cannot."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(embedded_folder() / name, plain / name)
    write_pdf(tmp_path / "a.pdf", TOPICS["heron"])
    arguments = ["ingest", str(tmp_path / "a.pdf"), "--index", str(tmp_path / "index"), "--model", str(plain)]
    run = CliRunner().invoke(cli, arguments)
    assert run.exit_code in (1, 3), run.output
    assert "the model failed: IndexError" in run.output
    assert "Traceback" not in run.output


def test_a_model_folder_is_found_again_from_anywhere(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pdf(tmp_path / "a.pdf", TOPICS["heron"])
    monkeypatch.chdir(tmp_path)
    index = str(tmp_path / "index")
    assert CliRunner().invoke(cli, ["ingest", "a.pdf", "--index", index, "--model", "bert"]).exit_code == 0
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    run = CliRunner().invoke(cli, ["query", "heron", "--index", index])
    assert run.exit_code == 0, run.output


@pytest.mark.parametrize("device", ["xpu", "meta"])
def test_a_device_that_colret_does_not_know_is_a_mistake_in_usage(device: str, tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", TOPICS["heron"])
    arguments = ["ingest", str(tmp_path / "a.pdf"), "--index", str(tmp_path / "index"), "--device", device]
    run = CliRunner().invoke(cli, arguments)
    assert run.exit_code == 2
    assert f"unknown device '{device}'" in run.output
