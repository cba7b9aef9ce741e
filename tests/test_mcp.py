"""``colret mcp`` as assistants meet it: a real client over a real process, and what no client would send."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import PIL.Image
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from click.testing import CliRunner
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, ImageContent, TextContent

import colret.assistant.tools
import colret_cli.main
from colret.assistant.arguments import MAX_HITS, MAX_LISTED, ReadPageArguments
from colret.assistant.catalogue import TOOLS
from colret.assistant.tools import MAX_IMAGE_BYTES, IndexTools, bounded_png
from colret.encoders.text import TextEncoder
from colret.ingest import ingest
from colret.store import PageStore
from tests.conftest import TOPICS, write_pdf
from tests.processes import ROOT, cli, environment

EXAMPLES = ROOT / "examples"
PERKS = str(EXAMPLES / "PerksPlus.pdf")

Call = Callable[..., CallToolResult]


@pytest.fixture(scope="module")
def index(example_index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of an index of four documents, which this module may write to."""
    return Path(shutil.copytree(example_index, tmp_path_factory.mktemp("mcp") / "index"))


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    """Where the client, which is asynchronous, runs."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def client(portal: BlockingPortal, index: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a server whose stderr goes to a file."""
    command, *arguments = cli("mcp", "--index", str(index))
    parameters = StdioServerParameters(command=command, args=arguments, env=environment())
    with (
        open(tmp_path_factory.mktemp("stderr") / "log", "w+", encoding="utf-8") as log,
        portal.wrap_async_context_manager(Client(stdio_client(parameters, errlog=log))) as client,
    ):
        yield client
        log.seek(0)
        assert log.read() == ""  # nothing went wrong unseen


@pytest.fixture(scope="module")
def call(portal: BlockingPortal, client: Client) -> Call:
    """Calls a tool; the client checks what comes back against the tool's schema."""

    def call_tool(name: str, **arguments: Any) -> CallToolResult:
        result: CallToolResult = portal.call(client.call_tool, name, arguments)
        return result

    return call_tool


def text(result: CallToolResult) -> str:
    first = result.content[0]
    assert isinstance(first, TextContent)
    return first.text


