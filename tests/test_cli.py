"""The command line, run as a user would: exit code first, then what is printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import pytest
from click.testing import CliRunner, Result

import colret.encoders
import colret.ingest
import colret.watching
from colret.encoders import Encoder
from colret.encoders.text import TextEncoder
from colret.planning import make_plan
from colret.settings import settings_for
from colret.store import PageStore
from colret.sync import Plan
from colret_cli.main import cli
from tests.conftest import TOPICS, write_pdf
from tests.test_ingest import HARD

CHANGES = ("new", "changed", "retried", "moved", "vanished", "unusable", "unchanged")
LOCKED, PASSWORD = HARD / "password_required--encrypted_hello_world_r5.pdf", "hôtel"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder) -> None:
    """Run where the default index is the test's own, with the one real encoder loaded already."""
    monkeypatch.chdir(tmp_path)
    load = colret.encoders.load_encoder

    def load_once(name: str, **options: Any) -> Any:
        return embedded if name == "embedded" else load(name, **options)

    monkeypatch.setattr(colret.encoders, "load_encoder", load_once)


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin)


def answered(*arguments: str) -> dict[str, Any]:
    """Return the JSON that a query prints."""
    result = run("query", "--json", *arguments)
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    return value


@pytest.fixture
def ingested(folder: Path) -> Path:
    assert run("ingest", str(folder)).exit_code == 0
    return folder


def test_ingest_tells_what_it_did(folder: Path) -> None:
    result = run("ingest", "documents")
    assert result.exit_code == 0, result.output
    first, second = result.stdout.splitlines()
    assert first.startswith("added 3 documents (3 pages, 0 blank), 0 unchanged, 0 skipped, in ")
    assert first.endswith(" pages/s)")
    assert second.startswith(".colret: 3 documents, 3 pages, ")
    assert second.endswith(" a page")
    assert "model: embedded (" in result.stderr
    again = run("ingest", "documents")
    assert again.stdout.startswith("added 0 documents (0 pages, 0 blank), 3 unchanged, 0 skipped, in ")


@pytest.mark.parametrize("size", ["auto", "3"])
def test_the_batch_size_is_a_number_or_auto(folder: Path, size: str) -> None:
    from tests.checkpoints import tiny_checkpoint

    arguments = ["ingest", "documents", "--model", str(tiny_checkpoint("colqwen2")), "--batch-size", size]
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert "added 3 documents (3 pages" in result.stdout


def test_ingest_speaks_json(folder: Path) -> None:
    (folder / "torn.pdf").write_text("no PDF")
    result = run("ingest", "documents", "--json")
    assert result.exit_code == 3
    report = json.loads(result.stdout)
    assert (report["n_added"], report["n_pages"], report["index"]["n_pages"]) == (3, 3, 3)
    [skipped] = report["skipped"]
    assert (skipped["path"], skipped["page"], skipped["reason"]) == (str(folder / "torn.pdf"), None, "not_a_pdf")


def test_skipped_files_are_listed_and_give_3(folder: Path) -> None:
    shutil.copy(HARD / "password_required--encrypted_hello_world_r2.pdf", folder / "locked.pdf")
    result = run("ingest", "documents")
    assert result.exit_code == 3
    assert "\nskipped documents/locked.pdf: password_required: " in result.stdout
    assert run("query", "bread").exit_code == 0


def test_query_ranks_pages(ingested: Path) -> None:
    result = run("query", "bread with salt", "-k", "2")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "bread with salt  [3 pages, all scored; by late interaction and words]"
    assert lines[1].startswith("  1. documents/sourdough.pdf  page 1  0.")
    assert lines[2] == f"     {TOPICS['sourdough']}"
    assert lines[3].startswith("  2. ")
    assert result.stderr == ""


