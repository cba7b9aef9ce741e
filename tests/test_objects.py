"""Objects as documents: what a listing tells of them, and a download that is of one state."""

from __future__ import annotations

import hashlib
import http.client
import io
import socket
import threading
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

import colret.objects
from colret.addresses import Address, parse_address
from colret.documents import SourceFile
from colret.errors import DocumentError
from colret.folders import find_documents, has_vanished, is_gone
from colret.objects import download, source_of
from tests.object_store import Bucket, Request, Traffic


def put_raw(bucket: Bucket, key: str, content: bytes = b"hello") -> None:
    """Write an object whose key obstore would refuse."""
    server = http.client.HTTPConnection(bucket.options["aws_endpoint"].removeprefix("http://"))
    server.request("PUT", f"/{bucket.name}/{quote(key)}", content)
    assert server.getresponse().status == 200
    server.close()


def found(bucket: Bucket, *keys: str) -> Any:
    return find_documents([f"{bucket.address}/{key}".rstrip("/") for key in keys or ("",)], bucket.options)


def keys(sources: list[SourceFile]) -> list[str]:
    return [source.path.key for source in sources if isinstance(source.path, Address)]


def fetched(address: Address, to: io.BytesIO | None = None) -> Any:
    return download(address, to, threading.Event())


def test_documents_are_found_below_an_address_and_none_is_read(bucket: Bucket, traffic: Traffic) -> None:
    names = ["docs/a b.pdf", "docs/deep/er/ü 文.png", "docs/100%25.pdf", "docs/a%2Fb.pdf", "docs/q?#12+~.pdf"]
    for name in [*names, "docs/notes.txt", "docs2/other.pdf", "a.pdf"]:
        bucket.put(name, b"hello")
    traffic.clear()
    listed = found(bucket, "docs")
    assert keys(listed.sources) == sorted(names)
    assert {source.size for source in listed.sources} == {5}
    assert (listed.unusable, listed.problems) == ({}, [])
    assert traffic.gets() == []
    assert keys(found(bucket).sources) == sorted([*names, "docs2/other.pdf", "a.pdf"])


def test_what_is_hidden_is_left_out_unless_it_is_named(bucket: Bucket) -> None:
    for name in ("docs/.git/a.pdf", "docs/.b.pdf", "docs/~$c.docx", ".cache/d.pdf"):
        bucket.put(name, b"hello")
    assert keys(found(bucket, "docs").sources) == []
    assert keys(found(bucket, "docs/.b.pdf", ".cache").sources) == [".cache/d.pdf", "docs/.b.pdf"]


def test_folder_markers_empty_objects_and_archives(bucket: Bucket) -> None:
    put_raw(bucket, "docs/", b"")
    put_raw(bucket, "docs/sub/", b"")
    bucket.put("docs/empty.pdf", b"")
    bucket.put("docs/all.zip", b"PK")
    bucket.put("docs/a.pdf", b"hello")
    listed = found(bucket, "docs")
    assert keys(listed.sources) == ["docs/a.pdf"]
    reasons = {text.removeprefix(f"{bucket.address}/"): error.reason for text, error in listed.unusable.items()}
    assert reasons == {"docs/empty.pdf": "empty_file", "docs/all.zip": "unsupported_archive"}


@pytest.mark.parametrize("odd", ["docs/odd//x.pdf", "docs/odd/../x.pdf", "docs/odd/./x.pdf", "docs/odd/c\x01.pdf"])
def test_a_key_that_cannot_be_named_costs_its_prefix_alone(bucket: Bucket, odd: str) -> None:
    put_raw(bucket, odd)
    for name in ("docs/a.pdf", "docs/even/b.pdf", "docs/odd/lost.pdf", "docs/.hidden/c.pdf"):
        bucket.put(name, b"hello")
    listed = found(bucket, "docs")
    assert keys(listed.sources)[:2] == ["docs/a.pdf", "docs/even/b.pdf"]
    [(place, error)] = listed.unusable.items()
    assert (place, error.reason) == (f"{bucket.address}/docs/odd", "unreadable")
    assert not has_vanished(f"{bucket.address}/docs/odd/lost.pdf", listed)
    assert has_vanished(f"{bucket.address}/docs/even/gone.pdf", listed)


def test_only_what_was_listed_can_be_gone(bucket: Bucket) -> None:
    for name in ("docs/a.pdf", "docs/.hidden.pdf"):
        bucket.put(name, b"hello")
    listed = found(bucket, "docs")
    at = parse_address(bucket.address).at
    assert is_gone(at("docs/gone.pdf"), listed)
    assert is_gone(at("docs/sub/gone.pdf"), listed)
    assert not is_gone(at("docs/a.pdf"), listed)
    assert not is_gone(at("docs/.hidden.pdf"), listed)
    assert not is_gone(at("elsewhere/gone.pdf"), listed)
    assert not is_gone(parse_address("s3://other/docs/gone.pdf"), listed)


