"""The studio's page in a real browser: what failed is tried again, and what was asked for last is what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from .conftest import accessible, settled

pytest.importorskip("playwright", reason="the browser's driver is not installed")
from playwright.sync_api import Page, Route, expect

pytestmark = pytest.mark.nightly
PANEL = re.compile(r"/studio/photos/[0-9a-f]+\?")
DROP = """([count, bytes]) => {
    const data = new DataTransfer();
    const content = [new Uint8Array(bytes)];
    for (let i = 0; i < count; i += 1) data.items.add(new File(content, `${i}.jpg`, { type: "image/jpeg" }));
    for (const kind of ["dragover", "drop"])
        dispatchEvent(new DragEvent(kind, { dataTransfer: data, cancelable: true }));
}"""


def test_a_panel_that_could_not_be_fetched_is_drawn_when_it_is_tried_again(wide: Page, address: str) -> None:
    wide.route(PANEL, lambda route: route.abort(), times=2)
    wide.goto(f"{address}/?q=cat/cat-0.jpg")
    expect(wide.get_by_role("alert")).to_contain_text("The server does not answer.")
    wide.get_by_role("button", name="Try again").click()
    expect(wide.locator(".panel .file")).to_have_text("cat/cat-0.jpg")
    expect(wide.locator(".failure")).to_have_count(0)


def test_a_chip_that_is_clicked_while_another_search_is_under_way_changes_the_new_one(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?q=cat/cat-0.jpg")
    settled(wide)
    held: list[Route] = []
    wide.route(re.compile("/studio/search.*coffee-0.jpg&limit=60$"), lambda route: held.append(route))
    wide.fill("#expression", "coffee/coffee-0.jpg")
    with wide.expect_request(re.compile("/studio/search")):
        wide.keyboard.press("Enter")
    wide.locator(".hit .chip").first.click()
    expect(wide.locator("#expression")).to_have_value(re.compile(r"^coffee/coffee-0\.jpg \+ dim:"))
    settled(wide)
    expect(wide.locator(".panel .file")).to_have_text("coffee/coffee-0.jpg")


def test_a_search_that_another_replaced_asks_for_nothing_more(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?q=cat/cat-0.jpg")
    settled(wide)
    held: list[Route] = []
    wide.route(re.compile("/studio/search.*coffee-0.jpg"), lambda route: held.append(route))
    asked: list[str] = []
    wide.on("request", lambda request: asked.append(request.url) if PANEL.search(request.url) else None)
    for name in ("coffee/coffee-0.jpg", "coffee/coffee-1.jpg"):
        wide.fill("#expression", name)
        with wide.expect_request(re.compile("/studio/search")):
            wide.keyboard.press("Enter")
    expect(wide.locator(".panel .file")).to_have_text("coffee/coffee-1.jpg")
    settled(wide)
    (wanted,) = httpx.get(f"{address}/studio/photos", params={"name": "coffee/coffee-1.jpg"}).json()["photos"]
    assert asked
    assert all(wanted["photo"] in url for url in asked)


def test_an_answer_that_the_page_cannot_read_is_told_and_ends_the_waiting(wide: Page, address: str) -> None:
    wide.route("**/studio/dimensions/3", lambda route: route.fulfill(json={"here": {}}))
    wide.goto(f"{address}/?view=dimension&dimension=3")
    expect(wide.get_by_role("alert")).to_contain_text("The page cannot show this.")
    settled(wide)


def test_a_mistake_leaves_no_hits_of_an_earlier_search(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?q=cat/cat-0.jpg")
    settled(wide)
    wide.fill("#expression", "dim:3 +")
    wide.keyboard.press("Enter")
    expect(wide.get_by_role("alert")).to_contain_text("character 8")
    expect(wide.locator(".hit")).to_have_count(0)
    accessible(wide)


def test_a_folder_that_became_empty_is_said_to_be(wide: Page, address: str) -> None:
    overview = httpx.get(f"{address}/studio").json()
    empty = {**overview, "folder": {**overview["folder"], "photos": 0}}
    wide.route(re.compile("/studio$"), lambda route: route.fulfill(json=empty))
    wide.goto(address)
    expect(wide.locator(".results")).to_contain_text("holds no photo any more")
    accessible(wide)


def test_of_more_than_two_photos_that_are_dropped_the_rest_is_said_to_be_left(
    wide: Page, address: str, photos: Path
) -> None:
    wide.goto(address)
    settled(wide)
    wide.evaluate(DROP, [3, list((photos / "cat" / "cat-1.jpg").read_bytes())])
    expect(wide.locator("h1")).to_contain_text("Cosine 1.000")
    expect(wide.get_by_role("status").filter(has_text="first two of the 3 photos")).to_be_visible()
    accessible(wide)


def test_without_a_folder_one_starts_over_and_the_next_photo_is_the_first_again(
    wide: Page, server: str, photos: Path
) -> None:
    wide.goto(server)
    settled(wide)
    for _ in range(2):
        wide.set_input_files("input[type=file]", photos / "cat" / "cat-0.jpg")
        expect(wide.locator(".panel .bars .to-dimension").first).to_be_visible()
        wide.get_by_role("button", name="Start over").click()
        expect(wide.locator(".panel")).to_contain_text("Ask with a photo")