def answer(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text(result)
    found: dict[str, Any] = result.structured_content
    return found


def test_the_tools_are_listed_as_reading_only(portal: BlockingPortal, client: Client) -> None:
    tools = portal.call(client.list_tools).tools
    assert [tool.name for tool in tools] == ["search", "read_page", "list_documents", "index_info"]
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
        assert tool.output_schema is not None
        assert tool.input_schema["additionalProperties"] is False
        described = [each.get("description") for each in tool.input_schema["properties"].values()]
        assert all(described)


def test_a_search_finds_the_page_and_says_where_on_it(call: Call) -> None:
    result = call("search", text="How much can I spend on fitness?", k=3)
    found = answer(result)
    best = found["hits"][0]
    assert (best["file"], best["page"], best["rank"]) == (PERKS, 3, 1)
    assert found["answered"] is True
    assert (found["n_pages"], found["lane"], len(found["hits"])) == (29, "both", 3)
    assert best["regions"][0]["text"]
    left, top, right, bottom = best["regions"][0]["box"]
    assert 0 < left < right < 700
    assert 0 < top < bottom < 900
    assert text(result).splitlines()[1].startswith(f"1. {PERKS} page 3, score ")


def test_a_search_is_narrowed_by_document_condition_and_lane(call: Call) -> None:
    only = answer(call("search", text="plan", docs=["quill.pdf"], k=MAX_HITS))
    assert {Path(hit["file"]).name for hit in only["hits"]} == {"quill.pdf"}
    first = answer(call("search", text="plan", where="page = 1", k=MAX_HITS))
    assert {hit["page"] for hit in first["hits"]} == {1}
    each = answer(call("search", text="plan", per_document=True, k=MAX_HITS))
    assert len({hit["file"] for hit in each["hits"]}) == len(each["hits"])
    words = answer(call("search", text="deductible", lane="text"))
    assert words["lane"] == "text"
    assert all("deductible" in hit["snippet"].lower() for hit in words["hits"])
    nothing = call("search", text='"zebra xylophone"')
    assert answer(nothing)["answered"] is False
    assert "no page has these words" in text(nothing)


def test_a_page_is_read_as_text_and_as_an_image(call: Call) -> None:
    result = call("read_page", file="PerksPlus.pdf", page=3, image=True, size=400)
    found = answer(result)
    assert "fitness" in found["text"].lower()
    assert (found["file"], found["next_offset"]) == (PERKS, None)
    assert found["n_characters"] == len(found["text"])
    image = result.content[1]
    assert isinstance(image, ImageContent)
    assert image.mime_type == "image/png"
    png = PIL.Image.open(io.BytesIO(base64.b64decode(image.data)))
    assert max(png.size) == 400
    rest = answer(call("read_page", file="PerksPlus.pdf", page=3, offset=100))
    assert rest["text"] == found["text"][100:]
    assert len(call("read_page", file="PerksPlus.pdf", page=3).content) == 1


def test_documents_are_listed_page_by_page(call: Call) -> None:
    names, offset = [], 0
    while True:
        found = answer(call("list_documents", limit=3, offset=offset))
        names += [Path(each["file"]).name for each in found["documents"]]
        assert found["n_documents"] == 4
        if found["next_offset"] is None:
            break
        offset = found["next_offset"]
    assert names == ["Benefit_Options.pdf", "PerksPlus.pdf", "employee_handbook.pdf", "quill.pdf"]
    assert answer(call("list_documents", offset=9))["documents"] == []


def test_documents_are_listed_by_part_of_their_path_in_any_case(call: Call) -> None:
    for part in ("Perks", "pERKS"):
        [found] = answer(call("list_documents", contains=part))["documents"]
        assert found["file"] == PERKS
    nothing = call("list_documents", contains="zebra")
    assert (answer(nothing)["n_documents"], answer(nothing)["n_indexed"]) == (0, 4)
    assert text(nothing) == "none of 4 documents"


def test_the_index_is_described(call: Call) -> None:
    result = call("index_info")
    found = answer(result)
    assert (found["n_documents"], found["n_pages"], found["model"]) == (4, 29, "embedded")
    assert found["calibrated"] is False
    assert text(result).startswith("29 pages of 4 documents, embedded")


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("search", {}, "text: Field required"),
    ("search", {"text": ""}, "text: String should have at least 1 character"),
    ("search", {"text": " \t\n"}, "the query has no tokens"),
    ("search", {"text": "x" * 2001}, "text: String should have at most 2000 characters"),
    ("search", {"text": ["a"]}, "text: Input should be a valid string"),
    ("search", {"text": "a", "k": 0}, "k: Input should be greater than or equal to 1"),
    ("search", {"text": "a", "k": 10**30}, "k: "),
    ("search", {"text": "a", "k": 1.5}, "k: Input should be a valid integer"),
    ("search", {"text": "a", "lane": "fast"}, "lane: Input should be 'visual', 'text' or 'both'"),
    ("search", {"text": "a", "kk": 1}, "kk: Extra inputs are not permitted"),
    ("search", {"text": "a", "docs": ["a"] * 101}, "docs: List should have at most 100 items"),
    ("search", {"text": "a", "docs": ["../../etc/passwd"]}, "names no document"),
    ("search", {"text": "a", "docs": ["\0"]}, "names no document"),
    ("search", {"text": "a", "where": "1 = 1; DROP TABLE pages"}, "not a condition on pages"),
    ("search", {"text": "a", "where": "page IN (SELECT 1)"}, "not a condition on pages"),
    ("search", {"text": "a", "where": "(" * 1000}, "not a condition on pages"),
    ("search", {"text": "a", "where": "x" * 1001}, "where: String should have at most 1000 characters"),
    ("search", {"text": "a", "where": "page > 9999"}, "no page satisfies it"),
    ("read_page", {"file": "/etc/passwd"}, "names no document"),
    ("read_page", {"file": f"{EXAMPLES}/../examples/NIST.IR.8545.pdf"}, "names no document"),  # there, but not indexed
    ("read_page", {"file": "file:///etc/passwd"}, "documents are not read from there"),
    ("read_page", {"file": "*.pdf"}, "names 4 documents"),
    ("read_page", {"file": "PerksPlus.pdf", "page": 99}, "there is no such page"),
    ("read_page", {"file": "PerksPlus.pdf", "page": -1}, "page: Input should be greater than or equal to 1"),
    ("read_page", {"file": "PerksPlus.pdf", "size": 100_000}, "size: Input should be less than or equal to 1600"),
    ("read_page", {"file": "x" * 5000}, "file: String should have at most 4096 characters"),
    ("list_documents", {"limit": MAX_LISTED + 1}, "limit: Input should be less than or equal to 200"),
    ("list_documents", {"offset": -1}, "offset: Input should be greater than or equal to 0"),
    ("index_info", {"path": "/"}, "path: Extra inputs are not permitted"),
    ("remove", {"file": "PerksPlus.pdf"}, "'remove' is no tool"),
]


