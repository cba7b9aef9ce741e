"""Documents in object storage, from the listing to the page that is shown: a sync as for folders."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import colret
import colret.encoders
import colret.readers.ahead
from colret.encoders.text import TextEncoder
from colret.ingest import ingest
from colret.location import Location
from colret.report import IngestReport
from colret.settings import settings_for
from colret.store import PageStore
from colret_cli.main import cli
from tests.conftest import TOPICS
from tests.folders import NumpyEncoder, answers, contents, numpy_encoder, pdf, sentence
from tests.object_store import Bucket, Request, Traffic
from tests.processes import cli as cli_command
from tests.processes import environment

Sync = Callable[..., IngestReport]


@pytest.fixture
def store(tmp_path: Path, bucket: Bucket) -> PageStore:
    """An empty index on a disk that knows how the bucket is opened."""
    location = Location.of(tmp_path / "index", bucket.options)
    return PageStore.create(location, settings_for(numpy_encoder().info))


@pytest.fixture
def sync(store: PageStore, bucket: Bucket) -> Sync:
    """Bring the index up to date with ``docs`` in the bucket."""
    return lambda **options: ingest([f"{bucket.address}/docs"], store, numpy_encoder(), **options)


def fill(bucket: Bucket, n: int, rng: random.Random) -> None:
    for number in range(n):
        bucket.put(f"docs/{number % 3}/{number} ü.pdf", pdf(sentence(rng), sentence(rng)))


def names(store: PageStore) -> set[str]:
    store.refresh()
    return {file.path.partition("/docs/")[2] for record in store.documents() for file in record.files}


def test_an_unchanged_bucket_is_listed_and_not_read(
    bucket: Bucket, store: PageStore, sync: Sync, traffic: Traffic
) -> None:
    fill(bucket, 9, random.Random(0))
    assert (sync().n_added, store.n_pages()) == (9, 18)
    assert len(traffic.gets()) == 9  # to be hashed, and read from the same copy
    traffic.clear()
    again = sync()
    assert (again.n_added, again.n_unchanged, again.skipped) == (0, 9, [])
    assert {request.method for request in traffic.requests} == {"GET"}
    assert traffic.gets() == []


def test_the_index_is_that_of_the_same_files_in_a_folder(
    bucket: Bucket, store: PageStore, sync: Sync, tmp_path: Path
) -> None:
    fill(bucket, 6, random.Random(1))
    sync()
    for key in bucket.keys("docs"):
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.get(key))
    other = PageStore.create(tmp_path / "other", settings_for(numpy_encoder().info))
    ingest([tmp_path / "docs"], other, numpy_encoder())
    here, there = contents(store), contents(other)
    assert here.keys() == there.keys()
    assert all(here[each].pages == there[each].pages for each in here)
    assert answers(store, set(here)) == answers(other, set(here))


def test_changes_renames_copies_and_deletions(bucket: Bucket, store: PageStore, sync: Sync, traffic: Traffic) -> None:
    rng = random.Random(2)
    fill(bucket, 6, rng)
    sync()
    bucket.put("docs/0/0 ü.pdf", pdf(sentence(rng)))  # changed
    bucket.put("docs/renamed.pdf", bucket.get("docs/1/1 ü.pdf"))
    bucket.delete("docs/1/1 ü.pdf")
    bucket.put("docs/copy.pdf", bucket.get("docs/2/2 ü.pdf"))
    bucket.delete("docs/0/3 ü.pdf")
    traffic.clear()
    report = sync()
    assert (report.n_added, report.n_replaced, report.n_moved, report.n_unchanged) == (1, 1, 2, 4)
    assert [path.partition("/docs/")[2] for path in report.vanished] == ["0/3 ü.pdf"]
    assert len(traffic.gets()) == 3  # what is new, changed, or under a new address
    everything = {"0/0 ü.pdf", "renamed.pdf", "2/2 ü.pdf", "copy.pdf", "1/4 ü.pdf", "2/5 ü.pdf", "0/3 ü.pdf"}
    assert names(store) == everything
    pruned = sync(prune=True)
    assert (pruned.n_pruned, pruned.n_added) == (1, 0)
    assert names(store) == everything - {"0/3 ü.pdf"}


def test_failures_are_remembered_and_tried_again_when_asked(
    bucket: Bucket, store: PageStore, sync: Sync, traffic: Traffic
) -> None:
    bucket.put("docs/good.pdf", pdf("granite and copper"))
    bucket.put("docs/bad.pdf", b"%PDF-1.4 and no more")
    bucket.put("docs/empty.pdf", b"")
    reasons = {"bad.pdf": "not_a_pdf", "empty.pdf": "empty_file"}
    assert {each.path.rpartition("/")[2]: each.reason for each in sync().skipped} == reasons
    traffic.clear()
    assert {each.path.rpartition("/")[2]: each.reason for each in sync().skipped} == reasons
    assert traffic.gets() == []
    sync(retry_failed=True)
    assert [path.rpartition("/")[2] for path in traffic.gets()] == ["bad.pdf"]
    bucket.put("docs/bad.pdf", pdf("harvest of saffron"))
    bucket.put("docs/empty.pdf", pdf("meadow at night"))
    mended = sync()
    assert (mended.n_added, mended.skipped) == (2, [])
    assert {record.status for record in store.documents()} == {"done"}


def test_what_cannot_be_read_now_keeps_its_pages(
    bucket: Bucket, store: PageStore, sync: Sync, traffic: Traffic
) -> None:
    rng = random.Random(3)
    fill(bucket, 3, rng)
    sync()
    bucket.put("docs/0/0 ü.pdf", pdf(sentence(rng)))
    traffic.meddle = lambda request: "403 Forbidden" if request.path.endswith(".pdf") else None
    refused = sync(prune=True)
    assert [each.reason for each in refused.skipped] == ["unreadable"]
    assert store.n_pages() == 6
    traffic.meddle = lambda request: "403 Forbidden"  # not even a listing
    closed = sync(prune=True)
    assert ([each.reason for each in closed.skipped], closed.vanished) == (["unreadable"], [])
    assert store.n_pages() == 6
    traffic.clear()
    assert (sync().n_added, store.n_pages()) == (1, 5)


def test_an_object_that_changes_before_it_is_read_is_read_next_time(
    bucket: Bucket, store: PageStore, sync: Sync, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colret.spool.KEPT_BYTES", 0)
    monkeypatch.setattr("colret.ingest.Spool", lambda: colret.spool.Spool(kept_bytes=0))
    bucket.put("docs/a.pdf", pdf("granite and copper"))

    def change(request: Request) -> None:
        if len(traffic.gets()) == 2:  # the first was for its hash
            traffic.meddle = lambda request: None
            bucket.put("docs/a.pdf", pdf("harvest of saffron"))

    traffic.meddle = change
    first = sync()
    assert [each.reason for each in first.skipped] == ["changed_while_read"]
    assert store.documents() == []
    second = sync()
    assert (second.n_added, second.skipped) == (1, [])


def test_an_emptied_prefix_is_not_pruned(bucket: Bucket, store: PageStore, sync: Sync) -> None:
    fill(bucket, 2, random.Random(4))
    sync()
    for key in bucket.keys("docs"):
        bucket.delete(key)
    report = sync(prune=True)
    assert (len(report.vanished), report.n_pruned, store.n_pages()) == (2, 0, 4)
    assert {each.reason for each in report.skipped} == {"missing"}


def test_folders_and_buckets_together(bucket: Bucket, store: PageStore, folder: Path) -> None:
    fill(bucket, 3, random.Random(5))
    bucket.put("docs/same.pdf", folder / "heron.pdf")
    report = ingest([folder, f"{bucket.address}/docs"], store, numpy_encoder())
    assert (report.n_added, report.n_moved) == (6, 1)
    (folder / "heron.pdf").unlink()
    report = ingest([folder, f"{bucket.address}/docs"], store, numpy_encoder(), prune=True)
    assert (report.n_pruned, report.n_added, store.n_pages()) == (0, 0, 9)
    assert str(folder / "heron.pdf") not in {file.path for record in store.documents() for file in record.files}


def test_documents_are_downloaded_while_others_are_encoded(
    bucket: Bucket, store: PageStore, sync: Sync, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of 40 fits where hashed ones are kept; reading takes them as it goes, within its bounds."""
    size = len(pdf("x" * 40))
    monkeypatch.setattr("colret.ingest.Spool", lambda: colret.spool.Spool(kept_bytes=0, ahead_bytes=4 * size))
    for number in range(40):
        bucket.put(f"docs/{number}.pdf", pdf(f"{number:040}"))
    seen: list[int] = []

    class Watching(NumpyEncoder):
        def encode_pages(self, pages: Any) -> Any:
            seen.append(len(traffic.gets()) - 40)
            return super().encode_pages(pages)

    report = ingest([f"{bucket.address}/docs"], store, Watching())
    assert report.n_added == 40
    assert len(traffic.gets()) == 80
    assert 16 <= seen[0] < 40  # the first batch was encoded before the last object was there


