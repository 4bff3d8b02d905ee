"""The studio's page in a real browser: dimensions beyond the length, and where the focus is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import accessible, settled

pytest.importorskip("playwright", reason="the browser's driver is not installed")
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.slow


def focused_on(page: Page, selector: str) -> None:
    """Wait until an element of this kind has the focus."""
    page.wait_for_function("selector => document.activeElement.matches(selector)", arg=selector)


def test_a_named_dimension_that_the_length_leaves_out_is_greyed_and_the_search_goes_on(
    wide: Page, address: str
) -> None:
    wide.goto(f"{address}/?q=cat/cat-0.jpg %2B dim:300")
    settled(wide)
    wide.locator("#length").focus()
    wide.keyboard.press("Home")
    chip = wide.locator(".body > .facets .chip.beyond")
    expect(chip).to_contain_text("left out below")
    expect(wide.locator(".failure")).to_have_count(0)
    expect(wide.locator(".hit").first).to_be_visible()
    accessible(wide)
    wide.locator("#length").focus()
    wide.keyboard.press("End")
    expect(wide.locator(".chip.beyond")).to_have_count(0)


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
    expect(wide.locator(".hit").first).to_be_visible()  # words are a vector that says something at every length
    expect(wide.locator(".chip.beyond")).to_have_count(0)
    wide.goto(f"{address}/?q=%22cat%22%20%2B%20dim:1000&dimensions=8")
    settled(wide)
    expect(wide.locator(".chip.beyond")).to_contain_text("left out below 1,001")
    expect(wide.locator(".hit").first).to_be_visible()


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
    focused_on(wide, ".groups .actions button")
    none = wide.get_by_role("button", name="Select none")
    none.focus()
    wide.keyboard.press("Enter")
    expect(wide.locator(".finding input:checked")).to_have_count(0)
    focused_on(wide, "main")
    assert group.evaluate("group => group.isConnected")
    wide.locator(".tabs a").nth(1).focus()
    wide.keyboard.press("Enter")
    focused_on(wide, ".tabs [aria-current]")


def test_what_is_found_is_announced_once_with_its_figures_and_where_in_words(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?q=cat/cat-0.jpg")
    expect(wide.locator(".lengths [role=status]")).to_contain_text(
        re.compile(r"photos? scores? 0\.\d+ or more\. same first ten 100 %, bytes a photo \d+, search")
    )
    assert wide.locator("[aria-live] dd, .count[aria-live]").count() == 0  # these change at each step of a slider
    wide.locator(".panel .bars .chip").first.focus()
    ninths = r"(upper|middle|lower) (left|centre|right)|centre"
    expect(wide.locator(".panel figcaption")).to_contain_text(re.compile(rf"most of it ({ninths}), [\d.]+ %$"))
    wide.goto(f"{address}/?view=dimension&dimension=3")
    settled(wide)
    wide.locator(".flow .picture").first.focus()
    expect(wide.locator(".flow [role=status]").first).to_contain_text(re.compile(rf"from the ({ninths}), [\d.]+ %"))


def test_the_command_that_is_shown_finds_what_the_page_shows(
    wide: Page, address: str, folder: Path, cache: Path
) -> None:
    wide.goto(f"{address}/?q=cat/cat-0.jpg %2B dim:3")
    settled(wide)
    wide.locator(".code summary").click()
    shown = wide.locator(".snippets section").last
    (index,) = (cache / "nonneg" / "studio").glob("*.index")
    line = shown.locator("pre").inner_text().replace("FOLDER", str(folder)).replace("INDEX", str(index))
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = subprocess.run(["sh", "-c", line.replace("search ", "search --json -k 5 ")], env=env, capture_output=True)
    assert said.returncode == 0, said.stderr
    names = [picture.get_attribute("title") for picture in wide.locator(".hit .picture").all()[:5]]
    assert [hit["id"] for hit in json.loads(said.stdout)["hits"]] == names


@pytest.mark.parametrize(
    ("asked", "why"), [("only=3", "must be active"), ("dimensions=512", "a length"), ("tenth=true", "a tenth")]
)
def test_where_the_command_line_has_no_words_for_a_search_that_is_said(
    wide: Page, address: str, asked: str, why: str
) -> None:
    wide.goto(f"{address}/?q=cat/cat-0.jpg&{asked}")
    settled(wide)
    wide.locator(".code summary").click()
    expect(wide.locator(".snippets section").last).to_contain_text(why)
    expect(wide.locator(".snippets section").last.locator("pre")).to_have_count(0)