@pytest.mark.parametrize(("name", "arguments", "said"), BAD, ids=[f"{name}-{said[:30]}" for name, _, said in BAD])
def test_what_is_wrong_is_told_in_one_short_line(call: Call, name: str, arguments: dict[str, Any], said: str) -> None:
    result = call(name, **arguments)
    assert result.is_error
    assert said in text(result)
    assert len(text(result).splitlines()) == 1
    assert len(text(result)) <= 1000
    assert "Traceback" not in text(result)


def test_several_calls_at_once_are_all_answered(portal: BlockingPortal, client: Client) -> None:
    texts = [f"question number {i}" for i in range(12)]

    async def ask() -> list[CallToolResult]:
        found: dict[str, CallToolResult] = {}

        async def one(text: str) -> None:
            found[text] = await client.call_tool("search", {"text": text, "k": 1})

        async with anyio.create_task_group() as group:
            for each in texts:
                group.start_soon(one, each)
        return [found[each] for each in texts]

    assert [answer(each)["text"] for each in portal.call(ask)] == texts


def test_what_is_ingested_and_removed_meanwhile_is_seen(
    call: Call, index: Path, tmp_path: Path, embedded: TextEncoder
) -> None:
    path = write_pdf(tmp_path / "heron.pdf", TOPICS["heron"])
    store = PageStore.open(index)
    ingest([path], store, embedded)
    found = answer(call("search", text="grey heron fishing", k=1))
    assert (found["hits"][0]["file"], found["n_pages"]) == (str(path), 30)
    assert answer(call("read_page", file="heron.pdf"))["text"] == TOPICS["heron"]
    [doc_id] = [each.doc_id for each in store.documents() if each.files[0].path == str(path)]
    with store.writing():
        store.remove_documents([doc_id])
    assert answer(call("search", text="grey heron fishing", k=1))["n_pages"] == 29
    assert "names no document" in text(call("read_page", file="heron.pdf"))