def test_query_speaks_json(ingested: Path) -> None:
    found = answered("bread with salt")
    assert (found["query"], found["n_pages"], found["n_scored"]) == ("bread with salt", 3, 3)
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3]
    best = found["hits"][0]
    assert (best["file"], best["page"]) == (str(ingested / "sourdough.pdf"), 1)
    assert best["score"] == pytest.approx(best["maxsim"] / 3 + best["bm25"] / 2, abs=1e-5)
    assert best["snippet"] == TOPICS["sourdough"]
    assert found["hits"] == answered("bread with salt", "--exact")["hits"]


def test_a_lane_is_what_pages_are_ranked_by(ingested: Path) -> None:
    found = {lane: answered("bread with salt", "--lane", lane) for lane in ("visual", "text", "both")}
    assert {lane: answer["lane"] for lane, answer in found.items()} == {lane: lane for lane in found}
    best = {lane: answer["hits"][0] for lane, answer in found.items()}
    assert {Path(hit["file"]).stem for hit in best.values()} == {"sourdough"}
    assert best["visual"]["score"] == pytest.approx(best["visual"]["maxsim"] / 3, abs=1e-5)
    assert best["text"]["score"] == best["text"]["bm25"] == best["both"]["bm25"]
    assert (best["text"]["maxsim"], best["visual"]["bm25"]) == (0, 0)
    assert len(found["text"]["hits"]) == 1  # the others share no word
    assert best["text"]["snippet"] == TOPICS["sourdough"]


def test_a_quoted_phrase_has_to_be_on_the_page(ingested: Path) -> None:
    assert len(answered('"shallow water" fish')["hits"]) == 1
    result = run("query", '"water shallow" fish')
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1] == "     no page has these words"


def test_the_text_lane_needs_no_model(ingested: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr("colret.encoders.load_encoder", refuse)
    assert answered("bread", "--lane", "text")["hits"][0]["page"] == 1


def test_the_prefilter_can_be_narrowed(ingested: Path) -> None:
    found = answered("bread with salt", "-k", "1", "--candidates", "1")
    assert (found["n_scored"], len(found["hits"])) == (1, 1)


def test_many_queries_come_from_a_file(ingested: Path) -> None:
    lines = ["bread with salt", "", '{"query_id": 7, "text": "a bird that eats fish"}', '{"query": "sales"}']
    Path("questions.txt").write_text("\n".join(lines))
    result = run("query", "--queries", "questions.txt", "--json", "-k", "1")
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [Path(answer["hits"][0]["file"]).stem for answer in answers] == ["sourdough", "heron", "revenue"]
    assert [answer.get("query_id") for answer in answers] == [None, "7", None]


@pytest.mark.parametrize("arguments", [["-"], ["--queries", "-"]])
def test_a_query_can_come_from_stdin(ingested: Path, arguments: list[str]) -> None:
    result = run("query", "-k", "1", *arguments, stdin="bread with salt\n")
    assert result.exit_code == 0, result.output
    assert "sourdough.pdf" in result.stdout


def test_info_shows_what_the_index_holds(ingested: Path) -> None:
    result = run("info")
    assert result.exit_code == 0
    rows = {line[:10].strip(): line[11:] for line in result.stdout.splitlines()}
    assert rows["model"].startswith("embedded (all-MiniLM-L6-v2 sha256:53aa51172d142c89)")
    assert rows["documents"] == "3 (0 that could not be used)"
    assert rows["pages"] == "3 (0 blank and 0 unreadable ones left out)"
    assert " of 384 dimensions, " in rows["vectors"]
    assert rows["codec"].startswith("int4, ")
    assert re.search(r" a page; [\d.]+ k?B of it dead$", rows["on disk"])
    info = json.loads(run("info", "--json").stdout)
    assert info["n_pages"] == 3
    assert info["live_bytes"] + info["dead_bytes"] == info["bytes_on_disk"]
    assert info["bytes_on_disk"] == sum(f.stat().st_size for f in Path(".colret").rglob("*") if f.is_file())


def test_list_shows_documents_and_failures(folder: Path) -> None:
    (folder / "torn.pdf").write_text("no PDF")
    run("ingest", "documents")
    everything = run("list").stdout
    assert [line.split()[-1] for line in everything.splitlines() if "documents/" in line] == [
        f"documents/{name}.pdf" for name in ("heron", "revenue", "sourdough", "torn")
    ]
    failed = run("list", "--failed")
    assert failed.exit_code == 0
    assert failed.stdout.splitlines()[0].split()[1:] == ["failed", "0", "pages", "documents/torn.pdf"]
    assert "not_a_pdf: " in failed.stdout.splitlines()[1]
    [document] = [json.loads(line) for line in run("list", "--failed", "--json").stdout.splitlines()]
    assert (document["reason"], document["files"][0]["path"]) == ("not_a_pdf", str(folder / "torn.pdf"))


def test_remove_takes_a_document_out(ingested: Path) -> None:
    result = run("remove", "documents/heron.pdf")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("  documents/heron.pdf  (1 page)\n")
    assert json.loads(run("info", "--json").stdout)["n_pages"] == 2
    assert "heron" not in run("query", "a bird that eats fish").stdout


def test_another_index_is_named_by_option_or_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("ingest", "documents/heron.pdf", "--index", "birds").exit_code == 0
    assert not Path(".colret").exists()
    monkeypatch.setenv("COLRET_INDEX", "birds")
    assert json.loads(run("info", "--json").stdout)["n_pages"] == 1


def test_float16_stores_twice_the_codes(folder: Path) -> None:
    run("ingest", "documents", "--codec", "float16", "--index", "wide")
    run("ingest", "documents", "--codec", "int8")
    assert "float16, " in run("info", "--index", "wide").stdout
    narrow, wide = answered("bread with salt"), answered("bread with salt", "--index", "wide")
    assert [hit["page_id"] for hit in narrow["hits"]] == [hit["page_id"] for hit in wide["hits"]]
    assert narrow["hits"][0]["score"] == pytest.approx(wide["hits"][0]["score"], abs=0.01)
    refused = run("ingest", "documents", "--codec", "int8", "--index", "wide")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "colret: wide: was made with --codec float16, not int8; leave --codec out, or ingest into a new --index\n"
    )


