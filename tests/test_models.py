"""The catalogue of named models: no name twice, no score without its source."""

from __future__ import annotations

import json

from click.testing import CliRunner

from colret.encoders.catalogue import CATALOGUE, SHORTCUTS
from colret_cli.main import cli


def test_every_short_name_is_listed_with_its_licence_and_hub_name() -> None:
    run = CliRunner().invoke(cli, ["models"])
    assert run.exit_code == 0, run.output
    for entry in CATALOGUE:
        (line,) = [line for line in run.output.splitlines() if line.split()[:1] == [entry.short_name]]
        assert entry.hub_name in line
        assert entry.licence in line


def test_json_gives_every_field() -> None:
    run = CliRunner().invoke(cli, ["models", "--json"])
    entries = {entry["short_name"]: entry for entry in json.loads(run.output)}
    assert entries["colqwen2"]["hub_name"] == SHORTCUTS["colqwen2"] == "vidore/colqwen2-v1.0"
    assert entries["colqwen2.5"]["licence"].startswith("Qwen Research")
    assert entries["embedded"]["ndcg5_vidore1"] is None


def test_a_score_names_its_source() -> None:
    names = [entry.short_name for entry in CATALOGUE]
    assert len(set(names)) == len(names)
    for entry in CATALOGUE:
        assert (entry.ndcg5_vidore1 is None) == (entry.source == "")
