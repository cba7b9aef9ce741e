"""Ingest on a Ray cluster of two nodes with two encoding workers: the same index as on one machine, whoever dies."""

from __future__ import annotations

import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
import pytest
from click.testing import CliRunner

import colret
import colret.fleet.pool
import colret.ingest
from colret.encoders.text import TextEncoder
from colret.errors import ColretError, ModelError
from colret.fleet import Fleet
from colret.fleet.cluster import Node, encoder_sizes, import_ray, reading_places
from colret.fleet.engine import FleetEncoder
from colret.fleet.pool import Pool
from colret.ingest import ingest
from colret.planning import make_plan
from colret.readers import DEFAULT_LIMITS
from colret.report import IngestReport, Progress
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import DocumentRecord
from colret_cli.main import cli
from tests.conftest import TOPICS, write_pdf
from tests.folders import Document, contents, pdf, sentence
from tests.hostile import HELLO, NESTED, hostile_pdf
from tests.processes import ROOT, environment
from tests.processes import cli as command

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

HARD = ROOT / "tests" / "data" / "hard-pdfs"
N_DOCUMENTS, N_PAGES = 4, 24  # of the folder in which workers die
HALF = N_DOCUMENTS * N_PAGES // 2
PROGRESS = r"[\d,]+ pages?  .* left\n"
LIMITS = DEFAULT_LIMITS._replace(seconds=1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes, with as many CPUs as it takes that each has one encoding worker.

    What workers return lies on their node, as pages with images do: short pages would be lost with no node.
    """
    import_ray()  # with what keeps it quiet
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": {"max_direct_call_object_size": 1000}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def fleet(cluster: Cluster) -> Iterator[Fleet]:
    with Fleet(cluster.address, n_encoders=2) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def encoder(fleet: Fleet) -> FleetEncoder:
    return fleet.load_encoder("embedded", dtype="float32")


class Expected(NamedTuple):
    """What one machine makes of a folder."""

    folder: Path
    contents: dict[str, Document]
    records: list[DocumentRecord]
    report: dict[str, Any]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> Expected:
    """Documents of several batches each."""
    folder, rng = tmp_path_factory.mktemp("many"), random.Random(8)
    for number in range(N_DOCUMENTS):
        (folder / f"{number}.pdf").write_bytes(pdf(*[sentence(rng) for _ in range(N_PAGES)]))
    return alone(folder, tmp_path_factory.mktemp("alone") / "index", embedded)


def alone(folder: Path, index: Path, encoder: TextEncoder, **options: Any) -> Expected:
    """Ingest on this machine."""
    store = PageStore.create(index, settings_for(encoder.info))
    report = ingest([folder], store, encoder, **options)
    return Expected(folder, contents(store), records(store), told(report))


def told(report: IngestReport) -> dict[str, Any]:
    """Return a report without what it took; documents end in another order on a cluster."""
    return {**asdict(report), "skipped": sorted(asdict(report)["skipped"]), "ocr_seconds": 0}


def records(store: PageStore) -> list[DocumentRecord]:
    """Return the records by id, without the files' times, which are known only some time after they were written."""
    kept = [replace(each, files=tuple(file._replace(mtime_ns=0) for file in each.files)) for each in store.documents()]
    return sorted(kept, key=lambda record: record.doc_id)


def workers(kind: str) -> list[psutil.Process]:
    """Return the processes of a kind of worker, which Ray names after their class."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if child.cmdline()[:1] and child.cmdline()[0].startswith(f"ray::{kind}")]


def once(n_pages: int, action: Callable[[], object]) -> Callable[[Progress], None]:
    """Return what does something when so many pages are done with."""
    due = [action]

    def on_progress(progress: Progress) -> None:
        if due and progress.n_pages >= n_pages:
            due.pop()()

    return on_progress


class Unstartable:
    """A worker of a node that lacks something."""

    def __init__(self) -> None:
        raise ModuleNotFoundError("No module named 'colret'")

    def greet(self) -> None:
        """Say nothing: it comes to no life."""


# These start encoding workers of their own; there is room for them until all others' encoder is made.


@pytest.mark.prove
def test_the_command_joins_a_cluster_and_a_signal_ends_it(
    proving: bool, tmp_path: Path, many: Expected, cluster: Cluster, embedded: TextEncoder
) -> None:
    stop(signal.SIGTERM, tmp_path / "index", many, cluster)
    store = PageStore.open(tmp_path / "index")
    ingest([many.folder], store, embedded)  # goes on without Ray
    assert contents(store) == many.contents
    if proving:
        stop(signal.SIGINT, tmp_path / "another", many, cluster)
        command = ingesting(tmp_path / "another", many, cluster)
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert re.fullmatch(f"({PROGRESS})*", done.stderr)
        assert contents(PageStore.open(tmp_path / "another")) == many.contents


def ingesting(index: Path, many: Expected, cluster: Cluster) -> list[str]:
    """Return the command."""
    encoder = ("--dtype", "float32", "--model", "embedded", "--ray-encoders", 1)
    return command("ingest", many.folder, "--index", index, "--ray", cluster.address, *encoder)


def stop(number: signal.Signals, index: Path, many: Expected, cluster: Cluster) -> None:
    """Tell the command to stop once something is in."""
    process = subprocess.Popen(
        ingesting(index, many, cluster), env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    while not any(index.glob("pages.lance/data/*")) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    told_at = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - told_at < 5
    assert (process.returncode, out) == (128 + number, "")
    assert re.fullmatch(rf"({PROGRESS})*colret: stopped.*[;,] the same command goes on\n", err)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["documents", "--ray", "127.0.0.1:1"], 1, "Ray at 127.0.0.1:1: nobody answers there (Connection refused);"),
        (["--ray", "documents"], 2, "'documents' is no address; where a PATH follows, write --ray=local"),
        (["documents", "--ray-encoders", "2"], 2, "--ray-encoders needs --ray"),
    ],
)
def test_a_wrong_address_is_one_line(
    arguments: list[str], code: int, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    result = CliRunner().invoke(cli, ["ingest", *arguments])
    assert result.exit_code == code
    assert message in result.output


def test_a_node_with_another_colret_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret, "__version__", "9.9")
    with Fleet(cluster.address, n_encoders=1) as fleet, pytest.raises(ColretError) as error:
        fleet.load_encoder("embedded")
    assert str(error.value).startswith(f"the Ray node {socket.gethostname()}: has colret ")
    assert ", and this is 9.9; install the same version on every node" in str(error.value)


def test_what_a_worker_raises_is_told_as_it_is(cluster: Cluster) -> None:
    with Fleet(cluster.address, n_encoders=1) as fleet, pytest.raises(ModelError, match="no-such-model"):
        fleet.load_encoder("no-such-model")


# From here on, both CPUs are taken.


def test_the_index_is_that_of_one_machine(
    tmp_path: Path, fleet: Fleet, encoder: FleetEncoder, embedded: TextEncoder
) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for name, topic in TOPICS.items():
        write_pdf(folder / f"{name}.pdf", topic, f"more on {name}")
    write_pdf(folder / "long.pdf", *[f"page {number} on herons" for number in range(20)])
    shutil.copy(folder / "heron.pdf", folder / "copy of heron.pdf")
    (folder / "torn.pdf").write_text("no PDF")
    (folder / "empty.pdf").touch()
    (folder / "slow.pdf").write_bytes(hostile_pdf([HELLO, NESTED, HELLO]))
    for path in HARD.glob("password_required*"):
        shutil.copy(path, folder)
    expected = alone(folder, tmp_path / "alone", embedded, limits=LIMITS, passwords=["hôtel"])
    store = PageStore.create(tmp_path / "index", settings_for(encoder.info))
    seen: list[Progress] = []
    report = ingest([folder], store, encoder, engine=fleet, limits=LIMITS, passwords=["hôtel"], on_progress=seen.append)
    assert told(report) == expected.report
    reasons = {each.reason for each in report.skipped}
    assert {"render_timeout", "password_required", "not_a_pdf", "empty_file"} <= reasons
    assert contents(store) == expected.contents
    assert records(store) == expected.records
    assert seen[-1].n_documents_read == seen[-1].n_documents
    assert [each.fraction for each in seen] == sorted(each.fraction for each in seen)
    again = ingest([folder], store, encoder, engine=fleet)
    assert (again.n_added, again.n_unchanged) == (0, report.n_added)


def test_a_worker_that_cannot_be_made_is_told_with_its_cause(encoder: FleetEncoder) -> None:
    ray = import_ray()
    pool = Pool([ray.remote(Unstartable).options(num_cpus=0, max_restarts=-1).remote()], "encoding")
    with pytest.raises(ColretError, match=r"a worker failed: .*No module named 'colret'; install the same colret"):
        pool.wait()


def test_a_projection_is_fitted_on_the_cluster(
    tmp_path: Path, folder: Path, fleet: Fleet, encoder: FleetEncoder, embedded: TextEncoder
) -> None:
    stores = [PageStore.create(tmp_path / name, settings_for(encoder.info, dim=32)) for name in ("a", "b")]
    ingest([folder], stores[0], encoder, engine=fleet)
    ingest([folder], stores[1], embedded)
    assert contents(stores[0]) == contents(stores[1])


def test_workers_that_are_killed_change_nothing(
    tmp_path: Path, many: Expected, fleet: Fleet, encoder: FleetEncoder
) -> None:
    store = PageStore.create(tmp_path / "index", settings_for(encoder.info))
    killed: list[str] = []

    def kill(kind: str) -> None:
        workers(kind)[0].kill()
        killed.append(kind)

    dues = [once(HALF // 2, lambda: kill("ReadingWorker")), once(HALF, lambda: kill("EncodingWorker"))]

    def on_progress(progress: Progress) -> None:
        for due in dues:
            due(progress)

    report = ingest([many.folder], store, encoder, engine=fleet, on_progress=on_progress)
    assert killed == ["ReadingWorker", "EncodingWorker"]
    assert told(report) == many.report
    assert contents(store) == many.contents
    assert records(store) == many.records


def test_workers_that_read_are_on_every_node(cluster: Cluster, fleet: Fleet, encoder: FleetEncoder) -> None:
    raylets = {process.ppid() for process in workers("ReadingWorker")}
    assert len(raylets) == 2


def test_a_cluster_without_room_is_told(
    cluster: Cluster, fleet: Fleet, encoder: FleetEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.fleet.pool, "_PATIENCE", 1.0)
    while len(workers("EncodingWorker")) < 2:
        time.sleep(0.1)
    with Fleet(cluster.address, n_encoders=1) as other, pytest.raises(ColretError, match="no encoding worker"):
        other.load_encoder("embedded")  # while both CPUs are taken


def test_a_node_that_is_lost_half_way_changes_nothing(
    tmp_path: Path, many: Expected, cluster: Cluster, fleet: Fleet, encoder: FleetEncoder
) -> None:
    store = PageStore.create(tmp_path / "index", settings_for(encoder.info))
    [node] = cluster.worker_nodes
    lose = once(HALF, lambda: cluster.remove_node(node, allow_graceful=False))
    report = ingest([many.folder], store, encoder, engine=fleet, on_progress=lose)
    assert not cluster.worker_nodes
    assert told(report) == many.report
    assert contents(store) == many.contents
    cluster.add_node(num_cpus=1)


def test_ctrl_c_stops_cleanly_and_the_next_goes_on(
    tmp_path: Path, many: Expected, fleet: Fleet, encoder: FleetEncoder
) -> None:
    store = PageStore.create(tmp_path / "index", settings_for(encoder.info))

    def interrupt() -> None:
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ingest([many.folder], store, encoder, engine=fleet, commit_pages=8, on_progress=once(HALF + N_PAGES, interrupt))
    assert time.monotonic() - started < 60
    before = contents(store)
    assert 0 < len(before) < N_DOCUMENTS
    assert before.items() <= many.contents.items()
    report = ingest([many.folder], store, encoder, engine=fleet)
    assert report.n_unchanged == len(before)
    assert contents(store) == many.contents


def test_a_file_that_a_node_does_not_see_is_missing_there(
    tmp_path: Path, folder: Path, fleet: Fleet, encoder: FleetEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan_and_hide(*arguments: Any, **options: Any) -> Any:
        plan = make_plan(*arguments, **options)
        (folder / "heron.pdf").rename(tmp_path / "elsewhere.pdf")
        return plan

    store = PageStore.create(tmp_path / "index", settings_for(encoder.info))
    with monkeypatch.context() as patch:
        patch.setattr(colret.ingest, "make_plan", plan_and_hide)
        report = ingest([folder], store, encoder, engine=fleet)
    [skipped] = report.skipped
    assert skipped.reason == "missing"
    assert f"the Ray node {socket.gethostname()} sees no such file; mount its folder" in skipped.message
    assert report.n_added == 2
    (tmp_path / "elsewhere.pdf").rename(folder / "heron.pdf")
    assert ingest([folder], store, encoder, engine=fleet).n_added == 1


def test_work_is_spread_over_what_the_nodes_have() -> None:
    small, large, gpus = Node("a", 2, 0), Node("b", 20, 0), Node("c", 16, 4)
    assert reading_places([small, large]) == [("a", 2), ("b", 6), ("b", 6), ("b", 6)]
    assert [tuple(each) for each in encoder_sizes([small], None, on_cpu=False)] == [(2, 0)]
    assert [tuple(each) for each in encoder_sizes([small, small], None, on_cpu=False)] == [(2, 0)] * 2
    assert [tuple(each) for each in encoder_sizes([small, large], 1, on_cpu=False)] == [(20, 0)]
    assert [tuple(each) for each in encoder_sizes([small], 5, on_cpu=False)] == [(1, 0)] * 5
    assert [tuple(each) for each in encoder_sizes([small, gpus], None, on_cpu=False)] == [(1, 1)] * 4
    assert [tuple(each) for each in encoder_sizes([small, gpus], 2, on_cpu=True)] == [(9, 0)] * 2


def test_without_ray_the_command_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setitem(sys.modules, "ray", None)
    result = CliRunner().invoke(cli, ["ingest", "documents", "--ray", "--model", "embedded"])
    assert (result.exit_code, result.output) == (1, "colret: --ray: Ray is not installed; pip install 'colret[ray]'\n")
