"""What ``colret query`` can do besides ranking: images, examples, filters, viewers, terminals."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

import colret.encoders
from colret.encoders.text import TextEncoder
from colret_cli.main import cli
from tests.conftest import TOPICS, write_pdf
from tests.processes import environment
from tests.terminals import on_a_terminal

OLD = 1_600_000_000  # seconds, in September 2020


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> Path:
    """A working folder with an index of 24 pages in five documents, of which revenue.pdf is old."""
    folder = tmp_path_factory.mktemp("made")
    documents = folder / "documents"
    documents.mkdir()
    for name in ("revenue", "sourdough", "orbit"):
        write_pdf(documents / f"{name}.pdf", TOPICS[name])
    write_pdf(documents / "heron.pdf", TOPICS["heron"], "Herons eat fish, and stand in shallow water")
    write_pdf(documents / "staff.pdf", *[f"Member {i} of the staff works in room {i}" for i in range(19)])
    os.utime(documents / "revenue.pdf", (OLD, OLD))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
        assert run("ingest", "documents").exit_code == 0
    return folder


@pytest.fixture
def here(made: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder) -> Path:
    monkeypatch.chdir(made)
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def answered(*arguments: str) -> dict[str, Any]:
    result = run("query", "--json", *arguments)
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def pages(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return [(Path(hit["file"]).stem, hit["page"]) for hit in answer["hits"]]


# Evidence


def test_json_tells_regions_tokens_and_highlights(here: Path) -> None:
    hit = answered("fish in shallow water", "-k", "1")["hits"][0]
    left, top, right, bottom = hit["regions"][0]["box"]
    assert (36 < left < right < 612, 70 < top < bottom < 110) == (True, True)
    assert [each["token"] for each in hit["tokens"]] == ["fish", "in", "shallow", "water"]
    assert "fish" in " ".join(hit["snippet"][start:end] for start, end in hit["highlights"])
    assert (hit["width"], hit["height"], hit["coarse"]) == (612, 792, None)
    assert "regions" not in answered("fish", "--lane", "text")["hits"][0]  # which would need the model


def test_images_of_hits_are_written_with_heat(here: Path, tmp_path: Path) -> None:
    answer = answered("grey heron", "-k", "2", "--images", str(tmp_path / "a" / "b"))
    names = [Path(hit["image"]).name for hit in answer["hits"]]
    assert names == ["01-heron-1.png", "02-heron-2.png"]
    warmth = {}
    for token in ("1", "2"):  # "grey" stands left of "heron"
        arguments = ("grey heron", "-k", "1", "--images", str(tmp_path / token), "--token", token)
        with Image.open(answered(*arguments)["hits"][0]["image"]) as image:
            pixels = np.asarray(image.convert("RGB"), np.int64)
        warmth[token] = (pixels[..., 0] - pixels[..., 2] > 60).nonzero()[1].mean()
    assert warmth["1"] < warmth["2"]
    result = run("query", "bread", "-k", "1", "--lane", "text", "--images", str(tmp_path / "text"))
    assert (result.exit_code, os.listdir(tmp_path / "text")) == (0, ["01-sourdough-1.png"])


def test_images_of_many_queries_do_not_mix(here: Path, tmp_path: Path) -> None:
    (tmp_path / "asked.txt").write_text("bread\nsatellite\n")
    arguments = ["--queries", str(tmp_path / "asked.txt"), "-k", "1", "--images", str(tmp_path / "images")]
    assert run("query", *arguments).exit_code == 0
    assert sorted(os.listdir(tmp_path / "images")) == ["0001-01-sourdough-1.png", "0002-01-orbit-1.png"]


def test_a_page_whose_file_is_gone_costs_only_its_image(here: Path, tmp_path: Path) -> None:
    away = tmp_path / "heron.pdf"
    shutil.move("documents/heron.pdf", away)
    try:
        result = run("query", "grey heron", "-k", "3", "--images", str(tmp_path / "images"), "--json")
    finally:
        shutil.move(away, "documents/heron.pdf")
    assert result.exit_code == 1
    hits = json.loads(result.stdout)["hits"]
    assert [Path(hit["file"]).stem for hit in hits][:2] == ["heron", "heron"]
    assert [hit["image"] is None for hit in hits] == [True, True, False]
    assert [Path(hit["image"]).exists() for hit in hits[2:]] == [True]
    assert re.findall("no image of hit ([0-9]): .*/heron.pdf: no such file", result.stderr) == ["1", "2"]


def test_answers_to_many_questions_come_while_others_are_looked_for(here: Path, tmp_path: Path) -> None:
    """So memory does not grow with their number, and whoever reads only some waits for these alone."""
    (tmp_path / "asked.txt").write_text("bread\n" * 70 + "\u200b\n", encoding="utf-8")
    result = run("query", "--queries", str(tmp_path / "asked.txt"), "-k", "1", "--json", "--lane", "visual")
    assert (result.exit_code, len(result.stdout.splitlines())) == (2, 64)
    assert "has no tokens" in result.stderr


def test_a_query_is_not_a_book(here: Path) -> None:
    for lane in ("text", "both"):
        result = run("query", "word " * 2001, "--lane", lane)
        assert (result.exit_code, "at most 10,000 characters, not 10,004" in result.stderr) == (2, True)


# Queries by example, filters


def test_pages_like_a_page_or_a_file_are_found(here: Path, tmp_path: Path) -> None:
    assert pages(answered("--like", "documents/heron.pdf#1", "-k", "1")) == [("heron", 2)]
    other = write_pdf(tmp_path / "other.pdf", TOPICS["violin"], "Bread and salt and sourdough")
    for name, best in ((f"{other}#2", "sourdough"), ("documents/orbit.pdf", "orbit")):
        answer = answered("--image", name, "-k", "2", "--per-document")
        assert (pages(answer)[0][0], answer["verdict"], answer["query"]) == (best, None, f"like {name}")
    result = run("query", "--like", "documents/heron.pdf#1", "-k", "1")
    assert re.match(
        r"like documents/heron.pdf#1  \[23 pages, .*\n  1\. documents/heron.pdf  page 2  0\.\d{3}\n", result.output
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--pages", "3-4"], {("staff", 3), ("staff", 4)}),
        (["--pages", "18-"], {("staff", 18), ("staff", 19)}),
        (["--pages", "2", "--doc", "h*"], {("heron", 2)}),
        (["--pages", "-1", "--where", "n_pages > 1"], {("heron", 1), ("staff", 1)}),
        (["--before", "2020-12-31"], {("revenue", 1)}),
        (["--after", "2020-12-31T10:00:00", "--where", "n_pages = 1 -- or not"], {("sourdough", 1), ("orbit", 1)}),
        (
            ["--per-document"],
            {("staff", 7), ("heron", 1), ("heron", 2), ("orbit", 1), ("revenue", 1), ("sourdough", 1)},
        ),
    ],
)
def test_filters_narrow_what_can_be_found(here: Path, arguments: list[str], expected: set[tuple[str, int]]) -> None:
    found = pages(answered("member 6 works in room 6", "-k", "9", *arguments))
    assert set(found) <= expected
    assert len(found) == (5 if "--per-document" in arguments else len(expected))


# Whether any page answers


def test_what_no_page_answers_is_told(here: Path) -> None:
    asked = "quarterly orthodontic appendectomy"
    result = run("query", asked, "-k", "2")
    assert result.exit_code == 0
    assert result.stdout.count("(below the floor)") == 2
    assert "\n     no page answers this (none stands out from the others; colret calibrate says " in result.stdout
    assert run("query", asked, "--fail-if-unsure").exit_code == 4
    answer = answered(asked)
    assert (answer["verdict"]["basis"], answer["verdict"]["unanswered"]) == ("background", True)
    assert all(hit["below_floor"] for hit in answer["hits"])
    sure = run("query", TOPICS["orbit"], "--fail-if-unsure", "-k", "1")
    assert (sure.exit_code, "no page" in sure.output) == (0, False)


def test_a_calibrated_index_gives_odds(here: Path, tmp_path: Path) -> None:
    shutil.copytree(here / ".colret", tmp_path / "index")
    (tmp_path / "asked.txt").write_text(
        "\n".join(f"who works in room {i}" for i in range(19)) + "\nstable orbit\nbread"
    )
    (tmp_path / "no.txt").write_text("\n".join(f"chapter {i} of the annual gearbox manual" for i in range(21)))
    files = ("--queries", str(tmp_path / "asked.txt"), "--no-answer", str(tmp_path / "no.txt"))
    assert run("calibrate", "--index", str(tmp_path / "index"), *files).exit_code == 0
    asked = ("quarterly orthodontic appendectomy", "--index", str(tmp_path / "index"), "--fail-if-unsure")
    result = run("query", *asked)
    assert result.exit_code == 4
    assert re.search(r"\n     no page answers this \(odds 1 : \S+ that one does\)\n", result.stdout)
    told = json.loads(run("query", "--json", *asked).stdout)["verdict"]
    assert (told["basis"], told["caveat"], 0 <= told["probability"] < 0.5) == ("calibrated", None, True)


# Viewers: a program on PATH that writes down what it is started with


def viewer(folder: Path, name: str, code: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > "{folder}/{name}.tmp"\nmv "$0.tmp" "$0.started"\nexit {code}\n'
    )
    program.chmod(0o755)
    return folder / f"{name}.started"


def told(file: Path) -> list[str]:
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return file.read_text().splitlines()


@pytest.mark.parametrize(
    ("program", "before", "after"),
    [
        ("evince", ["--page-index=2"], []),
        ("okular", ["--page", "2"], []),
        ("zathura", ["--page=2"], []),
        ("mupdf", [], ["2"]),
    ],
)
def test_a_viewer_opens_the_hit_at_its_page(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, before: list[str], after: list[str]
) -> None:
    started = viewer(tmp_path / "bin", program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    arguments = ["query", "herons eat fish", "--doc", "heron.pdf", "-k", "2", "--open"]
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert told(started) == [*before, str(here / "documents" / "heron.pdf"), *after]


def test_where_a_page_cannot_be_told_it_is_said(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = viewer(tmp_path / "bin", "xdg-open")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    monkeypatch.setattr("colret_cli.viewers._VIEWERS", {})  # whatever is installed here
    result = run("query", "herons eat fish", "--doc", "heron.pdf", "-k", "2", "--open", "1")
    assert (result.exit_code, result.stderr) == (0, "colret: heron.pdf is opened at its beginning: go to page 2\n")
    assert told(started) == [str(here / "documents" / "heron.pdf")]
    viewer(tmp_path / "bin", "xdg-open", code=3)
    failed = run("query", "bread", "--open")
    assert failed.exit_code == 1
    assert failed.stderr == "colret: sourdough.pdf: nothing here opens it; open it yourself, at page 1\n"


# What is asked wrongly


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--like", "x.pdf#1"], "give one TEXT, or --queries FILE, --like FILE#PAGE or --image FILE"),
        (["--json"], "give one TEXT, or --queries FILE"),
        (["--like", "heron.pdf#1", "--lane", "both"], "leave --lane, --prefilter and the like out"),
        (["--image", "x.png", "--exact"], "leave --lane, --prefilter and the like out"),
        (["--image", "x.png", "--fail-if-unsure"], "are for words"),
        (["a", "--token", "2"], "--token needs --images"),
        (["a", "--images", "new", "--token", "9"], "there are 1 tokens"),
        (["a", "--open", "0"], "'--open'"),
        (["a", "-k", "1", "--open", "2"], "--open 2: there are 1 hits"),
        (["--open", "a"], "'--open'"),
        (["a", "--pages", "0-3"], "'0-3' holds no page"),
        (["a", "--pages", "9-3"], "'9-3' holds no page"),
        (["a", "--pages", "x"], "'x' is no range of pages, such as 3-10, 7 or 12-"),
        (["a", "--pages", "-"], "'-' is no range of pages"),
        (["a", "--after", "yesterday"], "'--after'"),
    ],
)
def test_wrong_options_are_usage_errors(here: Path, arguments: list[str], message: str) -> None:
    result = run("query", *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--like", "nothing.pdf#1"], "nothing.pdf: names no document of the index; see: colret list"),
        (["--like", "heron.pdf#9"], "does not hold page "),
        (["--like", "[hr]*.pdf"], "[hr]*.pdf: names 2 documents; give the whole path of one, or its id"),
        (["--image", "nothing.png"], "nothing.png: no such file"),
        (["--image", "documents/heron.pdf#9"], "there are 2 pages"),
        (["a", "--pages", "99"], "colret: --pages 99: no page satisfies it; see: colret list"),
        (
            ["--like", "heron.pdf#1", "--pages", "98-99"],
            "colret: --pages 98-99: no page satisfies it; see: colret list",
        ),
        (
            ["a", "--after", "2001-01-01", "--before", "2001-01-01T12:30:00", "--doc", "h*"],
            "colret: --doc 'h*' --after 2001-01-01 --before 2001-01-01T12:30:00: no page satisfies it; ",
        ),
        (
            ["a", "--pages", "99-", "--where", "n_pages > 1"],
            "colret: --where 'n_pages > 1' --pages 99-: no page satisfies it; ",
        ),
        (["a", "--where", "page > 99"], "colret: page > 99: no page satisfies it; "),
        (["a", "--pages", "1", "--doc", "x"], "colret: x: names no document of the index; "),
        (["a", "--images", "documents/heron.pdf"], "documents/heron.pdf"),
        (
            ["a", "--images", "documents/heron.pdf/x"],
            "colret: documents/heron.pdf/x: cannot be made (Not a directory); ",
        ),
    ],
)
def test_what_is_not_there_is_one_line(here: Path, arguments: list[str], message: str) -> None:
    result = run("query", *arguments)
    assert result.exit_code in (1, 2), result.output
    assert message in result.stderr.splitlines()[-1]


# On a terminal


def test_a_terminal_sees_bold_words_and_links(here: Path) -> None:
    seen = on_a_terminal(["query", "fish in shallow water", "-k", "1"], columns=60)
    assert re.search(r"\x1b\[1m[^\x1b]*shallow water", seen)
    assert "\x1b]8;id=" in seen
    assert f";file://{here}/documents/heron.pdf#page=" in seen
    plain = re.sub(r"\x1b\][^\x1b]*\x1b\\|\x1b\[[0-9;]*m", "", seen)
    assert max(map(len, plain.splitlines())) <= 60
    assert "documents/heron.pdf  page" in plain
    untold = on_a_terminal(["query", "fish in shallow water", "-k", "1"], columns=0)
    assert max(map(len, re.sub(r"\x1b\][^\x1b]*\x1b\\|\x1b\[[0-9;]*m", "", untold).splitlines())) > 60


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_wants_no_colours_gets_none(here: Path, name: str, value: str) -> None:
    seen = on_a_terminal(["query", "bread", "-k", "1"], 80, **{name: value})
    assert "\x1b" not in seen
    assert "  1. documents/sourdough.pdf  page 1  " in seen
    shown = ["show", "documents/heron.pdf#1", "--query", "heron", "--image-out", "heron.png"]
    assert "\x1b" not in on_a_terminal(shown, 80, **{name: value})
    assert "\x1b[1mheron" in on_a_terminal(shown, 80)


def test_output_that_is_closed_is_nothing_to_trip_over(here: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "colret_cli", "query", "heron", "--lane", "text"]
    done = subprocess.run(closed, env=environment(), stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