# A sync, seen from the command line


def test_a_dry_run_tells_the_plan_and_touches_nothing(folder: Path) -> None:
    (folder / "letters.zip").write_bytes(b"x")
    result = run("ingest", "documents", "--dry-run")
    assert result.exit_code == 0, result.output
    first, *rest = result.stdout.splitlines()
    assert first.startswith("files: 3 new, 0 changed, ")
    assert [line.split()[-1] for line in rest if line.startswith("new ")] == [
        f"documents/{name}.pdf" for name in ("heron", "revenue", "sourdough")
    ]
    assert [line.split()[-1] for line in rest if line.startswith("unusable ")] == ["documents/letters.zip"]
    assert os.listdir() == ["documents"]


def test_a_dry_run_compares_with_the_index_while_another_writes(ingested: Path) -> None:
    (ingested / "heron.pdf").unlink()
    (ingested / "revenue.pdf").rename(ingested / "sales.pdf")
    write_pdf(ingested / "sourdough.pdf", TOPICS["orbit"])
    before = {path: path.read_bytes() for path in Path(".colret").rglob("*") if path.is_file()}
    with PageStore.open(Path(".colret")).writing():
        plan = json.loads(run("ingest", "documents", "--dry-run", "--json").stdout)
    assert {change: [Path(path).name for path in paths] for change, paths in plan.items() if change in CHANGES} == {
        "new": [],
        "changed": ["sourdough.pdf"],
        "retried": [],
        "moved": ["sales.pdf"],
        "vanished": ["heron.pdf"],
        "unusable": [],
        "unchanged": [],
    }
    assert plan["n_documents_to_read"] == 1
    assert {path: path.read_bytes() for path in Path(".colret").rglob("*") if path.is_file()} == before


