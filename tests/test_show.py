"""``colret show`` run as a user would, and images as terminals read them."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import colret.encoders
from colret.encoders.text import TextEncoder
from colret.ingest import ingest
from colret.settings import settings_for
from colret.snippets import Snippet
from colret.store import PageStore
from colret_cli.evidence import shortened, snippet_lines, wrapped
from colret_cli.main import cli
from colret_cli.terminal_images import escape_sequence, protocol_of, sixel
from tests.conftest import TOPICS, write_pdf


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> Path:
    """A working folder with two documents in its default index, one of them with a blank page."""
    root = tmp_path_factory.mktemp("show")
    (root / "documents").mkdir()
    write_pdf(root / "documents" / "revenue.pdf", TOPICS["revenue"])
    write_pdf(root / "documents" / "heron.pdf", TOPICS["heron"], "", TOPICS["orbit"])
    write_pdf(root / "other.pdf", TOPICS["violin"])
    ingest([root / "documents"], PageStore.create(root / ".colret", settings_for(embedded.info)), embedded)
    return root


@pytest.fixture
def here(made: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder) -> Path:
    """That folder as the working folder, which also takes temporary files; return its documents."""
    _work_in(made, monkeypatch, embedded)
    return made / "documents"


def _work_in(folder: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def shown(*arguments: str) -> dict[str, Any]:
    result = run("show", "--json", *arguments)
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def picture(path: str | Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), np.int64)


def test_show_tells_why_a_page_matches(here: Path) -> None:
    result = run("show", "documents/heron.pdf#1", "--query", "fish in shallow water")
    assert result.exit_code == 0, result.output
    first, snippet, region, *tokens, image = result.stdout.splitlines()
    assert first == "documents/heron.pdf  page 1"
    assert snippet.strip() == TOPICS["heron"]
    assert re.fullmatch(r"  1\. \d+% of the query at 40, \d+, \d+, \d+ pt: The grey heron waits .*", region)
    assert re.search(r"tokens: 1 fish 0\.\d\d, 2 in 0\.\d\d, 3 shallow", " ".join(tokens))
    reds = picture(image)
    assert (reds[..., 0] - reds[..., 2]).max() > 100


def test_json_gives_boxes_in_points_and_words_highlighted(here: Path) -> None:
    page = shown("documents/heron.pdf#1", "--query", "fish in shallow water")
    assert (page["page"], page["width"], page["height"]) == (1, 612, 792)
    assert page["file"] == str(here / "heron.pdf")
    [top, *_] = page["regions"]
    left, upper, right, lower = top["box"]
    assert (40 - 2 <= left <= 40 + 2, 792 - 700 - 14 <= upper <= lower <= 792 - 700 + 5, right < 572) == (True,) * 3
    assert top["text"] == TOPICS["heron"]
    marked = [page["snippet"][start:end] for start, end in page["highlights"]]
    assert "shallow water" in " ".join(marked)
    assert "grey" not in " ".join(marked)
    token = next(each for each in page["tokens"] if each["token"] == "heron" or each["token"] == "fish")
    assert left < token["box"][0] < right
    assert (page["coarse"], page["image"]) == (None, None)


def test_one_token_alone_can_be_hot(here: Path) -> None:
    arguments = ("documents/heron.pdf#1", "--query", "heron water", "--image-out")
    numbers = {each["token"]: i for i, each in enumerate(shown(*arguments[:3])["tokens"], start=1)}
    hottest = {}
    for token in ("water", "heron"):
        assert shown(*arguments, f"{token}.png", "--token", str(numbers[token]))["image"] == f"{token}.png"
        pixels = picture(f"{token}.png")
        hottest[token] = (pixels[..., 0] - pixels[..., 2] > 60).nonzero()[1].mean() / pixels.shape[1]
    assert hottest["heron"] < 0.3 < hottest["water"]


def test_without_a_query_the_page_is_shown_as_it_is(here: Path) -> None:
    result = run("show", "documents/heron.pdf#3", "--image-out", "orbit.png", "--size", "300")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["documents/heron.pdf  page 3", f"     {TOPICS['orbit']}", "orbit.png"]
    pixels = picture("orbit.png")
    assert max(pixels.shape) == 300
    assert (pixels[..., 0] == pixels[..., 2]).all()


def test_a_page_or_a_file_outside_the_index_is_shown_without_heat(here: Path) -> None:
    for target, words in (("documents/heron.pdf#2", ""), ("other.pdf#1", TOPICS["violin"])):
        result = run("show", target, "--query", "violin", "--json", "--image-out", "page.png")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["text"] == words
        assert "not in the index, so shown without heat" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert (np.ptp(picture("page.png"), axis=2) == 0).all()
    assert shown("other.pdf#1", "--index", "no-index")["text"] == TOPICS["violin"]


def test_a_document_can_be_named_by_its_id(here: Path) -> None:
    page = shown("documents/heron.pdf#1", "--query", "fish")
    doc_id = page["page_id"].split(":")[0]
    assert shown(f"{doc_id[:8]}#1", "--query", "fish") == page


def test_files_gone_or_changed_are_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: TextEncoder
) -> None:
    _work_in(tmp_path, monkeypatch, embedded)
    heron, asked = write_pdf(tmp_path / "heron.pdf", TOPICS["heron"]), ("heron.pdf#1", "--query", "fish in water")
    ingest([heron], PageStore.create(tmp_path / ".colret", settings_for(embedded.info)), embedded)
    write_pdf(heron, TOPICS["violin"])
    changed = run("show", *asked)
    assert changed.exit_code == 1
    assert changed.stderr == f"colret: {heron}: has changed since it was ingested; ingest it again\n"
    heron.unlink()
    gone = run("show", *asked)
    assert (gone.exit_code, gone.stderr) == (1, f"colret: {heron}: no such file; check the path\n")
    assert shown(*asked)["regions"], "the index alone knows the regions"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing.pdf#1"], 1, "nothing.pdf: names no document of the index; see: colret list"),
        (["documents#1"], 1, "documents: names 2 documents; give the whole path of one, or its id"),
        (["documents/heron.pdf#9"], 1, "heron.pdf page 9: there are 3 pages; give one of them"),
        (["documents/heron.pdf"], 2, "is not FILE#PAGE, such as report.pdf#12"),
        (["documents/heron.pdf#0"], 2, "is not FILE#PAGE, such as report.pdf#12"),
        (["documents/heron.pdf#1", "--token", "1"], 2, "--token needs --query"),
        (["documents/heron.pdf#1", "--query", "fish", "--token", "2"], 2, "--token 2: the query has 1 token"),
        (["documents/heron.pdf#1", "--query", " "], 2, "the query is empty"),
        (["documents/heron.pdf#1", "--image-out", "page.jpg"], 2, "name a .png file, not page.jpg"),
        (["documents/heron.pdf#1", "--image-out", "no/page.png"], 1, "no/page.png: cannot be written"),
        (["documents/heron.pdf#1", "--size", "9000"], 2, "9000 is not in the range"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(here: Path, arguments: list[str], code: int, message: str) -> None:
    result = run("show", *arguments)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_matched_words_are_bold_and_nothing_else_reaches_the_terminal() -> None:
    snippet = Snippet("one \x1b[2J two three", ((4, 8), (9, 12)))
    assert snippet_lines(snippet) == ["     one \x1b[1m\\x1b[2J\x1b[22m \x1b[1mtwo\x1b[22m three"]


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "xterm-sixel"}, "sixel"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1", "TMUX": "/run/tmux"}, None),
        ({"TERM": "screen", "TERM_PROGRAM": "iTerm.app"}, None),
        ({}, None),
    ],
)
def test_terminals_are_known_by_their_environment(environment: dict[str, str], protocol: str | None) -> None:
    assert protocol_of(environment) == protocol


def noise(width: int, height: int, n_colors: int = 200) -> Image.Image:
    rng = np.random.default_rng(width * height)
    palette = rng.integers(0, 256, (n_colors, 3), np.uint8)
    return Image.fromarray(palette[rng.integers(0, n_colors, (height, width))])


def test_kitty_gets_a_png_in_chunks() -> None:
    image = noise(90, 70)
    parts = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", escape_sequence(image, "kitty"))
    keys = [dict(pair.split("=") for pair in part[0].split(",")) for part in parts]
    assert keys[0] == {"a": "T", "f": "100", "q": "2", "m": "1"}
    assert [key["m"] for key in keys] == ["1"] * (len(parts) - 1) + ["0"]
    assert all(len(data) <= 4096 and len(data) % 4 == 0 for _, data in parts)
    assert len(parts) > 2
    png = base64.b64decode("".join(data for _, data in parts))
    assert (picture(io.BytesIO(png)) == np.asarray(image)).all()  # type: ignore[arg-type]


def test_iterm_gets_a_png_with_its_size() -> None:
    image = noise(30, 20)
    found = re.fullmatch(r"\x1b]1337;File=inline=1;size=(\d+):(.*)\x07", escape_sequence(image, "iterm"))
    assert found
    png = base64.b64decode(found[2])
    assert len(png) == int(found[1])
    assert (picture(io.BytesIO(png)) == np.asarray(image)).all()  # type: ignore[arg-type]


@given(width=st.integers(1, 40), height=st.integers(1, 20))
def test_sixels_paint_every_pixel(width: int, height: int) -> None:
    image = noise(width, height, 12)
    painted = read_sixels(sixel(image))
    reduced = np.asarray(image.quantize(256, Image.Quantize.MEDIANCUT).convert("RGB"), np.float64)
    assert painted.shape == reduced.shape
    assert np.abs(painted - reduced).max() <= 255 / 200 + 1e-6  # percents


def read_sixels(text: str) -> np.ndarray:
    """Paint sixels as a VT340 would; what is not painted is -1000."""
    head = re.match(r'\x1bP9;1q"1;1;(\d+);(\d+)', text)
    assert head
    assert text.endswith("\x1b\\")
    image = np.full((int(head[2]), int(head[1]), 3), -1000.0)
    palette: dict[int, list[float]] = {}
    x = y = color = 0
    for part in re.findall(r"#\d+(?:;2;\d+;\d+;\d+)?|!\d+.|[?-~]|[$-]", text[head.end() : -2]):
        if part[0] == "#":
            color, *rgb = map(int, part[1:].replace(";2;", ";", 1).split(";"))
            if rgb:
                palette[color] = [value * 2.55 for value in rgb]
        elif part in "$-":
            x, y = 0, y + 6 * (part == "-")
        else:
            n, bits = (int(part[1:-1]) if part[0] == "!" else 1), ord(part[-1]) - 63
            for row in range(6):
                if bits >> row & 1:
                    image[y + row, x : x + n] = palette[color]
            x += n
    return image


def test_lines_of_wide_characters_are_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "25")
    lines = wrapped("人人生而自由在尊严和权利上一律平等。")
    assert lines == ["     人人生而自由在尊严和", "     权利上一律平等。"]  # 10 wide characters a line


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("one two three four five six", "one two three four …"),
        ("人" * 30, "人" * 18 + " …"),
        ("PDF " + "人" * 30, "PDF " + "人" * 14 + " …"),
        ("short", "short"),
    ],
)
def test_long_text_is_cut_where_its_script_allows(text: str, kept: str) -> None:
    assert shortened(text, 20) == kept
