"""What ``colret serve`` refuses: each with one line of JSON, and goes on."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from PIL import Image

import colret
from colret.encoders.text import TextEncoder
from colret.errors import FilterError
from colret.service.access import COOKIE, Access, read_keys
from colret.service.conditions import check_condition
from colret.service.findings import Found, How
from colret.service.library import Library
from colret.service.limits import MOST_CHARACTERS, MOST_HITS, MOST_WITH_EVIDENCE, Limits
from colret.service.pictures import Picture, Pictures
from tests.conftest import TOPICS, write_pdf
from tests.services import API, client, raw, serving

KEY, OTHER_KEY = "correct-horse-battery-staple", "another-key-of-this-index"
LIMITS = Limits(body_bytes=1 << 20, head_seconds=0.5, body_seconds=1.0)
HUGE = 100 << 20


@pytest.fixture(scope="module")
def address(example_index: Path) -> Iterator[str]:
    only_here = Access(hosts=frozenset(["search.example"]))
    with serving(example_index, access=only_here, limits=LIMITS) as address:
        yield address


@pytest.fixture(scope="module")
def service(address: str) -> Iterator[httpx.Client]:
    with client(address) as asking:
        yield asking
        assert asking.get("/readyz").status_code == 200  # whatever it was asked


def refused(response: httpx.Response, status: int) -> str:
    """Return the one line of a refusal."""
    assert response.status_code == status, response.text
    body = response.json()
    assert list(body) == ["error"]
    message: str = body["error"]
    assert "Traceback" not in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/static/..%5capp.py",
        f"{API}/documents/../../../etc/passwd",
        f"{API}/documents/..%2f..%2fetc%2fpasswd",
        f"{API}/documents/..%2f..%2fetc%2fpasswd/pages/1/image",
        f"{API}/documents/{'0' * 32}/pages/1/image",
        f"{API}/documents/{'0' * 32}/pages/../1",
    ],
)
def test_no_path_leads_out_of_the_index(address: str, path: str) -> None:
    answer = raw(address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ", 2)[1] in (b"400", b"404"), answer
    assert b"root:" not in answer
    assert b'{"error":' in answer


def n_bytes() -> int:
    """Return the memory of this process, in which the service runs."""
    return int(psutil.Process().memory_info().rss)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["/search", "/search/image"])
def test_a_body_of_100_mb_is_not_read(address: str, path: str, chunked: bool) -> None:
    before = n_bytes()
    kind = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % HUGE
    head = f"POST {API}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode() + kind
    block = b"\0" * (1 << 20)
    part = b"%x\r\n%s\r\n" % (len(block), block) if chunked else block
    answer = raw(address, head + b"\r\n\r\n", *[part] * 100)
    # Who goes on sending may find the connection cut before the answer is there to be read.
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413 "), answer[:200]
    assert n_bytes() - before < HUGE // 2


def test_a_body_that_is_too_long_is_told(service: httpx.Client) -> None:
    assert "1,048,576 bytes" in refused(
        service.post(f"{API}/search/image", content=b"\0" * (LIMITS.body_bytes + 1)), 413
    )
    blocks = (b"\0" * 4096 for _ in range(LIMITS.body_bytes // 4096 + 1))
    assert "1,048,576 bytes" in refused(service.post(f"{API}/search/image", content=blocks), 413)


@pytest.mark.parametrize(
    "where",
    [
        "1=1; DROP TABLE rows",
        "page = 1) OR (1=1",
        "page = 1 -- ",
        "page = 1 /* */",
        "page IN (SELECT page FROM rows)",
        "doc_id = (SELECT 1)",
        "length(repeat('a', 1000000000)) > 1",
        "length(\"repeat\"('a', 1000000000)) > 1",
        "length(`repeat`('a', 1000000000)) > 1",
        "length(repeat\n('a', 1000000000)) > 1",
        "lpad(file, 2000000000, 'x') = 'x'",
        "file = N'a'",
        "file = X'61'",
        "regexp_like(file, '((a{999}){999}){999}')",
        "file ~ '((a{999}){999}){999}'",
        "file SIMILAR TO 'a'",
        "file = 'it''s' AND sleep(10)",
        "nothing = 1",
        "page = ?",
        "page = $1",
        "page = :1",
        "page",
        "'",
        "(" * 400 + "page = 1" + ")" * 400,
        " OR ".join(["page=1"] * 150),
        "page = 1" * 500,
        "\0",
        "  ",
    ],
)
def test_sql_that_is_no_condition_is_refused(service: httpx.Client, where: str) -> None:
    began = time.monotonic()
    response = service.post(f"{API}/search", json={"text": "fitness", "where": where})
    assert time.monotonic() - began < 10
    if response.status_code != 200:  # many ORs are a condition like any other
        refused(response, 400)
    else:
        assert " OR " in where


@pytest.mark.parametrize(
    "where",
    ["page IN (1, 2)", "NOT (page = 1)", "lower(file) LIKE '%repeat(%'", "file = '--;' OR length(file) > 3", "page=1"],
)
def test_plain_conditions_pass(where: str) -> None:
    check_condition(where)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"k": 10**9}, "k: "),
        ({"k": 0}, "k: "),
        ({"k": "many"}, "k: "),
        ({"k": "1e400"}, "k: "),
        ({"text": ""}, "text: "),
        ({"text": "x" * (MOST_CHARACTERS + 1)}, "text: "),
        ({"text": " \n "}, "the query has no tokens"),
        ({"lane": "fast"}, "lane: "),
        ({"pages": "9-2"}, "holds no page"),
        ({"pages": "²"}, "no range of pages"),
        ({"after": "yesterday"}, "after: "),
        ({"docs": "../../etc/passwd"}, "names no document"),
        ({"docs": "\0"}, "names no document"),
        ({"docs": ["x"] * 99}, "docs: "),
        ({"limit": 5}, "limit: "),
    ],
)
def test_parameters_out_of_range_are_named(service: httpx.Client, params: dict[str, Any], told: str) -> None:
    assert told in refused(service.get(f"{API}/search", params={"text": "fitness", **params}), 400)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"text": 5}', b'{"text": "\\ud800"}', b'{"text": "\xff\xfe"}', b"[" * 100_000,
     b'{"text": "x", "k": ' + b"9" * 5000 + b"}", b'{"text": "x", "k": NaN}', b'{"text": "x", "prefilter": "none"}'],
)  # fmt: skip
def test_json_that_is_none_is_refused(service: httpx.Client, body: bytes) -> None:
    refused(service.post(f"{API}/search", content=body, headers={"Content-Type": "application/json"}), 400)


def test_bytes_that_are_no_utf_8_are_asked_as_they_can_be(address: str, service: httpx.Client) -> None:
    request = f"GET {API}/search?text=%ff%fe%00bread HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert raw(address, request.encode()).startswith(b"HTTP/1.1 200 ")
    assert raw(address, b"\xff\x00\xfe rubbish\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    emoji = service.get(f"{API}/search", params={"text": "🏊 fitness \u202e"})
    assert emoji.json()["query"] == "🏊 fitness \u202e"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"%PDF-1.4\n", 415),
        (b"<svg onload=alert(1)>", 415),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 99, 415),
        (b"\x89PNG\r\n\x1a\n%PDF-1.4", 415),
    ],
)
def test_what_is_no_image_is_not_opened(service: httpx.Client, content: bytes, status: int) -> None:
    refused(service.post(f"{API}/search/image", content=content), status)


def test_an_image_of_too_many_pixels_is_not_decoded(service: httpx.Client) -> None:
    bomb = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(bomb, "PNG")
    assert len(bomb.getvalue()) < LIMITS.body_bytes
    assert "too large" in refused(service.post(f"{API}/search/image", content=bomb.getvalue()), 413)


def test_the_longest_question_keeps_nobody_else_waiting(address: str, service: httpx.Client) -> None:
    text = ("health plan fitness benefits vacation insurance " * 30)[:MOST_CHARACTERS]
    done = threading.Event()
    answers: list[httpx.Response] = []

    def ask() -> None:
        answers.append(service.get(f"{API}/search", params={"text": text, "k": MOST_HITS}))
        done.set()

    thread = threading.Thread(target=ask)
    thread.start()
    longest = 0.0
    with client(address) as other:
        while not done.is_set():
            began = time.monotonic()
            assert other.get("/healthz").status_code == 200
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.02)
    thread.join()
    hits = answers[0].json()["hits"]
    assert [hit["evidence"] is not None for hit in hits] == [rank < MOST_WITH_EVIDENCE for rank in range(len(hits))]
    assert len(hits) > MOST_WITH_EVIDENCE
    assert longest < 0.5  # telling all of it in the thread of the connections took seconds


@pytest.mark.parametrize("doc_id", ["76534212b9ee", "0" * 33, "G" * 32])
def test_what_is_no_id_is_told_how_ids_are(service: httpx.Client, doc_id: str) -> None:
    for path in ("", "/pages/1", "/pages/1/like", "/pages/1/image"):
        told = refused(service.get(f"{API}/documents/{doc_id}{path}"), 400)
        assert told == "doc_id: an id has 32 digits 0-9a-f, as searches and lists give it"


def test_a_head_is_bounded_however_it_arrives(address: str, service: httpx.Client) -> None:
    long = "x" * 20_000
    assert "16,384 bytes" in refused(service.get("/healthz", headers={"X-Long": long}), 431)
    assert "16,384 bytes" in refused(service.get(f"{API}/search", params={"text": long}), 431)
    head = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {long * 5}\r\n\r\n".encode()
    for parts in ([head * 2], [head[i : i + 10_000] for i in range(0, len(head), 10_000)]):
        answer = raw(address, *parts)  # h11's own where it gave up before the head was complete
        # Who goes on sending may find the connection cut before the answer is there to be read.
        assert answer == b"" or answer.split(b" ", 2)[1] in (b"400", b"431"), answer
        assert answer.count(b"HTTP/1.1") <= 1
    many = {f"X-{i}": "x" * 100 for i in range(140)}
    assert service.get("/healthz", headers=many).status_code == 200


def test_images_are_asked_within_limits(service: httpx.Client) -> None:
    hit = service.get(f"{API}/search", params={"text": "fitness", "k": 1}).json()["hits"][0]
    url = f"{API}/documents/{hit['doc_id']}/pages/{hit['page']}/image"
    wrongs: list[dict[str, Any]]
    wrongs = [{"size": 10**6}, {"size": 1}, {"format": "bmp"}, {"overlay": "heat"}, {"token": 0},
              {"text": "gym", "overlay": "heat", "token": 99}]  # fmt: skip
    for wrong in wrongs:
        refused(service.get(url, params=wrong), 400)


def test_methods_are_those_that_read(service: httpx.Client) -> None:
    for path in ("/", f"{API}/search?text=fitness", "/healthz", "/static/app.js"):
        got, head = service.get(path), service.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        refused(service.request(method, f"{API}/documents"), 405)


def test_who_dawdles_is_cut_off(address: str) -> None:
    began = time.monotonic()
    assert raw(address, b"GET /healthz HTTP/1.1\r\nHost: loc") == b""  # the rest never comes
    assert raw(address, b"") == b""
    again = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert raw(address, again, b"GET /he").count(b"HTTP/1.1") == 1
    slow = f"POST {API}/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n".encode()
    assert raw(address, slow, b"{").startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - began < 9


def test_a_client_that_does_not_take_its_answer_is_cut_off(address: str, service: httpx.Client) -> None:
    hit = service.get(f"{API}/search", params={"text": "fitness", "k": 1}).json()["hits"][0]
    url = f"{API}/documents/{hit['doc_id']}/pages/{hit['page']}/image?format=png&size=2400"
    n_bytes, n_asked, received = len(service.get(url).content), 100, 0
    assert n_bytes > 100_000
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", int(address.rpartition(":")[2])))
        connection.sendall(f"GET {url} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * n_asked)
        time.sleep(6 * LIMITS.head_seconds)
        connection.settimeout(5)
        with suppress(ConnectionError):
            while part := connection.recv(1 << 20):  # what is under way, and then the end
                received += len(part)
    assert received < n_asked * n_bytes


def test_whoever_hangs_up_is_not_answered(example_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    drawn: list[int] = []
    may_go_on = threading.Event()
    search, draw = Library.search, Pictures._draw

    def slow_search(library: Library, texts: Sequence[str], how: How) -> list[Found]:
        asked.extend(texts)
        assert may_go_on.wait(30)
        return search(library, texts, how)

    def slow_draw(pictures: Pictures, picture: Picture) -> bytes:
        drawn.append(picture.size)
        assert may_go_on.wait(30)
        return draw(pictures, picture)

    with serving(example_index, limits=Limits(gather_seconds=0.0)) as address, client(address) as asking:
        hit = asking.get(f"{API}/search", params={"text": "fitness", "k": 1}).json()["hits"][0]
        image = f"{API}/documents/{hit['doc_id']}/pages/{hit['page']}/image"
        monkeypatch.setattr(Pictures, "_draw", slow_draw)
        monkeypatch.setattr(Library, "search", slow_search)

        def get(url: str, wait: float) -> threading.Thread:
            request = f"GET {url} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            thread = threading.Thread(target=lambda: told.append(raw(address, request, seconds=wait)))
            thread.start()
            time.sleep(0.5)
            return thread

        told: list[bytes] = []
        threads = [get(f"{image}?size=100", 60)]
        threads += [get(f"{image}?size={size}", 0.2) for size in (200, 300)]  # which hang up soon
        threads += [get(f"{image}?size=400", 60)]
        threads += [get(f"{API}/search?text={text}", 60 if text in ("one", "three") else 0.2)
                    for text in ("one", "two", "three")]  # fmt: skip
        may_go_on.set()
        for thread in threads:
            thread.join()
        assert sum(answer.startswith(b"HTTP/1.1 200 ") for answer in told) == 4
        assert 'status="499"' in asking.get("/metrics").text
    assert asked == ["one", "three"]
    assert drawn == [100, 400]


def test_bodies_share_a_bound(example_index: Path) -> None:
    limits = Limits(body_bytes=1 << 20, bodies_bytes=3 << 19, json_bytes=1 << 16)
    with serving(example_index, limits=limits) as address, client(address) as asking:
        long = json.dumps({"text": "fitness"}) + " " * (1 << 16)
        json_type = {"Content-Type": "application/json"}
        assert "65,536 bytes" in refused(asking.post(f"{API}/search", content=long, headers=json_type), 413)
        head = f"POST {API}/search/image HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 20}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as slow:
            slow.sendall(head + b"\0" * ((1 << 20) - 1))  # it lacks a byte
            time.sleep(0.5)
            busy = asking.post(f"{API}/search/image", content=b"\0" * (1 << 20))
            assert "too many requests" in refused(busy, 503)
            assert busy.headers["retry-after"] == "1"
        time.sleep(0.5)
        refused(asking.post(f"{API}/search/image", content=b"\0" * (1 << 20)), 415)  # there is room again


def test_every_answer_has_headers_that_protect(service: httpx.Client) -> None:
    for path in ("/", "/static/app.js", f"{API}/documents", "/nothing"):
        headers = service.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
        assert headers["cache-control"] == ("no-cache" if path in ("/", "/static/app.js") else "no-store")


def test_a_name_that_leads_here_from_elsewhere_is_refused(address: str, service: httpx.Client) -> None:
    port = address.rpartition(":")[2]
    for name in (
        "localhost",
        f"localhost:{port}",
        f"127.0.0.1:{port}",
        "[::1]:80",
        "search.example",
        "SEARCH.example:1",
    ):
        assert service.get(f"{API}/index", headers={"Host": name}).status_code == 200
    for name in ("evil.example", f"evil.example:{port}", "localhost.evil.example"):
        assert "--allowed-host" in refused(service.get(f"{API}/index", headers={"Host": name}), 421)


def test_a_key_opens_everything_but_what_is_public(example_index: Path) -> None:
    with serving(example_index, access=Access(keys=(KEY, OTHER_KEY))) as address, client(address) as asking:
        for path in ("/", "/static/app.js", "/healthz", "/readyz"):
            assert asking.get(path).status_code == 200
        closed = [f"{API}/index", f"{API}/documents", f"{API}/search?text=x", "/metrics", f"{API}/openapi.json", "/x"]
        for path in closed:
            answer = asking.get(path)
            assert "a key is needed" in refused(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        wrong: list[Any] = [
            *({"Authorization": shown} for shown in (f"Bearer {KEY}x", f"Basic {KEY}", "Bearer", b"Bearer \xff\xfe")),
            *({"Cookie": f"{COOKIE}={shown}"} for shown in (KEY, "")),
            {"X-API-Key": KEY[:-1]},
        ]
        for headers in wrong:
            refused(asking.get(f"{API}/index", headers=headers), 401)
        refused(asking.post(f"{API}/search/image", content=b"x" * 999), 401)
        for headers in ({"Authorization": f"Bearer {KEY}"}, {"X-API-Key": OTHER_KEY}):
            assert asking.get(f"{API}/index", headers=headers).json()["needs_key"]
        refused(asking.post(f"{API}/session"), 401)
        given = asking.post(f"{API}/session", headers={"Authorization": f"Bearer {OTHER_KEY}"})
        cookie = given.headers["set-cookie"]
        assert given.status_code == 204
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert OTHER_KEY not in cookie
        assert asking.get(f"{API}/index").status_code == 200  # the client keeps it, as a browser does
        beside = {"Cookie": f'other={{"of": "another service"}}; {cookie.partition(";")[0]}; x[0]=y'}
        assert httpx.get(f"{address}{API}/index", headers=beside, trust_env=False).status_code == 200


def test_keys_that_can_be_tried_out_are_no_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\n\n  {OTHER_KEY}\n")
    assert read_keys(file) == (KEY, OTHER_KEY)
    for content in (
        b"",
        b"\n \n",
        b"short\n",
        b"a key with spaces in it\n",
        b"\xff" * 20,
        "ключ-ключ-ключ-ключ".encode(),
    ):
        file.write_bytes(content)
        with pytest.raises(colret.ColretError, match=r"token_urlsafe|a key on a line"):
            read_keys(file)


def test_names_of_files_are_text_and_their_folders_may_be_hidden(
    tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret-folder"
    secret.mkdir()
    name = "<img src=x onerror=alert(1)>.pdf"
    path = write_pdf(secret / name, TOPICS["heron"])
    with colret.create(tmp_path / "index", model="embedded", device="cpu") as made:
        made.ingest(path)
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path / "index", hide_paths=True) as address, client(address) as asking:
        answer = asking.get(f"{API}/search", params={"text": "bird"})
        [hit] = answer.json()["hits"]
        assert (hit["file"], hit["paths"]) == (name, [name])
        assert answer.headers["content-type"] == "application/json"
        path.unlink()
        told = [answer.text, asking.get(f"{API}/documents").text, asking.get(f"{API}/index").text]
        told += [asking.get(f"{API}/documents/{hit['doc_id']}/pages/1/image").text]
        for params in (
            {"where": "path LIKE '%secret%'"},
            {"where": "folder > 'a'"},
            {"docs": "*secret*"},
            {"docs": "/"},
            {"docs": "secret-folder"},
            {"docs": ".."},
        ):
            told.append(refused(asking.get(f"{API}/search", params={"text": "bird", **params}), 400))
        assert not [text for text in told if str(tmp_path) in text]
        assert not [text for text in told if "compare path" in text or "folder," in text]  # columns that are not there
        for named in (hit["doc_id"], name):
            assert asking.get(f"{API}/search", params={"text": "bird", "docs": named}).status_code == 200
    with pytest.raises(FilterError, match="no column PATH here; compare file, doc_id, page"):
        check_condition("PATH = 'x'", hide_paths=True)


def test_what_nobody_foresaw_is_a_line_in_the_log(
    example_index: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(example_index) as address, client(address) as asking:
        monkeypatch.setattr("colret.service.routes.operations.MOST_HITS", "no number")
        message = refused(asking.get(f"{API}/index"), 500)
    assert "log" in message
    [record] = [record for record in caplog.records if record.name == "colret.service"]
    assert record.getMessage().startswith(f"GET {API}/index: ValidationError: ")
    assert json.dumps(record.getMessage()).count("\\n") == 0
