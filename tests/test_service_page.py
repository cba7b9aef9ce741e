"""The page of ``colret serve`` in a real browser."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import colret
from colret.service.access import Access
from colret.service.limits import Limits
from tests.conftest import TOPICS, write_pdf
from tests.services import PATIENCE, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")

QUESTION = "How much can I spend on fitness?"
KEY = "correct-horse-battery-staple"
PHONE = {"width": 390, "height": 844}
HOSTILE = "<img src=x onerror=alert(1)>.pdf"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(example_index: Path) -> Iterator[str]:
    with serving(example_index, limits=Limits(seconds=PATIENCE)) as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    context.close()
    assert not [said for said in wrong if "Failed to load resource" not in said]  # a refusal that a test provokes
    assert all(url.startswith((address, "blob:")) for url in asked)


def until(page: Page, condition: str) -> None:
    """Wait for JavaScript to be true; Playwright's own way needs eval, which the page's policy forbids."""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def search(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.press("#text", "Enter")
    until(page, "document.querySelector('#progress').hidden")


def seen(page: Page, selector: str) -> bool:
    """Wait until an image is there; return whether it shows anything."""
    until(page, f"document.querySelector({selector!r})?.complete")
    return bool(page.evaluate(f"document.querySelector({selector!r}).naturalWidth > 0"))


def test_pages_are_searched_opened_and_turned(page: Page) -> None:
    page.wait_for_selector("a.card")
    assert page.inner_text("#status") == "29 pages of 4 documents"
    search(page, QUESTION)
    cards = page.locator("a.card")
    assert cards.count() == 12
    assert cards.first.locator(".file").inner_text() == "PerksPlus.pdf"
    assert cards.first.locator("mark").count() > 0
    assert cards.first.locator(".region").count() > 0
    assert seen(page, "a.card img")
    assert "12 pages of 29" in page.inner_text("#status")
    cards.first.click()
    page.wait_for_selector("#viewer[open] .heat.there")
    assert seen(page, ".sheet .base")
    assert page.locator(".boxes .region").count() > 0
    assert page.inner_text("#viewer-page") == "page 3 of 4"
    whole = page.get_attribute(".heat", "src")
    page.get_by_role("radio", name="fitness").click()
    until(page, f"document.querySelector('.heat').getAttribute('src') !== {whole!r}")
    assert seen(page, ".sheet .heat")
    assert page.locator(".boxes .best").count() == 1
    assert "token=" in page.url
    page.get_by_role("radio", name="off").click()
    assert page.get_attribute(".heat", "src") is None
    page.click("#page-on")
    until(page, "document.querySelector('#viewer-page').innerText === 'page 4 of 4'")
    assert page.is_disabled("#page-on")
    shared = page.url
    page.click("#close")
    assert not page.is_visible("#viewer")
    page.goto(shared)
    page.wait_for_selector("#viewer[open] .sheet.there")
    assert page.inner_text("#viewer-page") == "page 4 of 4"
    page.go_back()
    page.wait_for_selector("#viewer", state="hidden")


def test_everything_can_be_done_by_keys(page: Page) -> None:
    page.wait_for_selector("a.card")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.type("vacation")
    page.keyboard.press("Enter")
    page.wait_for_selector("a.card .rank")
    focused = "document.activeElement.querySelector('.rank')?.innerText"
    for key, rank in (
        ("ArrowRight", "1"),
        ("ArrowRight", "2"),
        ("ArrowDown", "6"),
        ("ArrowUp", "2"),
        ("ArrowLeft", "1"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(focused) == rank
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer[open] .sheet.there")
    first = page.inner_text("#viewer-page")
    page.keyboard.press("n")
    until(page, "document.querySelector('#viewer-hit').innerText.startsWith('result 2 ')")
    page.wait_for_selector("#viewer .sheet.there")
    page.keyboard.press("p")
    until(page, "document.querySelector('#viewer-hit').innerText.startsWith('result 1 ')")
    page.wait_for_selector("#viewer .sheet.there")
    page.keyboard.press("t")
    page.wait_for_selector(".boxes .best", state="attached")
    page.keyboard.press("ArrowLeft")
    until(page, f"document.querySelector('#viewer-page').innerText !== {first!r}")
    page.wait_for_selector("#viewer .sheet.there")
    page.keyboard.press("Escape")
    page.wait_for_selector("#viewer", state="hidden")


def test_no_answer_and_no_page_are_told(page: Page) -> None:
    page.wait_for_selector("a.card")
    search(page, "the boiling point of tungsten carbide on neptune")
    assert page.inner_text("#notice").startswith("No page answers this")
    assert page.locator(".card.weak").count() > 0
    search(page, '"no such words anywhere"')
    assert page.inner_text("#notice") == "No page has these words."
    assert page.locator("a.card").count() == 0
    search(page, "fitness")
    assert not page.is_visible("#notice")


def test_filters_are_applied_kept_in_the_address_and_cleared(page: Page) -> None:
    page.wait_for_selector("a.card")
    search(page, "health")
    page.click("#filters summary")
    page.fill("input[name=docs]", "Perks*, quill.pdf")
    page.fill("input[name=pages]", "2-3")
    page.check("input[name=per]")
    page.click("text=Apply")
    until(page, "document.querySelectorAll('a.card').length === 2")
    assert {"docs=", "pages=2-3", "per=1"} <= set(re.findall(r"docs=|pages=2-3|per=1", page.url))
    page.click("#clear")
    until(page, "document.querySelectorAll('a.card').length === 12")
    page.fill("input[name=where]", "repeat('a', 1000000000) = 'a'")
    page.click("text=Apply")
    page.wait_for_selector("#notice.error")
    assert "repeat is no function that is allowed here" in page.inner_text("#notice")


def test_a_filter_of_the_address_that_is_wrong_is_shown(page: Page, address: str) -> None:
    page.goto(f"{address}/?q=health&pages=9-2")
    page.wait_for_selector("#notice.error")
    assert page.inner_text("#notice") == "pages: '9-2' holds no page; give one such as 3-10"
    assert page.is_visible("input[name=pages]")
    assert page.input_value("input[name=pages]") == "9-2"


def test_a_narrow_screen_shows_everything(page: Page) -> None:
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    search(page, QUESTION)
    page.wait_for_selector("a.card mark")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    boxes = [page.locator("a.card").nth(i).bounding_box() for i in range(2)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["x"] == boxes[1]["x"]
    page.click("#filters summary")
    widest = "Math.max(...[...document.querySelectorAll('header *')].map((each) => each.getBoundingClientRect().right))"
    assert page.evaluate(widest) <= PHONE["width"]
    page.click("#filters summary")
    page.locator("a.card").first.click()
    page.wait_for_selector("#viewer[open] .sheet.there")
    assert page.evaluate("document.querySelector('#viewer').scrollWidth") <= PHONE["width"]
    assert page.is_visible("#close")
    sheet = page.locator(".sheet").bounding_box()
    assert sheet is not None
    assert sheet["width"] == PHONE["width"]


def test_pages_like_one_and_like_an_image_are_searched(page: Page, tmp_path: Path) -> None:
    search(page, QUESTION)
    page.locator("a.card").first.click()
    page.wait_for_selector("#viewer[open] .sheet.there")
    page.click("#like")
    page.wait_for_selector("#viewer", state="hidden")
    until(page, "document.querySelector('#status').innerText.includes('by late interaction')")
    assert "like=" in page.url
    (tmp_path / "no.png").write_bytes(b"\x89PNG\r\n\x1a\nrubbish")
    with page.expect_response("**/search/image*") as refused:
        page.set_input_files("#image", tmp_path / "no.png")
    assert refused.value.status == 415


def test_names_are_text_and_a_page_whose_file_is_gone_tells_its_words(browser: Browser, tmp_path: Path) -> None:
    path = write_pdf(tmp_path / HOSTILE, TOPICS["heron"] + " <script>document.title = 'run'</script>")
    with colret.create(tmp_path / "index", model="embedded", device="cpu") as made:
        made.ingest(path)
    path.unlink()
    with serving(tmp_path / "index") as address:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.goto(f"{address}/?q=heron+script")
        page.wait_for_selector(".thumb .missing")
        assert page.inner_text("a.card .file") == HOSTILE
        assert "The file is gone" in page.inner_text(".thumb .missing")
        page.click("a.card")
        page.wait_for_selector(".sheet .missing p")
        assert page.inner_text(".sheet .missing p").startswith("The grey heron waits")
        assert page.inner_text("#viewer-file") == HOSTILE
        assert page.title() != "run"
        assert page.locator("main img[src=x], #viewer img[src=x]").count() == 0
        page.close()


def test_a_key_is_asked_for_once(browser: Browser, example_index: Path) -> None:
    with serving(example_index, access=Access(keys=(KEY,))) as address:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(f"{address}/?q=fitness")
        page.fill("#key-value", "some-other-key-that-is-none")
        page.press("#key-value", "Enter")
        until(page, "document.querySelector('#key-error').innerText.includes('not a key')")
        page.fill("#key-value", KEY)
        page.press("#key-value", "Enter")
        page.wait_for_selector("a.card .rank")
        assert seen(page, "a.card img")  # which carries no header, but the cookie
        assert not page.is_visible("#key")
        page.reload()
        page.wait_for_selector("a.card .rank")
        page.close()
