"""An hour with a folder in a real browser: select, tag, export, look, name, filter, and come back the next day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .conftest import PATIENCE, accessible, opened, settled

pytest.importorskip("playwright", reason="the browser's driver is not installed")
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


@pytest.fixture
def large(browser: Browser) -> Iterator[Page]:
    yield from opened(browser, 1280)


def chosen(page: Page, count: int) -> None:
    expect(page.locator(".chosen b")).to_have_text(f"{count} selected")


def test_photos_are_selected_tagged_exported_and_found_the_next_day(large: Page, address: str, folder: Path) -> None:
    large.goto(address)
    settled(large)
    large.get_by_role("button", name="Understood").click()
    large.locator(".tile .picture").first.focus()
    large.keyboard.press("x")
    chosen(large, 1)
    large.locator(".tile .picture").nth(4).click(modifiers=["Shift"])
    chosen(large, 5)
    accessible(large)
    large.fill("#mark", "trip")
    large.keyboard.press("Enter")
    expect(large.locator(".told")).to_contain_text("Given to 5 photos: tag trip.")
    large.locator(".chosen .menu summary").click()
    with large.expect_download() as saved:
        large.get_by_role("button", name="Table (CSV)").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert (len(lines), lines[1].split(",")[1]) == (6, "trip")
    again = large.context.browser.new_context().new_page() if large.context.browser else large
    again.goto(f"{address}/?where=tag%3Dtrip")
    expect(again.locator(".count")).to_have_text("5 photos of 37")
    expect(again.locator(".hints")).to_be_visible()
    again.context.close()
    large.get_by_role("button", name="Undo").click()
    expect(large.locator(".told")).to_contain_text("Taken from 5 photos")


def test_the_whole_photo_is_looked_at_with_what_is_known_of_it(page: Page, address: str) -> None:
    page.goto(address)
    settled(page)
    page.locator(".tile .picture").first.focus()
    page.keyboard.press("v")
    first = page.locator(".lightbox h2").first.inner_text()
    expect(page.locator(".lightbox dl")).to_contain_text("Size")
    accessible(page)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".lightbox h2").first).not_to_have_text(first)
    page.locator(".lightbox [aria-pressed]").first.click()
    expect(page.locator(".lightbox .map")).to_be_visible(timeout=PATIENCE)
    page.keyboard.press("Escape")
    expect(page.locator(".lightbox")).to_be_hidden()
    expect(page).to_have_url(re.compile("/$"))


def test_a_dimension_is_named_completed_and_the_name_taken_back(page: Page, address: str) -> None:
    page.goto(address)
    settled(page)
    page.get_by_role("link", name="Dimensions").click()
    page.locator(".about a").first.click()
    page.fill("#dimension-name", "blue hour")
    page.keyboard.press("Enter")
    expect(page.locator(".dimension h1")).to_contain_text("blue hour")
    accessible(page)
    page.get_by_role("link", name="Dimensions").click()
    expect(page.locator(".about").first).to_contain_text("blue hour")
    accessible(page)
    page.get_by_role("link", name="Photos", exact=True).click()
    settled(page)
    page.keyboard.press("/")
    page.keyboard.type("blue h")
    expect(page.locator(".completions li").first).to_contain_text("blue hour")
    accessible(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#expression")).to_have_value('dim:"blue hour"')
    expect(page.locator(".chip.more").first).to_contain_text("blue hour")
    page.goto(f"{address}/?view=atlas")
    page.locator(".about a").first.click()
    page.get_by_role("button", name="Take the name back").click()
    expect(page.locator(".dimension h1")).not_to_contain_text("blue hour")


def test_a_filter_a_saved_search_and_the_keys_are_at_hand(large: Page, address: str) -> None:
    large.goto(address)
    settled(large)
    large.locator(".filters summary").click()
    large.get_by_label("Orientation").select_option(index=1)
    expect(large).to_have_url(re.compile("where=orientation%3D"))
    accessible(large)
    large.get_by_label("Name of the search").fill("portraits")
    large.keyboard.press("Enter")
    expect(large.locator(".chip a")).to_have_text("portraits")
    accessible(large)
    large.get_by_role("button", name="Forget the search portraits").click()
    expect(large.locator(".chip a")).to_have_count(0)
    large.locator("h1").first.click()
    large.keyboard.press("?")
    expect(large.locator(".help")).to_contain_text("select the photo")
    accessible(large)


def test_on_a_phone_a_hit_is_on_the_first_screen(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    for search in ("%22cat%22", "cat/cat-0.jpg"):
        page.goto(f"{address}/?q={search}")
        settled(page)
        box = page.locator(".hit .picture").first.bounding_box()
        assert box is not None
        assert box["y"] < 700
    context.close()