def test_addresses_that_lead_nowhere_are_told(bucket: Bucket) -> None:
    bucket.put("readme.txt", b"hello")
    listed = found(bucket, "missing", "missing.pdf", "readme.txt")
    assert [error.reason for error in listed.problems] == ["missing", "missing", "unsupported_type"]
    [problem] = find_documents(["s3://no-such-bucket-here"], bucket.options).problems
    assert "no such bucket" in str(problem)


def test_refusals_and_silence_are_one_line_without_secrets(bucket: Bucket, traffic: Traffic) -> None:
    bucket.put("a.pdf", b"hello")
    traffic.meddle = lambda request: "403 Forbidden"
    [refused] = found(bucket).problems
    assert refused.reason == "unreadable"
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        options = bucket.options | {"aws_endpoint": f"http://127.0.0.1:{nobody.getsockname()[1]}"}
        [unreachable] = find_documents([bucket.address], options).problems
    [wrong] = find_documents([bucket.address], bucket.options | {"aws_nonsense": "hush"}).problems
    for error in (refused, unreachable, wrong):
        assert bucket.name in str(error)
        assert not any(text in str(error) for text in ("testing", "hush", "\n"))


def test_options_of_another_cloud_do_no_harm(bucket: Bucket) -> None:
    bucket.put("a.pdf", b"hello")
    options = bucket.options | {"google_service_account": "nowhere", "azure_storage_account_name": "x"}
    assert keys(find_documents([bucket.address], options).sources) == ["a.pdf"]


def test_a_download_is_whole_and_what_was_listed(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.objects, "PART_BYTES", 1000)  # several requests
    content = bytes(range(256)) * 20
    bucket.put("a.pdf", content)
    [source] = found(bucket).sources
    to = io.BytesIO()
    assert isinstance(source.path, Address)
    assert fetched(source.path, to) == (hashlib.sha256(content).hexdigest()[:32], source)
    assert to.getvalue() == content


def test_an_object_that_changes_between_two_requests_is_not_mixed(
    bucket: Bucket, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.objects, "PART_BYTES", 1000)
    address = parse_address(bucket.put("a.pdf", b"x" * 3000), bucket.options)

    def change(request: Request) -> None:
        if len(traffic.gets()) == 2:
            traffic.meddle = lambda request: None
            bucket.put("a.pdf", b"y" * 3000)

    traffic.meddle = change
    with pytest.raises(DocumentError) as caught:
        fetched(address)
    assert caught.value.reason == "changed_while_read"


def test_what_cannot_be_downloaded_has_a_reason(bucket: Bucket, traffic: Traffic) -> None:
    address = parse_address(bucket.put("a.pdf", b"hello"), bucket.options)
    traffic.meddle = lambda request: "403 Forbidden"
    with pytest.raises(DocumentError) as refused:
        fetched(address)
    traffic.clear()
    with pytest.raises(DocumentError) as missing:
        fetched(address.at("b.pdf"))
    assert (refused.value.reason, missing.value.reason) == ("unreadable", "missing")


def test_an_object_that_is_too_large_is_not_downloaded(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.objects, "MAX_OBJECT_BYTES", 4)
    bucket.put("a.pdf", b"hello")
    listed = found(bucket)
    assert [error.reason for error in listed.unusable.values()] == ["too_large"]
    assert listed.sources == []


def test_states_differ_by_second_size_or_tag_and_not_by_how_they_are_told() -> None:
    address = parse_address("s3://bucket/a.pdf")

    def state(second: int, tag: str | None, micro: int = 0) -> SourceFile:
        time = datetime(2024, 1, 1, 0, 0, second, micro, tzinfo=UTC)
        return source_of(address, {"path": "a.pdf", "last_modified": time, "size": 5, "e_tag": tag, "version": None})

    assert state(1, '"one"') == state(1, "one", micro=250_000) == state(1, 'W/"one"')
    assert len({state(1, "one"), state(2, "one"), state(1, "two"), state(1, None)}) == 4
    assert state(1, None).mtime_ns % 10**9 == 0


@pytest.mark.parametrize("year", [1, 2262, 9999])
def test_times_of_objects_are_those_that_64_bits_hold(year: int) -> None:
    time, address = datetime(year, 12, 31, tzinfo=UTC), parse_address("s3://bucket/a.pdf")
    states = [
        source_of(address, {"path": "a.pdf", "last_modified": time, "size": 5, "e_tag": tag, "version": None})
        for tag in ("one", "two")
    ]
    assert all(-1 << 63 <= state.mtime_ns < 1 << 63 for state in states)
    assert len(set(states)) == 2
