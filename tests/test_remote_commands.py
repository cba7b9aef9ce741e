"""Commands on an index in an object store: each works, and one that is killed is resumed."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import colret.encoders
from colret.doctor.index import check_folder
from colret.encoders.text import TextEncoder
from colret.errors import BusyError, StoreError
from colret.location import Location
from colret.store import PageStore
from colret_cli.main import cli
from tests.conftest import TOPICS, write_pdf
from tests.folders import contents, numpy_encoder
from tests.object_store import Bucket
from tests.processes import ROOT, environment, kill

LEASE_SECONDS = 3.0
N_DOCUMENTS = 8


@pytest.fixture(autouse=True)
def _own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLRET_CACHE", str(tmp_path / "cache"))


def test_every_command_works_on_it(
    bucket: Bucket, folder: Path, tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)  # which is loaded already
    address = f"{bucket.address}/index"

    def run(*arguments: object, code: int = 0) -> str:
        done = CliRunner().invoke(cli, [*map(str, arguments), "--index", address, *bucket.arguments])
        assert done.exit_code == code, done.output
        assert bucket.options["aws_secret_access_key"] not in done.output
        return done.stdout

    assert "no index here" in CliRunner().invoke(cli, ["info", "--index", address, *bucket.arguments]).output
    done = json.loads(run("ingest", folder, "--model", "embedded", "--json"))
    assert (done["n_added"], done["index"]["n_pages"]) == (3, 3)
    assert json.loads(run("ingest", folder, "--dry-run", "--json"))["new"] == []
    [hit] = json.loads(run("query", "sourdough", "-k", 1, "--json"))["hits"]
    assert Path(hit["file"]).stem == "sourdough"
    assert len(run("list", "--json").splitlines()) == 3
    assert json.loads(run("info", "--json"))["index"] == address
    shown = json.loads(run("show", f"{folder / 'heron.pdf'}#1", "--query", "heron", "--json"))
    assert shown["regions"]
    run("duplicates", "--json")
    run("index", "build", "--type", "ivf_flat")
    assert "IvfFlat" in run("index", "list")
    run("index", "drop")
    assert "3 pages" in run("export", tmp_path / "export")
    (tmp_path / "questions.txt").write_text("\n".join(TOPICS.values()))
    measured = json.loads(
        run("bench", "--queries", tmp_path / "questions.txt", "--prefilter", "binary", "--candidates", 2, "--json")
    )
    assert measured
    run("remove", folder / "heron.pdf")
    assert json.loads(run("info", "--json"))["n_pages"] == 2
    assert check_folder(Location.of(address, bucket.options)).status == "ok"
    assert bucket.options["aws_secret_access_key"].encode() not in b"".join(map(bucket.get, bucket.keys()))


def commands(bucket: Bucket, folder: Path, *more: str) -> list[str]:
    """Return a command line of the real ingest, slow enough to be killed, with leases that are shorter than usual."""
    program = (
        f"import colret.lease; colret.lease.LEASE_SECONDS = {LEASE_SECONDS}\n"
        "from tests.processes import small_commits; small_commits()\n"
        "import time; from tests.folders import NumpyEncoder, numpy_encoder\n"
        "encode = NumpyEncoder.encode_pages\n"
        "NumpyEncoder.encode_pages = lambda self, pages: (time.sleep(0.2), encode(self, pages))[1]\n"
        "import colret.encoders; colret.encoders.load_encoder = lambda name, **options: numpy_encoder()\n"
        "from colret_cli.main import cli; cli()"
    )
    arguments = ["ingest", str(folder), "--index", f"{bucket.address}/index", "--model", "embedded", *bucket.arguments]
    return [sys.executable, "-c", program, *arguments, "--commit-pages", "2", *more]


def test_a_killed_ingest_is_resumed_once_its_lease_has_run_out(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: numpy_encoder())
    folder, place = tmp_path / "documents", Location.of(f"{bucket.address}/index", bucket.options)
    folder.mkdir()
    for i in range(N_DOCUMENTS):
        write_pdf(folder / f"{i}.pdf", *[f"{topic} {i}" for topic in list(TOPICS.values())[:3]])
    process = subprocess.Popen(
        commands(bucket, folder), env=environment(), cwd=ROOT, stderr=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + 60
    n_before = 0
    while not n_before and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
        with contextlib.suppress(StoreError):
            n_before = len(PageStore.open(place).documents())
    kill(process)
    assert 0 < n_before < N_DOCUMENTS
    before = contents(PageStore.open(place))
    with pytest.raises(BusyError), PageStore.open(place).writing():
        pass  # it might be alive
    again = [str(folder), "--index", str(place), "--model", "embedded", *bucket.arguments, "--wait", "30", "--json"]
    done = CliRunner().invoke(cli, ["ingest", *again])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["n_added"] == N_DOCUMENTS - len(before)
    store = PageStore.open(place)
    found = contents(store)
    assert before.items() <= found.items()
    assert [len(document.pages) for document in found.values()] == [3] * N_DOCUMENTS
    assert store._pages.count_rows() == 3 * N_DOCUMENTS  # nothing of the killed one is left
