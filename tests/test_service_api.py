"""``colret serve`` answers what the library finds, over a real connection."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

import colret
import colret.copies
import colret.encoders
from colret.encoders.text import TextEncoder
from colret.location import Location
from colret.service.conditions import FUNCTIONS
from colret.service.limits import (
    LARGEST_SIDE,
    MOST_CHARACTERS,
    MOST_CONDITION,
    MOST_DOCUMENTS,
    MOST_HITS,
    MOST_LISTED,
    Limits,
)
from colret.types import Page, PageEmbedding
from tests.conftest import TOPICS, write_pdf
from tests.object_store import Bucket, Traffic
from tests.services import API, PATIENCE, client, serving

EXAMPLES = Path(__file__).parent.parent / "examples"
QUESTION = "How much can I spend on fitness?"


@pytest.fixture(scope="module")
def service(example_index: Path) -> Iterator[httpx.Client]:
    with serving(example_index, limits=Limits(seconds=PATIENCE)) as address, client(address) as asking:
        yield asking


@pytest.fixture(scope="module")
def index(example_index: Path) -> colret.Index:
    return colret.open(example_index, device="cpu")


def answer(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


def first(service: httpx.Client) -> dict[str, Any]:
    hit: dict[str, Any] = answer(service.get(f"{API}/search", params={"text": QUESTION, "k": 1}))["hits"][0]
    return hit


def picture(response: httpx.Response) -> Image.Image:
    assert response.status_code == 200, response.text
    return Image.open(io.BytesIO(response.content)).convert("RGB")


@pytest.mark.parametrize("options", [{}, {"lane": "text"}, {"lane": "visual", "k": 3}, {"per_document": True}])
def test_a_search_is_that_of_the_library(service: httpx.Client, index: colret.Index, options: dict[str, Any]) -> None:
    results = index.search(QUESTION, **options)
    told = answer(service.get(f"{API}/search", params={"text": QUESTION, **options}))
    assert told == answer(service.post(f"{API}/search", json={"text": QUESTION, **options}))
    assert (told["query"], told["lane"], told["n_pages"]) == (QUESTION, results.lane, results.n_pages)
    assert results.verdict is not None
    assert told["verdict"]["unanswered"] == results.verdict.unanswered
    assert len(told["hits"]) == len(results) > 0
    for hit, found in zip(told["hits"], results, strict=True):
        assert (hit["file"], hit["page"], hit["page_id"]) == (found.file, found.page, found.page_id)
        assert hit["score"] == round(found.score, 6)
        assert hit["snippet"] == found.snippet
        assert [tuple(span) for span in hit["highlights"]] == list(found.highlights)
        regions = [tuple(round(edge, 2) for edge in region.box) for region in found.regions]
        assert [tuple(region["box"]) for region in hit["evidence"]["regions"]] == regions
        assert [token["token"] for token in hit["evidence"]["tokens"]] == [each.token for each in found.tokens]


def test_filters_narrow_a_search(service: httpx.Client) -> None:
    def pages(**params: Any) -> list[tuple[str, int]]:
        hits = answer(service.get(f"{API}/search", params={"text": "fitness", "evidence": False, **params}))["hits"]
        assert all(hit["evidence"] is None for hit in hits)
        return [(Path(hit["file"]).stem, hit["page"]) for hit in hits]

    assert {file for file, _ in pages(docs=["Perks*", "quill.pdf"])} <= {"PerksPlus", "quill"}
    assert set(pages(docs="*PerksPlus.pdf", pages="2-3")) == {("PerksPlus", 2), ("PerksPlus", 3)}
    assert set(pages(where="file = 'PerksPlus.pdf' AND page = 4")) == {("PerksPlus", 4)}
    assert pages(after="2001-01-01", k=2) == pages(k=2)
    refused = service.get(f"{API}/search", params={"text": "fitness", "before": "2001-01-01"})
    assert (refused.status_code, "no page satisfies it" in refused.text) == (400, True)


def test_pages_like_a_page_and_like_an_image_are_found(service: httpx.Client, index: colret.Index) -> None:
    hit = first(service)
    told = answer(service.get(f"{API}/documents/{hit['doc_id']}/pages/{hit['page']}/like", params={"k": 3}))
    assert [each["page_id"] for each in told["hits"]] == [
        each.page_id for each in index.like(hit["file"], hit["page"], 3)
    ]
    assert told["verdict"] is None
    for each in told["hits"]:
        assert each["evidence"]["regions"]
        assert each["evidence"]["tokens"] == []  # of a page they have no names
        assert [region["tokens"] for region in each["evidence"]["regions"]] == [[]] * len(each["evidence"]["regions"])
    page = picture(service.get(f"{API}/documents/{hit['doc_id']}/pages/{hit['page']}/image", params={"size": 1400}))
    content = io.BytesIO()
    page.crop((100, page.height // 9, page.width - 100, page.height // 6)).save(content, "PNG")  # a few lines
    sent = service.post(f"{API}/search/image", params={"k": 2}, content=content.getvalue())
    assert answer(sent)["hits"][0]["page_id"] == hit["page_id"]  # its words read by OCR


def test_the_model_of_pages_is_loaded_while_searches_go_on(
    example_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    encode = TextEncoder.encode_pages

    def encode_pages(encoder: TextEncoder, pages: Sequence[Page]) -> list[PageEmbedding]:
        threads.append(threading.current_thread().name)
        return encode(encoder, pages)

    monkeypatch.setattr(TextEncoder, "encode_pages", encode_pages)
    content = io.BytesIO()
    Image.new("L", (64, 64), 255).save(content, "PNG")
    with serving(example_index) as address, client(address) as asking:
        for _ in range(2):
            told = asking.post(f"{API}/search/image", content=content.getvalue())
            assert (told.status_code, "holds nothing that the model reads" in told.text) == (422, True)
    assert [name.partition("_")[0] for name in threads] == ["colret-reader", "colret-search", "colret-search"]


def test_a_page_is_told_with_what_matches_on_it(service: httpx.Client) -> None:
    hit = first(service)
    url = f"{API}/documents/{hit['doc_id']}/pages/{hit['page']}"
    told = answer(service.get(url, params={"text": QUESTION}))
    assert (told["n_pages"], told["indexed"], told["snippet"]) == (4, True, hit["snippet"])
    assert told["evidence"] == hit["evidence"]
    assert "Gym memberships" in told["text"]
    assert answer(service.get(url))["evidence"] is None
    assert service.get(f"{API}/documents/{hit['doc_id']}/pages/99").status_code == 404


def test_images_show_the_heat_of_the_query_and_of_a_token(service: httpx.Client) -> None:
    hit = first(service)
    url = f"{API}/documents/{hit['doc_id']}/pages/{hit['page']}/image"

    def red(**params: Any) -> float:
        image = picture(service.get(url, params={"size": 800, "format": "png", **params}))
        assert max(image.size) == 800
        pixels = np.asarray(image, np.int64)
        return float(((pixels[..., 0] - pixels[..., 2]) > 60).mean())

    plain, heat = red(), red(text=QUESTION, overlay="heat")
    tokens = [each["token"] for each in hit["evidence"]["tokens"]]
    one = red(text=QUESTION, overlay="heat", token=tokens.index("fitness"))
    assert plain < 1e-4
    assert heat > one > plain
    with_regions = service.get(url, params={"text": QUESTION, "overlay": "all", "size": 800})
    assert with_regions.content != service.get(url, params={"text": QUESTION, "overlay": "heat", "size": 800}).content
    for format in ("webp", "png", "jpeg"):
        response = service.get(url, params={"size": 200, "format": format})
        assert response.headers["content-type"] == f"image/{format}"
        assert Image.open(io.BytesIO(response.content)).format == format.upper()


def test_images_are_kept_by_who_asks_until_they_change(service: httpx.Client) -> None:
    hit = first(service)
    url = f"{API}/documents/{hit['doc_id']}/pages/{hit['page']}/image"
    tags = set()
    for params in ({}, {"size": 300}, {"text": QUESTION, "overlay": "heat"}, {"text": "gym", "overlay": "heat"}):
        tag = service.get(url, params=params).headers["etag"]
        again = service.get(url, params=params, headers={"If-None-Match": tag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        tags.add(tag)
    assert len(tags) == 4


def test_documents_are_listed_in_parts(service: httpx.Client, index: colret.Index) -> None:
    names, after = [], 0
    while after is not None:
        part = answer(service.get(f"{API}/documents", params={"after": after, "limit": 3}))
        assert part["total"] == 4
        names += [each["file"] for each in part["documents"]]
        after = part["next"]
    assert names == [record.files[0].path for record in index.documents()]
    one = part["documents"][0]
    assert answer(service.get(f"{API}/documents/{one['doc_id']}")) == one
    assert service.get(f"{API}/documents/{'0' * 32}").json() == {"error": "no such document in the index"}


def test_the_service_tells_how_it_is(service: httpx.Client, index: colret.Index) -> None:
    first(service)
    assert answer(service.get("/healthz")) == {"status": "ok"}
    assert answer(service.get("/readyz"))["n_pages"] == 29
    told = answer(service.get(f"{API}/index"))
    assert (told["n_pages"], told["n_documents"], told["model"]) == (29, 4, "embedded")
    counters = service.get("/metrics").text
    assert 'colret_requests_total{method="GET",route="/api/v1/search",status="200"}' in counters
    assert "colret_index_pages 29.0" in counters
    for name in ('colret_stage_seconds_count{stage="search"}', "colret_batch_queries_count", "colret_index_version"):
        assert name in counters
    described = answer(service.get(f"{API}/openapi.json"))
    assert {f"{API}/search", f"{API}/search/image", f"{API}/documents", "/healthz"} <= described["paths"].keys()
    assert service.get("/docs").status_code == 404  # it would load scripts from elsewhere


def test_a_page_whose_file_is_gone_is_told_without_its_image(tmp_path: Path, embedded: TextEncoder) -> None:
    path = write_pdf(tmp_path / "heron.pdf", TOPICS["heron"], "")
    with colret.create(tmp_path / "index", model="embedded", device="cpu") as made:
        made.ingest(path)
    path.unlink()
    with serving(tmp_path / "index") as address, client(address) as asking:
        [hit] = answer(asking.get(f"{API}/search", params={"text": "a bird"}))["hits"]
        assert "grey heron" in hit["snippet"]
        url = f"{API}/documents/{hit['doc_id']}/pages/1"
        gone = asking.get(f"{url}/image")
        assert (gone.status_code, "cannot be shown" in gone.json()["error"]) == (410, True)
        assert answer(asking.get(url, params={"text": "a bird"}))["evidence"]["regions"]
        blank = answer(asking.get(f"{API}/documents/{hit['doc_id']}/pages/2"))
        assert (blank["indexed"], blank["text"]) == (False, "")
        assert asking.get(f"{API}/documents/{hit['doc_id']}/pages/2/like").status_code == 404


def test_a_service_sees_an_index_that_changes_goes_and_comes_back(
    tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    place = tmp_path / "index"
    colret.create(place, model="embedded", device="cpu").ingest(write_pdf(tmp_path / "heron.pdf", TOPICS["heron"]))
    with serving(place) as address, client(address) as asking:

        def found(text: str) -> list[str]:
            hits = answer(asking.get(f"{API}/search", params={"text": text, "k": 5}))["hits"]
            return [Path(hit["file"]).stem for hit in hits]

        assert found("a bird") == ["heron"]
        before = answer(asking.get("/readyz"))
        colret.open(place).ingest(write_pdf(tmp_path / "orbit.pdf", TOPICS["orbit"]))
        assert found("a satellite around Mars") == ["orbit", "heron"]
        assert answer(asking.get("/readyz"))["version"] != before["version"]
        shutil.rmtree(place)
        for url in (f"{API}/search?text=bird", "/readyz", "/metrics", f"{API}/documents"):
            gone = asking.get(url)
            assert (gone.status_code, gone.headers["retry-after"]) == (503, "1"), gone.text
            assert list(gone.json()) == ["error"]
        assert asking.get("/healthz").status_code == 200
        colret.create(place, model="embedded", device="cpu")
        assert asking.get("/readyz").status_code == 503  # nothing can be found yet
        colret.open(place).ingest(write_pdf(tmp_path / "violin.pdf", TOPICS["violin"]))
        assert found("music") == ["violin"]


def test_two_services_share_an_index_and_its_documents_in_object_storage(
    bucket: Bucket, tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    for name in ("heron", "orbit"):
        bucket.put(f"docs/{name}.pdf", write_pdf(tmp_path / f"{name}.pdf", TOPICS[name]))
    place = Location.of(f"{bucket.address}/index", bucket.options)
    made = colret.create(place, model="embedded", device="cpu")
    made.ingest(f"{bucket.address}/docs/heron.pdf")
    with serving(place) as one, serving(place) as other, client(one) as asking, client(other) as asking_other:
        for each in (asking, asking_other):
            assert answer(each.get("/readyz"))["n_pages"] == 1
        made.ingest(f"{bucket.address}/docs")
        for each in (asking, asking_other):
            end = time.monotonic() + PATIENCE
            while answer(each.get("/readyz"))["n_pages"] == 1:  # a bucket is not asked at each search
                assert time.monotonic() < end
                time.sleep(0.1)
            hits = answer(each.get(f"{API}/search", params={"text": "a satellite around Mars"}))["hits"]
            assert [hit["file"] for hit in hits] == [f"{bucket.address}/docs/{name}.pdf" for name in ("orbit", "heron")]
            url = f"{API}/documents/{hits[0]['doc_id']}/pages/1/image"
            assert max(picture(each.get(url, params={"size": 300})).size) == 300


def test_a_document_that_cannot_be_read_now_is_not_told_as_gone(
    bucket: Bucket, traffic: Traffic, tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    document = bucket.put("docs/heron.pdf", write_pdf(tmp_path / "heron.pdf", TOPICS["heron"]))
    with colret.create(Location.of(f"{bucket.address}/index", bucket.options), model="embedded", device="cpu") as made:
        made.ingest(document)
    for hide_paths in (False, True):
        with (
            serving(Location.of(f"{bucket.address}/index", bucket.options), hide_paths=hide_paths) as address,
            client(address) as asking,
        ):
            [hit] = answer(asking.get(f"{API}/search", params={"text": "a bird"}))["hits"]
            url = f"{API}/documents/{hit['doc_id']}/pages/1/image"
            traffic.meddle = lambda request: "403 Forbidden" if request.path.endswith("heron.pdf") else None
            later = asking.get(url)
            assert (later.status_code, later.headers["retry-after"]) == (503, "1"), later.text
            assert (bucket.name in later.text) != hide_paths
            traffic.meddle = lambda request: None
            if hide_paths:
                bucket.delete("docs/heron.pdf")
                assert asking.get(url).status_code == 410
            else:
                assert max(picture(asking.get(url, params={"size": 300})).size) == 300
                colret.copies._copies.clear()  # what is kept of an object is enough to show it


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_of_the_documentation_work(service: httpx.Client, tmp_path: Path) -> None:
    text = (EXAMPLES.parent / "docs" / "serve.md").read_text(encoding="utf-8")
    commands = re.findall(r"(?m)^curl .+$", text)
    assert len(commands) == 6
    address = str(service.base_url).rstrip("/")
    for command in commands:
        if "search/image" in command:  # OCR takes seconds, and has its test above
            continue
        arguments = shlex.split(command.replace("http://127.0.0.1:8080", address))
        done = subprocess.run([*arguments, "-sS", "--fail"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        assert "-o" in arguments or json.loads(done.stdout)
    assert {path.name for path in tmp_path.iterdir()} == {"page.webp", "heat.png"}


def test_the_documentation_names_every_limit_and_function(service: httpx.Client) -> None:
    text = (EXAMPLES.parent / "docs" / "serve.md").read_text(encoding="utf-8")
    for number in (MOST_CHARACTERS, MOST_HITS, MOST_CONDITION, MOST_DOCUMENTS, LARGEST_SIDE, MOST_LISTED):
        assert f"{number:,}" in text
    assert all(f"`{name}`" in text for name in FUNCTIONS)
    counters = set(re.findall(r"(?m)^# TYPE (colret_\w+) ", service.get("/metrics").text))
    assert all(name.removesuffix("_created") in text for name in counters)