class Raw:
    """A server that is spoken to in lines."""

    def __init__(self, index: Path) -> None:
        self.process = subprocess.Popen(
            cli("mcp", "--index", str(index)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )

    def send(self, *lines: bytes) -> None:
        """Write lines."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return the next message."""
        self.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
        return self.read()

    def read(self) -> dict[str, Any]:
        """Return the next message."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def initialize(self) -> dict[str, Any]:
        """Shake hands, as clients did before 2026."""
        version = "2025-06-18"
        client = {"name": "raw", "version": "0"}
        told = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=client)
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        return told


@pytest.fixture
def raw(index: Path) -> Iterator[Raw]:
    server = Raw(index)
    yield server
    server.process.kill()
    server.process.communicate()


def test_lines_that_are_no_requests_disturb_nothing_and_it_ends_when_they_do(raw: Raw) -> None:
    told = raw.initialize()["result"]
    assert told["serverInfo"]["name"] == "colret"
    assert told["capabilities"]["tools"] is not None
    raw.send(b"", b"not json", b"\xff\xfe\x00", b"[" * 10_000, b'{"jsonrpc": "2.0"}', b'"' + b"x" * 2_000_000 + b'"')
    raw.send(b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": 3}}')
    raw.send(b'{"jsonrpc": "2.0", "id": 8, "method": "no/such/method"}')
    raw.send(b'{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "index_info"}}')
    told_by = {}
    while 9 not in told_by:
        message = raw.read()  # every line is JSON
        assert message["jsonrpc"] == "2.0"
        told_by[message.get("id")] = message
    assert "error" in told_by[7]
    assert "error" in told_by[8]
    assert told_by[9]["result"]["structuredContent"]["n_documents"] == 4
    called = raw.ask("tools/call", name="search", arguments={"text": "dental plan", "k": 1})["result"]
    assert called["structuredContent"]["hits"][0]["page"] >= 1
    out, error = raw.process.communicate(timeout=30)  # which ends its stdin
    assert (raw.process.returncode, out, error) == (0, b"", b"")


PARSE_ERROR, INVALID_REQUEST = -32700, -32600


@pytest.mark.parametrize(
    ("line", "request_id", "code"),
    [
        (b"not json", None, PARSE_ERROR),
        (b"[" * 10_000, None, PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"text": "\\ud800"}}', 5, PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/list"}', None, PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": [1]}', "a", INVALID_REQUEST),
        (b'{"jsonrpc": "2.0"}', None, INVALID_REQUEST),
        (b'[{"jsonrpc": "2.0", "id": 5, "method": "tools/list"}]', None, INVALID_REQUEST),
        (b"5", None, INVALID_REQUEST),
    ],
)
def test_what_cannot_be_read_as_a_request_is_answered(
    line: bytes, request_id: str | int | None, code: int, raw: Raw
) -> None:
    raw.send(b"", line)  # of which the blank one is not answered
    told = raw.read()
    assert (told["id"], told["error"]["code"]) == (request_id, code)
    assert "\n" not in told["error"]["message"]
    assert raw.initialize()["result"]["serverInfo"]["name"] == "colret"


def test_it_ends_quietly_where_nobody_reads_what_it_says(raw: Raw) -> None:
    assert raw.process.stdout is not None
    raw.process.stdout.close()
    raw.process.stdout = None
    raw.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}')
    _, error = raw.process.communicate(timeout=30)
    assert (raw.process.returncode, error) == (0, b"")


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(raw: Raw, number: signal.Signals) -> None:
    raw.initialize()
    raw.process.send_signal(number)
    started = time.monotonic()
    assert raw.process.wait(10) == 128 + number
    assert time.monotonic() - started < 5
    assert raw.process.stderr is not None
    assert raw.process.stderr.read() == b"colret: told to stop\n"


def test_without_an_index_it_does_not_start(tmp_path: Path) -> None:
    done = CliRunner().invoke(colret_cli.main.cli, ["mcp", "--index", str(tmp_path / "none")])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "no index here" in done.stderr


def test_calls_that_are_cancelled_disturb_nothing(raw: Raw) -> None:
    raw.initialize()
    for i in range(4):
        called = {"name": "search", "arguments": {"text": f"plan {i}", "k": 1}}
        raw.send(json.dumps({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": called}).encode())
    for call_id in (0, 2, "no such call"):
        cancelled = {"requestId": call_id, "reason": "no more"}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
        raw.send(json.dumps(message).encode())
    answered = {raw.read()["id"]}
    while 3 not in answered:
        answered.add(raw.read()["id"])
    assert {1, 3} <= answered <= {0, 1, 3}  # the first may be done already
    assert raw.ask("tools/call", name="index_info")["result"]["structuredContent"]["n_documents"] == 4


def test_without_the_library_it_says_what_to_install(index: Path) -> None:
    program = "import sys; sys.modules['mcp'] = None; from colret_cli.main import cli; cli()"
    done = subprocess.run(
        [sys.executable, "-c", program, "mcp", "--index", str(index)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "colret: colret mcp: mcp.server is missing; pip install 'colret[mcp]'\n"


def test_a_long_page_comes_in_parts_and_a_large_image_smaller(
    index: Path, embedded: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = IndexTools(PageStore.open(index), embedded)
    page = {"file": "PerksPlus.pdf", "page": 2}
    whole = tools.read_page(ReadPageArguments.model_validate(page)).answer.model_dump()["text"]
    monkeypatch.setattr(colret.assistant.tools, "MAX_CHARACTERS", len(whole) // 3)
    parts, offset = [], 0
    while offset is not None:
        asked = ReadPageArguments.model_validate({**page, "offset": offset})
        part = tools.read_page(asked).answer.model_dump()
        parts.append(part["text"])
        offset = part["next_offset"]
    assert "".join(parts) == whole
    assert 3 <= len(parts) <= 4
    assert max(map(len, parts)) == len(whole) // 3
    noise = np.random.default_rng(0).integers(0, 256, (900, 900, 3), np.uint8)
    picture = tmp_path / "noise.png"
    PIL.Image.fromarray(noise).save(picture)
    png = bounded_png(PIL.Image.open(picture))
    assert 0 < len(png) <= MAX_IMAGE_BYTES
    assert PIL.Image.open(io.BytesIO(png)).width < 900


PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"(?ms)^```mcp\n(\w+) ([^\n]+)\n(.*?)\n```$", PAGE)
NUMBERS = re.compile(r"\d+\.\d+|[\d,]+ bytes")  # which differ in their last digits


@pytest.mark.parametrize(("name", "arguments", "shown"), SHOWN, ids=[name for name, _, _ in SHOWN])
def test_the_page_on_it_shows_what_comes_out(call: Call, name: str, arguments: str, shown: str) -> None:
    told = text(call(name, **json.loads(arguments))).replace(str(EXAMPLES), "/home/me/docs")
    assert NUMBERS.sub("#", told) == NUMBERS.sub("#", shown)


def test_the_page_on_it_has_every_tool_and_argument_and_a_configuration() -> None:
    assert [name for name, _, _ in SHOWN] == [tool.name for tool in TOOLS]
    for tool in TOOLS:
        section = PAGE.split(f"### {tool.name}\n")[1].split("\n#")[0]
        assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == list(tool.takes.model_fields)
    [configuration] = re.findall(r"(?ms)^```json\n(.*?)^```$", PAGE)
    [server] = json.loads(configuration)["mcpServers"].values()
    assert (server["command"], server["args"][:2]) == ("colret", ["mcp", "--index"])