def test_vanished_files_are_told_and_pruned_on_demand(ingested: Path) -> None:
    (ingested / "heron.pdf").unlink()
    result = run("ingest", "documents")
    assert result.exit_code == 0, result.output
    told = "1 file vanished: documents/heron.pdf; --prune drops what has vanished from the index"
    assert told in result.stdout.splitlines()
    assert json.loads(run("info", "--json").stdout)["n_pages"] == 3
    pruned = run("ingest", "documents", "--prune")
    assert "2 unchanged, 1 dropped, 0 skipped" in pruned.stdout
    assert json.loads(run("info", "--json").stdout)["n_pages"] == 2


def test_a_folder_that_seems_not_to_be_mounted_is_not_pruned(ingested: Path) -> None:
    for path in ingested.iterdir():
        path.unlink()
    result = run("ingest", "documents", "--prune", "--json")
    assert result.exit_code == 3
    report = json.loads(result.stdout)
    assert (len(report["vanished"]), report["n_pruned"], report["index"]["n_pages"]) == (3, 0, 3)
    assert "colret remove " in report["skipped"][0]["message"]
    ingested.rmdir()
    gone = run("ingest", "documents", "--prune")
    assert (gone.exit_code, json.loads(run("info", "--json").stdout)["n_pages"]) == (3, 3)


def test_what_cannot_be_read_is_listed_until_it_can(folder: Path) -> None:
    os.mkfifo(folder / "pipe.pdf")
    (folder / "gone.pdf").symlink_to("nowhere.pdf")
    (folder / "empty.pdf").touch()
    (folder / "all.zip").write_bytes(b"x")
    result = run("ingest", "documents")
    assert result.exit_code == 3, result.output
    reasons = {"pipe": "unsupported_type", "gone": "missing", "empty": "empty_file", "all": "unsupported_archive"}
    listed = [json.loads(line) for line in run("list", "--failed", "--json").stdout.splitlines()]
    assert {Path(record["files"][0]["path"]).stem: record["reason"] for record in listed} == reasons
    assert run("list", "--reason", "empty_file").stdout.splitlines()[0].endswith("documents/empty.pdf")
    assert json.loads(run("info", "--json").stdout)["reasons"] == dict.fromkeys(sorted(reasons.values()), 1)
    assert "failures   " in run("info").stdout
    for name in ("pipe.pdf", "gone.pdf", "all.zip"):
        (folder / name).unlink()
    write_pdf(folder / "empty.pdf", TOPICS["orbit"])
    healed = run("ingest", "documents")
    assert healed.exit_code == 0
    for options, said in ((["--failed"], "in whole or in part"), (["--reason", "missing"], "for missing")):
        none = run("list", *options)
        assert (none.exit_code, none.stdout) == (0, "")
        assert none.stderr == f"none of 4 documents failed {said}\n"
    assert healed.stdout.startswith("added 1 document (1 page, 0 blank), 3 unchanged, 0 skipped")


def test_many_skipped_files_are_counted_by_reason(folder: Path) -> None:
    for number in range(30):
        (folder / f"{number:02}.zip").write_bytes(b"x")
    (folder / "empty.pdf").touch()
    lines = run("ingest", "documents").stdout.splitlines()
    assert "skipped: 30 unsupported_archive, 1 empty_file" in lines
    assert sum(line.startswith("skipped documents/") for line in lines) == 20
    assert "skipped documents/empty.pdf: empty_file: the file is empty; replace or remove it" in lines
    assert lines[-1] == "and 11 more: colret list --failed"


def test_auto_is_the_model_of_an_index_that_is_there(ingested: Path) -> None:
    result = run("ingest", "documents", "--model", "auto")
    assert result.exit_code == 0, result.output
    assert "3 unchanged" in result.stdout


