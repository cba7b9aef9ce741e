"""Where an index can be: what is no such place is told in one line, and no option leaks."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from click.testing import CliRunner
from lancedb.remote.table import RemoteTable

import colret
from colret.database import folder_at
from colret.errors import StoreError
from colret.location import Location
from colret_cli.main import cli

SECRET = "s3cr3t-k3y"


@pytest.mark.parametrize("address", ["s3://bucket/a/b", "gs://bucket", "az://container/x", "abfss://c@account/x"])
def test_an_address_is_kept_as_it_is(address: str) -> None:
    location = Location.of(address + "/")
    assert (str(location), location.folder) == (address, None)
    assert str(location.below("x")) == f"{address}/x"


@pytest.mark.parametrize("name", ["index", "./a b", "/x/y", "C:\\index", "s3:x", "s3"])
def test_all_else_is_a_folder(name: str) -> None:
    assert Location.of(name).folder == Path(name)
    assert Location.of(Path(name)).below("x").folder == Path(name) / "x"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("db://my-database", "to_arrow"),
        ("http://host/x", "no index can be at http://"),
        ("ftp://host/x", "no index can be at ftp://"),
        ("hdfs://host/x", "no index can be at hdfs://"),
        ("file:///x", "no index can be at file://"),
        ("s3a://bucket/x", "no index can be at s3a://"),
        ("s3:///x", "is not SCHEME://BUCKET/PREFIX"),
        (f"s3://user:{SECRET}@bucket/x", "is not SCHEME://BUCKET/PREFIX"),
        (f"az://bucket/x?sig={SECRET}", "is not SCHEME://BUCKET/PREFIX"),
        ("s3://bucket/a#b", "is not SCHEME://BUCKET/PREFIX"),
        ("s3://bucket/a%20b", "is not SCHEME://BUCKET/PREFIX"),
        ("s3://bucket/x//y", "an empty part"),
        ("s3://bucket/../y", "or one of dots"),
        ("s3:/bucket/x", "s3:/bucket/x: an address has two slashes; write s3://bucket/x"),
        ("GS:/bucket", "an address has two slashes; write GS://bucket"),
        (f"s3:/user:{SECRET}@bucket/x", "an address has two slashes; write s3://bucket/x"),
    ],
)
def test_what_no_index_can_be_at_is_refused_in_one_line(address: str, said: str) -> None:
    with pytest.raises(StoreError, match="; ") as raised:
        Location.of(address)
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)
    done = CliRunner().invoke(cli, ["info", "--index", address])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert SECRET not in done.output
    with pytest.raises(StoreError):
        colret.open(address)


def test_lancedb_cloud_still_refuses_what_an_index_needs() -> None:
    """When this fails, LanceDB has added it: an index at db:// may be possible then."""
    table = object.__new__(RemoteTable)  # no server is there to give one
    with pytest.raises(NotImplementedError):
        table.to_arrow()
    with pytest.raises(NotImplementedError):
        table.fetch_blob_ranges("codes", [0])
    with pytest.warns(UserWarning, match="no-op"):
        table.optimize()


def test_options_are_in_nothing_that_is_printed() -> None:
    location = Location.of("s3://bucket/x", {"aws_secret_access_key": SECRET})
    assert SECRET not in repr(location) + str(location) + repr(location.below("y"))
    assert pickle.loads(pickle.dumps(location)).options == {"aws_secret_access_key": SECRET}
    with pytest.raises(StoreError, match="no storage option aws_nonsense") as raised:
        folder_at(Location.of(location, {"aws_nonsense": SECRET}))
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("client_max_retries", "the value of client_max_retries is not a whole number"),
        ("client_retry_timeout", "the value of client_retry_timeout is not a whole number"),
        ("timeout", "a storage option has a value that cannot be used"),
        ("allow_http", "a storage option has a value that cannot be used"),
        ("aws_endpoint", "the value of aws_endpoint is no URL"),  # on which obstore panics when it is asked
        ("AWS_ENDPOINT_URL", "the value of aws_endpoint_url is no URL"),
    ],
)
def test_a_value_in_the_wrong_place_is_refused_and_not_quoted(name: str, said: str) -> None:
    with pytest.raises(StoreError) as raised:
        folder_at(Location.of("s3://bucket/x", {name: SECRET}))
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)


def test_an_endpoint_without_a_scheme_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    with pytest.raises(StoreError, match="the value of aws_endpoint_url is no URL; begin it with"):
        folder_at(Location.of("s3://bucket/x"))
    assert folder_at(Location.of("gs://bucket/x"))  # which it is not for


def test_the_command_line_quotes_no_storage_option() -> None:
    for wrong in (SECRET, f"={SECRET}"):
        done = CliRunner().invoke(cli, ["info", "--index", "s3://bucket/x", "--storage-option", wrong])
        assert done.exit_code == 2
        assert "KEY=VALUE" in done.output
        assert SECRET not in done.output


def test_storage_options_come_from_a_file_too_and_are_shown_without_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "colret.toml").write_text(
        f'index = "s3://bucket/x"\nstorage-option = ["aws_secret_access_key={SECRET}", "aws_nonsense=1"]\n'
    )
    done = CliRunner().invoke(cli, ["info"])
    assert done.exit_code == 1
    assert "no storage option aws_nonsense" in done.output
    monkeypatch.setenv("COLRET_STORAGE_OPTION", f"aws_secret_access_key={SECRET}")
    for arguments in (["config"], ["config", "--json"]):
        shown = CliRunner().invoke(cli, arguments)
        assert shown.exit_code == 0
        assert "aws_secret_access_key" in shown.output
        assert SECRET not in shown.output
    assert json.loads(shown.output)["settings"]


def test_a_storage_option_that_a_file_gives_wrongly_is_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "colret.toml").write_text(f'storage-option = ["{SECRET}"]\n')
    done = CliRunner().invoke(cli, ["info"])
    assert done.exit_code == 1
    assert "KEY=VALUE" in done.output
    assert SECRET not in done.output
