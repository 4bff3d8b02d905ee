"""The studio's page in a real browser: its other views, very many photos, and what goes wrong."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from .conftest import HOSTILE, WIDTHS, accessible, opened, settled, studio_over

pytest.importorskip("playwright", reason="the browser's driver is not installed")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

pytestmark = pytest.mark.nightly
WIDTH_OF = """image => new Promise(done => image.naturalWidth ? done(image.naturalWidth)
    : image.addEventListener("load", () => done(image.naturalWidth)))"""
MANY, MOST_ELEMENTS = 100_000, 900
IN_VIEW = """wanted => [...document.querySelectorAll(".tile")].some(tile => {
    const box = tile.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight && Math.abs(tile.dataset.place - wanted) < 200;
})"""


def test_a_dimension_a_pair_and_groups_are_opened(page: Page, address: str) -> None:
    page.goto(f"{address}/?q=coffee/coffee-0.jpg")
    settled(page)
    page.locator(".compare").first.click()
    expect(page.locator("h1")).to_contain_text("Cosine 0.")
    expect(page.locator(".columns section")).to_have_count(3)
    accessible(page)
    page.locator(".columns .to-dimension").first.click()
    expect(page.locator(".dimension h2").last).to_contain_text("Strongest here")
    page.locator(".flow .picture").first.focus()
    expect(page.locator(".flow .map").first).to_be_visible()
    accessible(page)
    page.get_by_role("link", name="Groups").click()
    expect(page.locator(".finding.keep")).not_to_have_count(0)
    accessible(page)
    page.get_by_role("button", name=re.compile("suggested for removal")).click()
    page.locator(".chosen .menu summary").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="List of paths").click()
    assert any(line.endswith(f"/{HOSTILE}") for line in Path(saved.value.path()).read_text().splitlines())
    page.get_by_role("button", name="Select none").click()


def test_a_hundred_thousand_photos_scroll_through_a_bounded_page_and_back_leads_to_the_same_place(
    wide: Page, address: str
) -> None:
    known = httpx.get(f"{address}/studio/photos", params={"limit": 1}).json()["photos"][0]
    overview = httpx.get(f"{address}/studio").json()

    def answer(route: Route) -> None:
        asked = {name: int(value) for name, (value,) in parse_qs(urlsplit(route.request.url).query).items()}
        some = range(asked["offset"], min(MANY, asked["offset"] + asked["limit"]))
        route.fulfill(json={"total": MANY, "photos": [{**known, "name": f"{i}.jpg"} for i in some]})

    folder = {**overview["folder"], "photos": MANY}
    wide.route(re.compile("/studio$"), lambda route: route.fulfill(json={**overview, "folder": folder}))
    wide.route(re.compile(r"/studio/photos\?.*offset="), answer)
    wide.goto(address)
    settled(wide)
    for part in (0.5, 1, 0.25):
        wide.evaluate("part => scrollTo(0, part * document.documentElement.scrollHeight)", part)
        wide.wait_for_function(IN_VIEW, arg=part * MANY)
        assert wide.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
    there = wide.evaluate("scrollY")
    wide.get_by_role("link", name="Groups").dispatch_event("click")  # .click() would scroll to it
    expect(wide.locator(".groups h1")).to_be_visible()
    wide.go_back()
    wide.wait_for_function(IN_VIEW, arg=0.25 * MANY)
    assert wide.evaluate("scrollY") == pytest.approx(there, abs=2)


def test_without_a_folder_photos_are_dropped_read_compared_and_the_code_for_it_is_copied(
    wide: Page, server: str, photos: Path
) -> None:
    wide.context.grant_permissions(["clipboard-read", "clipboard-write"])
    wide.goto(server)
    settled(wide)
    cat, coffee = (photos / name / f"{name}-0.jpg" for name in ("cat", "coffee"))
    wide.set_input_files("input[type=file]", cat)
    expect(wide.locator(".panel .bars .to-dimension").first).to_be_visible()
    accessible(wide)
    wide.locator("#top_k").focus()
    wide.keyboard.press("Home")
    expect(wide.locator(".figures dd").first).to_have_text("16")
    wide.locator(".code summary").click()
    wide.get_by_role("button", name="Copy").first.click()
    said = wide.evaluate("navigator.clipboard.readText()")
    assert said == f"curl --data-binary @photo.jpg '{server}/embed?top_k=4'"
    wide.keyboard.press("Escape")
    wide.set_input_files("input[type=file]", coffee)
    expect(wide.locator("h1")).to_contain_text("Cosine 0.")
    accessible(wide)
    wide.locator(".columns .to-dimension").first.click()
    expect(wide.locator(".dimension h1")).to_be_visible()
    accessible(wide)


def test_how_far_the_search_for_groups_is_is_asked_for_until_they_are_found(wide: Page, address: str) -> None:
    far = {"found": False, "done": 3, "of": 10, "sections": []}
    wide.route("**/studio/groups", lambda route: route.fulfill(json=far))
    wide.goto(f"{address}/?view=groups")
    expect(wide.locator(".groups")).to_contain_text("3 of 10 photos")
    assert wide.locator(".groups progress").evaluate("bar => bar.position") == pytest.approx(0.3)
    accessible(wide)
    wide.unroute("**/studio/groups")
    expect(wide.locator(".groups .tabs")).to_be_visible()
    expect(wide.locator(".groups progress")).to_have_count(0)


@pytest.mark.parametrize(
    "path", ["?q=cat/cat-0.jpg !dim:3", "?view=dimension&dimension=3", "?view=groups&part=similar"]
)
def test_contrast_is_enough_in_the_dark_too(wide: Page, address: str, path: str) -> None:
    wide.emulate_media(color_scheme="dark")
    wide.goto(f"{address}/{path}")
    settled(wide)
    found = Axe().run(wide, options={"runOnly": ["color-contrast"]}).response["violations"]
    assert [one["nodes"][0]["html"][:200] for one in found] == []


def test_a_name_is_text_and_nothing_more(page: Page, address: str) -> None:
    page.goto(address)
    settled(page)
    page.locator(f".picture[title='{HOSTILE}']").click()
    expect(page.locator("#expression")).to_have_value(re.compile("^photo:"))
    expect(page.locator(".panel .file")).to_have_text(HOSTILE)
    assert page.title().startswith('photo:"<img src=x')
    assert page.locator("img[src=x]").count() == 0


def test_a_foreign_name_of_this_machine_gets_no_photo(address: str) -> None:
    refused = httpx.get(f"{address}/studio/photos", headers={"host": "evil.example"})
    assert refused.status_code == 403


def test_an_empty_result_and_photos_that_are_gone_are_said_to_be_so(wide: Page, address: str) -> None:
    wide.route("**/thumbnail", lambda route: route.fulfill(status=404, json={"error": {"message": "gone"}}))
    wide.goto(f"{address}/?q=cat/cat-0.jpg")
    expect(wide.locator(".hit img.gone").first).to_be_attached()
    accessible(wide)
    wide.goto(f"{address}/?q=dim:3 !dim:3")
    expect(wide.locator(".results .empty")).to_contain_text("Nothing fulfils these conditions")
    accessible(wide)


def test_a_server_that_is_gone_or_asks_for_a_key_is_told(browser: Browser, folder: Path, cache: Path) -> None:
    key = "a key for the studio's test"
    with studio_over(folder, cache, NONNEG_API_KEY=key, NONNEG_RATE="30") as (address, process):
        opening = [opened(browser, width) for width in WIDTHS]
        pages = [next(one) for one in opening]
        for page in pages:
            open_with_key(page, address, key)
        process.kill()
        process.wait()
        for page in pages:
            page.locator(".tile .picture").first.click()
            expect(page.locator(".failure")).to_contain_text("The server does not answer.")
            accessible(page)
        for one in opening:
            next(one, None)


def open_with_key(page: Page, address: str, key: str) -> None:
    """Give a wrong key, then the right one; all photos come, and the key is kept nowhere."""
    page.goto(address)
    page.fill("#key", "a wrong key, long enough")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("This key is not known here")
    accessible(page)
    page.fill("#key", key)
    page.keyboard.press("Enter")
    expect(page.locator(".count")).to_contain_text("37 photos")
    expect(page.locator(".tile img").nth(9)).to_be_attached()
    shown = page.locator(".tile img").all()
    assert all(image.evaluate(WIDTH_OF) > 0 for image in shown)  # what the rate refuses at first, too
    assert key not in page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    page.locator(".brand").click()
    expect(page.locator("#key")).to_have_count(0)  # the page was not loaded again