def test_an_index_that_another_process_makes_meanwhile_is_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = colret.encoders.load_encoder

    def load_slowly(*arguments: Any, **options: Any) -> Encoder:
        encoder = load(*arguments, **options)
        PageStore.create(Path(".colret"), settings_for(encoder.info))
        return encoder

    monkeypatch.setattr(colret.encoders, "load_encoder", load_slowly)
    result = run("ingest", "documents")
    assert result.exit_code == 0, result.output
    assert "added 3 documents" in result.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    "arguments",
    [
        "ingest documents --password-file -",
        "query -",
        "query --queries -",
        "bench --queries -",
        "index build --type ivf_flat --queries -",
        "calibrate --queries -",
        "calibrate --no-answer -",
    ],
)
def test_a_stdin_that_is_closed_is_one_clear_line(folder: Path, arguments: str) -> None:
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, *arguments.split()]
    done = subprocess.run(closed, env=environment(), capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, "stdin is closed" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_passwords_open_locked_documents_and_are_never_told(folder: Path, source: str) -> None:
    shutil.copy(LOCKED, folder / "locked.pdf")
    assert "locked.pdf: password_required" in run("ingest", "documents").stdout
    passwords = f"wrong-secret\n\n{PASSWORD}\n"
    Path("passwords.txt").write_text(passwords, encoding="utf-8")
    given = "passwords.txt" if source == "file" else "-"
    result = run("ingest", "documents", "--password-file", given, stdin=passwords)
    assert result.exit_code == 0, result.output
    assert "added 1 document (1 page, 0 blank), 3 unchanged" in result.stdout
    assert not any(word in result.output for word in ("secret", PASSWORD))
    assert not any(PASSWORD.encode() in path.read_bytes() for path in Path(".colret").rglob("*") if path.is_file())


def test_another_writer_is_refused_or_waited_for(ingested: Path) -> None:
    (ingested / "heron.pdf").rename(ingested / "bird.pdf")
    busy = "colret: .colret: another colret is writing to it; wait for it to end, then retry\n"
    with PageStore.open(Path(".colret")).writing():
        assert run("ingest", "documents").stderr == busy
        assert run("remove", "documents/revenue.pdf", "--wait", "0.5").stderr.splitlines()[-1] == busy.strip()
    writing = PageStore.open(Path(".colret")).writing()
    writing.__enter__()
    release = threading.Timer(1.0, writing.__exit__, (None, None, None))
    release.start()
    result = run("ingest", "documents", "--wait", "60")
    release.join()
    assert result.exit_code == 0, result.output
    assert result.stderr == "waiting: .colret: another colret is writing to it\n"
    assert "1 copied or renamed" in result.stdout


# Bad input: one line, the right exit code, no traceback


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ingest", "none"], 1, "none: no such file; check the path"),
        (["ingest", "empty"], 1, "empty: no documents in it; name a folder that holds some"),
        (["ingest", "note.md"], 1, "note.md: "),
        (["ingest"], 2, "Missing argument 'PATH...'"),
        (["ingest", "documents", "--model", "no/such-model"], 1, "no/such-model: "),
        (["ingest", "documents", "--model", "./nowhere"], 1, "./nowhere: "),
        (["ingest", "documents", "--batch-size", "0"], 2, "'0' is neither auto nor a number from 1"),
        (["ingest", "documents", "--batch-size", "many"], 2, "'many' is neither auto nor a number from 1"),
        (["query", "bread", "--index", "none"], 1, "none: no index here; make one with: colret ingest FOLDER"),
        (["query", "bread", "--index", "empty"], 1, "empty: not a finished colret index; "),
        (["query", "bread", "-k", "0"], 2, "'-k'"),
        (["query", "bread", "-k", "-3"], 2, "'-k'"),
        (["query", "bread", "--candidates", "0"], 2, "'--candidates'"),
        (["query", "bread", "--exact", "--candidates", "9"], 2, "leave --candidates and --prefilter out"),
        (["query", ""], 2, "the query is empty"),
        (["query", "  \n "], 2, "the query is empty"),
        (["query", "\u200b"], 2, "the query has no tokens"),
        (["query"], 2, "give one TEXT, or --queries FILE"),
        (["query", "a", "--queries", "note.md"], 2, "give one TEXT, or --queries FILE"),
        (["query", "--queries", "none.txt"], 2, "none.txt"),
        (["query", "--queries", "bad.jsonl"], 2, "bad.jsonl line 2: not JSON"),
        (["query", "--queries", "blank.txt"], 2, "blank.txt: holds no query"),
        (["query", "--queries", "latin.txt"], 2, "latin.txt: not UTF-8 text"),
        (["query", "bread", "--model", "documents"], 1, "documents: "),
        (["query", "bread", "--model", "colqwen2"], 1, "was made by embedded, not vidore/colqwen2-v1.0"),
        (["ingest", "documents", "--model", "colqwen2"], 1, "was made by embedded, not vidore/colqwen2-v1.0"),
        (["ingest", "documents", "--index", "documents"], 1, "documents: holds other things, such as heron.pdf"),
        (["ingest", "documents", "--index", "note.md"], 1, "note.md: is not a folder; name a new or empty folder"),
        (["query", "bread", "--device", "abacus"], 2, "abacus"),
        (["query", "--queries", "deep.jsonl"], 2, "deep.jsonl line 1: not JSON"),
        (["query", "bread", "--index", ""], 2, "name a folder"),
        (["query", "bread", "--index", "ftp://host/x"], 2, "no index can be at ftp://; name a folder, or "),
        (["query", "bread", "--index", "x" * 300], 1, "File name too long"),
        (["query", "bread", "--model", ""], 2, "--model is empty"),
        (["ingest", ""], 2, "a path is empty"),
        (["ingest", "documents", "--password-file", "none.txt"], 2, "none.txt: cannot be read (No such file"),
        (["ingest", "documents", "--password-file", "latin.txt"], 2, "latin.txt: not UTF-8 text"),
        (["ingest", "documents", "--dry-run", "--watch"], 2, "give --dry-run or --watch"),
        (["ingest", "documents/heron.pdf", "--watch"], 2, "--watch follows folders, and documents/heron.pdf is none"),
        (["ingest", "documents", "--page-seconds", "0"], 2, "'--page-seconds'"),
        (["ingest", "documents", "--page-seconds", "nan"], 2, "'--page-seconds': 'nan' is not a number"),
        (["ingest", "documents", "--page-seconds", "inf"], 2, "'--page-seconds'"),
        (["ingest", "documents", "--wait", "nan"], 2, "'--wait': 'nan' is not a number"),
        (["ingest", "documents", "--model", " "], 2, "--model is empty"),
        (["ingest", "documents", "--page-memory", "1"], 2, "'--page-memory'"),
        (["ingest", "empty.pdf"], 1, "empty.pdf: the file is empty; replace or remove it"),
        (["list", "--reason", "fate"], 2, "'--reason'"),
        (["ingest", "documents", "--index", "new", "--model", "x" * 300], 1, "x: "),
        (["ingest", "documents", "--index", "new", "--model", "~nobody-here/x"], 1, "~nobody-here/x: "),
        (["remove", ""], 1, "names no document"),
        (["remove", "none.pdf"], 1, "none.pdf: not in the index; see: colret list"),
        (["info", "--index", "none"], 1, "none: no index here"),
        (["list", "--index", "none"], 1, "none: no index here"),
        (["nonsense"], 2, "No such command 'nonsense'"),
    ],
)
def test_bad_input_is_one_line(ingested: Path, arguments: list[str], code: int, message: str) -> None:
    Path("empty").mkdir()
    Path("note.md").write_text("words")
    Path("empty.pdf").touch()
    Path("bad.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    Path("blank.txt").write_text("\n \n")
    Path("deep.jsonl").write_text('{"text":' + "[" * 200_000)
    Path("latin.txt").write_bytes("Übung\n".encode("latin-1"))
    if "no/such-model" in arguments or "./nowhere" in arguments:
        shutil.rmtree(".colret")
    result = run(*arguments)
    assert (result.exit_code, result.exception.__class__) == (code, SystemExit), result.output
    assert result.stdout == ""
    last_line = result.stderr.splitlines()[-1]
    assert message in last_line
    assert "Traceback" not in result.stderr


def test_an_index_of_another_model_is_refused(ingested: Path) -> None:
    from tests.checkpoints import tiny_checkpoint

    result = run("ingest", "documents", "--model", str(tiny_checkpoint("colpali")))
    assert result.exit_code == 1
    assert "was made by embedded" in result.stderr
    assert result.stderr.splitlines()[-1].endswith("leave --model out, or ingest into a new --index")


def test_an_index_without_pages_says_so(tmp_path: Path) -> None:
    write_pdf(tmp_path / "blank.pdf", "")
    assert run("ingest", "blank.pdf").exit_code == 0
    result = run("query", "anything")
    assert result.exit_code == 1
    assert result.stderr == "colret: .colret: holds no pages; add some with: colret ingest FOLDER\n"


def test_names_that_no_terminal_should_print_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    write_pdf(folder / "two\nlines.pdf", TOPICS["heron"])
    write_pdf(Path(os.fsdecode(os.fsencode(folder) + b"/latin-\xfc.pdf")), TOPICS["orbit"])
    (folder / "\x1b[31mred.pdf").write_text("torn")
    result = run("ingest", "documents")
    assert result.exit_code == 3
    listed = run("list").stdout
    assert listed.count("\n") == 4
    assert "\x1b" not in listed + result.output
    assert len(answered("bird", "-k", "9")["hits"]) == 2


def test_a_name_that_looks_like_an_address_is_a_folder(ingested: Path) -> None:
    for name in ("memory:x", "file:y", "~z"):
        assert run("ingest", "documents", "--index", name).exit_code == 0
        assert Path(name).is_dir()
        assert json.loads(run("info", "--index", name, "--json").stdout)["n_pages"] == 3


def test_marks_and_broken_characters_in_queries_do_no_harm(ingested: Path) -> None:
    Path("marked.jsonl").write_bytes('\ufeff{"text": "bread \\ud800", "query_id": null}\n'.encode())
    result = run("query", "--queries", "marked.jsonl", "--json", "-k", "1")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert (answer["query"], "query_id" in answer) == ("bread ?", False)
    assert run("query", "bread \udcff", "--json").exit_code == 0


def test_damaged_settings_are_one_line(ingested: Path) -> None:
    table = lancedb.connect(".colret").open_table("settings")
    for key, value in (("codec", '"zip"'), ("dim", '"many"'), ("model", "5")):
        [before] = table.search().where(f"key = '{key}'").to_list()
        table.update(where=f"key = '{key}'", values={"value_json": value})
        result = run("query", "bread")
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
        assert "its settings are damaged; ingest again into a new --index" in result.stderr
        table.update(where=f"key = '{key}'", values={"value_json": before["value_json"]})


def test_a_working_folder_that_is_gone_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for arguments in (["list"], ["remove", "x"], ["ingest", "x.pdf"], ["query", "x"]):
        result = run(*arguments)
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1), result.output
    monkeypatch.chdir(tmp_path)