# The command line


@pytest.fixture
def run(
    tmp_path: Path, embedded: TextEncoder, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Run a command with the bucket's options; the one real encoder is loaded already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(cli, [*arguments, *bucket.arguments])
        assert "testing-secret" not in result.output
        return result

    return run


def test_commands_on_documents_in_a_bucket(run: Callable[..., Result], bucket: Bucket, tmp_path: Path) -> None:
    for name, text in TOPICS.items():
        bucket.put(f"docs/{name}.pdf", pdf(text))
    docs, heron = f"{bucket.address}/docs", f"{bucket.address}/docs/heron.pdf"
    planned = run("ingest", docs, "--dry-run", "--json")
    assert len(json.loads(planned.stdout)["new"]) == 5, planned.output
    done = run("ingest", docs, "--model", "embedded", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n_added"] == 5
    bucket.put("docs/empty.pdf", b"")
    again = run("ingest", docs)
    assert (again.exit_code, f"{docs}/empty.pdf" in again.stdout) == (3, True), again.output

    asked = run("query", "a bird that fishes", "-k", "1", "--images", "pictures", "--json")
    assert asked.exit_code == 0, asked.output
    [hit] = json.loads(asked.stdout)["hits"]
    assert hit["file"] == heron
    assert Path(hit["image"]).read_bytes().startswith(b"\x89PNG")

    shown = run("show", f"{heron}#1", "--query", "heron", "--image-out", "page.png", "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["file"] == heron
    assert Path("page.png").exists()
    bucket.put("elsewhere.pdf", pdf("not in the index"))
    other = run("show", f"{bucket.address}/elsewhere.pdf#1", "--image-out", "other.png")
    assert (other.exit_code, "not in the index" in other.stdout) == (0, True), other.output
    beyond = run("show", f"{bucket.address}/elsewhere.pdf#9", "--image-out", "other.png")
    assert (beyond.exit_code, "elsewhere.pdf page 9: there are 1 page" in beyond.output) == (1, True), beyond.output

    for selector in (docs, heron, f"{bucket.address}/*ron.pdf"):
        found = run("query", "a bird that fishes", "--doc", selector, "--json")
        assert found.exit_code == 0, found.output
    assert heron in run("list").stdout
    removed = run("remove", docs)
    assert removed.exit_code == 0, removed.output
    assert "heron" not in run("list").stdout
    for kept in (tmp_path / ".colret").rglob("*"):
        assert not (kept.is_file() and b"testing-secret" in kept.read_bytes())


def test_examples_from_a_bucket(run: Callable[..., Result], bucket: Bucket) -> None:
    bucket.put("docs/heron.pdf", pdf(TOPICS["heron"]))
    bucket.put("example.pdf", pdf("herons fish in shallow water"))
    assert run("ingest", f"{bucket.address}/docs", "--model", "embedded").exit_code == 0
    with colret.open(Location.of(".colret", bucket.options), device="cpu") as index:
        [hit] = index.search_image(f"{bucket.address}/example.pdf", k=1)
        assert hit.file == f"{bucket.address}/docs/heron.pdf"
        assert hit.image(size=200).size[1] == 200


@pytest.mark.parametrize("stage", ["listing", "reading"])
def test_ctrl_c_does_not_wait_for_a_server_that_is_silent(
    bucket: Bucket, traffic: Traffic, tmp_path: Path, stage: str
) -> None:
    bucket.put("docs/a.pdf", pdf("granite"))
    reached, go_on = threading.Event(), threading.Event()

    def be_silent(request: Request) -> None:
        if ("list-type" in request.query) == (stage == "listing"):
            reached.set()
            go_on.wait(60)

    traffic.meddle = be_silent
    command = cli_command("ingest", f"{bucket.address}/docs", "--model", "embedded", "--index", tmp_path / "index")
    process = subprocess.Popen([*command, *bucket.arguments], env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        assert reached.wait(60)
        told = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, time.monotonic() - told < 5) == (130, True), said
        assert "the same command goes on" in said
    finally:
        go_on.set()
        process.kill()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["{bucket}/docs", "--watch"], 2, "--watch follows folders of this machine"),
        (["{bucket}/missing"], 1, "no object there, nor below it"),
        (["s3://"], 2, "names no bucket"),
        (["{bucket}//docs"], 2, "its key has a part"),
        (["https://example.org/docs"], 2, "documents are not read from there"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    run: Callable[..., Result], bucket: Bucket, arguments: list[str], code: int, said: str
) -> None:
    bucket.put("docs/a.pdf", pdf("granite"))
    result = run("ingest", *(each.format(bucket=bucket.address) for each in arguments))
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert "Traceback" not in result.output
