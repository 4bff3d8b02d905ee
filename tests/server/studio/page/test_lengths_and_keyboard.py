"""The studio's page in a real browser: dimensions beyond the length, and where the focus is."""

from __future__ import annotations

import re

import pytest

from .conftest import accessible, settled

pytest.importorskip("playwright", reason="the browser's driver is not installed")
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.slow


def focused_on(page: Page, selector: str) -> None:
    """Wait until an element of this kind has the focus."""
    page.wait_for_function("selector => document.activeElement.matches(selector)", arg=selector)


def test_a_named_dimension_that_the_length_leaves_out_is_greyed_and_the_search_goes_on(
    page: Page, address: str
) -> None:
    page.goto(f"{address}/?q=cat/cat-0.jpg")
    settled(page)
    page.locator(".panel .bars .chip:not(.unnamed)").first.dispatch_event("click")
    expect(page.locator("#expression")).to_have_value(re.compile(r"^cat/cat-0\.jpg \+ dim:"))
    settled(page)
    page.locator("#length").focus()
    page.keyboard.press("Home")
    chip = page.locator(".body > .facets .chip.beyond")
    expect(chip).to_contain_text("left out below")
    expect(page.locator(".failure")).to_have_count(0)
    expect(page.locator(".hit").first).to_be_visible()
    accessible(page)
    page.locator("#length").focus()
    page.keyboard.press("End")
    expect(page.locator(".chip.beyond")).to_have_count(0)


def test_where_nothing_is_left_the_length_that_the_search_needs_is_told_and_taken(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?q=dim:1000&dimensions=512")
    settled(wide)
    expect(wide.locator(".results")).to_contain_text(
        "Nothing of this search lies within 512 dimensions. It needs 1,001 of them."
    )
    accessible(wide)
    wide.get_by_role("button", name="Search with 1,001").click()
    expect(wide.locator(".hit").first).to_be_visible()
    expect(wide).to_have_url(re.compile("dimensions=1001"))
    wide.goto(f"{address}/?q=%22cat%22&dimensions=8")
    settled(wide)
    expect(wide.locator(".chip.beyond")).to_contain_text('"cat"')


def test_enter_on_a_photo_leaves_the_focus_at_what_is_shown_then(wide: Page, address: str) -> None:
    wide.goto(address)
    settled(wide)
    wide.locator(".tile .picture").first.focus()
    wide.keyboard.press("Enter")
    expect(wide.locator(".panel .file")).to_be_visible()
    focused_on(wide, ".count")  # the photo that is asked with is not among its own hits
    wide.locator(".hit .chip").first.focus()
    wide.keyboard.press("Enter")
    settled(wide)
    focused_on(wide, ".chip")
    photo = wide.locator(".hit").nth(1).get_attribute("data-photo")
    wide.locator(f"[data-photo='{photo}'] .picture").focus()
    wide.evaluate("history.back()")
    focused_on(wide, f"[data-photo='{photo}'] .picture, .count")


def test_what_is_selected_in_groups_moves_neither_the_focus_nor_the_groups(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?view=groups")
    button = wide.get_by_role("button", name=re.compile("suggested for removal"))
    expect(button).to_be_visible()
    group = wide.locator(".group").first.element_handle()
    button.focus()
    wide.keyboard.press("Enter")
    expect(wide.locator(".finding input:checked")).not_to_have_count(0)
    focused_on(wide, ".selection button")
    none = wide.get_by_role("button", name="Select none")
    none.focus()
    wide.keyboard.press("Enter")
    expect(wide.locator(".finding input:checked")).to_have_count(0)
    focused_on(wide, ".selection button")
    assert group.evaluate("group => group.isConnected")
    wide.locator(".tabs a").nth(1).focus()
    wide.keyboard.press("Enter")
    focused_on(wide, ".tabs [aria-current]")