# In processes of their own


COMMAND = [sys.executable, "-m", "colret_cli"]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HF_HUB_OFFLINE": "1"}


def spawn(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def test_a_real_process_ingests_and_answers_without_noise(folder: Path) -> None:
    process = spawn("ingest", "documents")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err.count("\n")) == (0, 1), err
    assert out.startswith("added 3 documents")
    process = spawn("query", "bread with salt", "-k", "1")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "sourdough.pdf" in out


def test_a_full_output_is_one_line(ingested: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "info"], stdout=full, stderr=subprocess.PIPE, text=True, env=environment())
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_in_one_line_and_the_next_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for i in range(40):
        write_pdf(folder / f"{i:02}.pdf", *[f"{topic} {i} {number}" for number, topic in enumerate(TOPICS.values())])
    process = spawn("ingest", "documents")
    deadline = time.monotonic() + 90
    while not list(Path(".colret").glob("documents.lance/data/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    last = err.splitlines()[-1]
    assert re.match(r"colret: stopped(; the index is consistent, |: \d+ pages of \d+ documents are in; )the same", last)
    assert "Traceback" not in err
    assert run("ingest", "documents").exit_code == 0
    info = json.loads(run("info", "--json").stdout)
    assert (info["n_documents"], info["n_pages"]) == (40, 200)


def test_who_follows_folders_tries_failures_again_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "torn.pdf").write_text("no PDF")
    run("ingest", "documents")
    tried: list[int] = []

    def plan_and_count(*arguments: Any, **options: Any) -> Plan:
        plan = make_plan(*arguments, **options)
        tried.append(len(plan.new))
        return plan

    def follow(folders: Any, sync: Callable[[], bool], *, ignore: Path) -> None:
        sync()
        sync()

    monkeypatch.setattr(colret.ingest, "make_plan", plan_and_count)
    monkeypatch.setattr(colret.watching, "follow", follow)
    assert run("ingest", "documents", "--watch", "--retry-failed").exit_code == 0
    assert tried == [1, 0]


@pytest.mark.parametrize(
    ("options", "gone", "back"),
    [
        ([], ["added 0", "2 unchanged", "1 vanished"], ["added 0", "3 unchanged"]),
        (["--prune"], ["added 0", "2 unchanged", "1 dropped", "1 vanished"], ["added 1", "2 unchanged"]),
    ],
)
def test_a_sync_that_did_nothing_prints_nothing(
    ingested: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], gone: list[str], back: list[str]
) -> None:
    def follow(folders: Any, sync: Callable[[], bool], *, ignore: Path) -> None:
        sync()
        (ingested / "heron.pdf").rename("heron.pdf")
        sync()
        sync()
        Path("heron.pdf").rename(ingested / "heron.pdf")
        sync()
        sync()

    monkeypatch.setattr(colret.watching, "follow", follow)
    lines = run("ingest", "documents", "--watch", *options).stdout.splitlines()[2:]  # of the first sync are two
    assert len(lines) == 2
    for line, parts in zip(lines, (gone, back), strict=True):
        assert [part for part in parts if part not in line] == []


def test_folders_are_followed_until_ctrl_c(ingested: Path) -> None:
    process = spawn("ingest", "documents", "--watch", "--prune")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("added 0 documents (0 pages, 0 blank), 3 unchanged")
    assert process.stdout.readline().startswith(".colret: 3 documents, 3 pages")
    (ingested / "heron.pdf").unlink()
    assert re.match(r"\d\d:\d\d:\d\d added 0 documents .*, 2 unchanged, 1 dropped, ", process.stdout.readline())
    write_pdf(ingested / "orbit.pdf", TOPICS["orbit"])  # the first model that this process loads
    (ingested / "torn.pdf").write_text("no PDF")
    line = process.stdout.readline()
    assert re.match(r"\d\d:\d\d:\d\d added 1 document \(1 page, 0 blank\), 2 unchanged, 1 skipped", line)
    assert process.stdout.readline().startswith("skipped documents/torn.pdf: not_a_pdf: ")
    write_pdf(ingested / "violin.pdf", TOPICS["violin"])
    assert re.match(r"\d\d:\d\d:\d\d added 1 document .*, 3 unchanged, 1 skipped", process.stdout.readline())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, ""), err
    assert "Traceback" not in err
    assert json.loads(run("info", "--json").stdout)["n_pages"] == 4
