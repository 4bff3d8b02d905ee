"""The studio's page in a real browser: asking with photos, words and dimensions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import accessible, settled

pytest.importorskip("playwright", reason="the browser's driver is not installed")
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.slow
HAND_OVER = """([bytes, type, kinds]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], "a photo", { type }));
    for (const kind of kinds) dispatchEvent(kind === "paste"
        ? new ClipboardEvent(kind, { clipboardData: data })
        : new DragEvent(kind, { dataTransfer: data, cancelable: true }));
}"""


def test_a_photo_is_dropped_searched_with_read_and_shared(page: Page, address: str, photos: Path) -> None:
    page.goto(address)
    settled(page)
    expect(page.locator(".count")).to_contain_text("37 photos")
    accessible(page)
    page.set_input_files("input[type=file]", sorted(photos.rglob("cat-0.jpg"))[0])
    expect(page.locator("#expression")).to_have_value(re.compile("^drop-"))
    first = page.locator(".hit").first
    expect(first).to_contain_text("cat-0.jpg")
    expect(first).to_contain_text("1.000")
    accessible(page)
    first.locator(".picture").click()
    expect(page.locator("#expression")).to_have_value("cat/cat-0.jpg")

    settled(page)
    kept = page.locator(".hit .picture img").first.element_handle()
    page.locator(".body details:has(.lengths)").evaluate("details => { details.open = true; }")
    page.locator("#length").focus()
    bytes_before = int(page.locator(".figures dd").nth(1).inner_text())
    for _ in range(16):
        page.keyboard.press("ArrowLeft")
    expect(page.locator(".figures dd").nth(1)).not_to_have_text(str(bytes_before))
    assert int(page.locator(".figures dd").nth(1).inner_text()) < bytes_before
    expect(page).to_have_url(re.compile("dimensions="))
    assert kept.evaluate("image => image.isConnected")  # what stays in the result does not flicker
    page.keyboard.press("End")
    expect(page).not_to_have_url(re.compile("dimensions="))

    settled(page)
    chip = page.locator(".hit .chip").first
    number = chip.get_attribute("data-dimension")
    chip.click()
    expect(page.locator(f".hit .chip.more[data-dimension='{number}']").first).to_be_visible()
    expect(page.locator("#expression")).to_have_value(re.compile(r"^cat/cat-0\.jpg \+ dim:"))
    settled(page)
    page.locator(f".hit .chip.more[data-dimension='{number}']").first.click()
    expect(page.locator("#expression")).to_have_value(re.compile(r"^cat/cat-0\.jpg !dim:"))
    expect(page.locator(f".hit .chip[data-dimension='{number}']")).to_have_count(0)

    settled(page)
    again = page.context.new_page()
    again.goto(page.url)
    settled(again)
    first, value = ".hit[data-place='0'] .file", page.input_value("#expression")
    expect(again.locator("#expression")).to_have_value(value)
    expect(again.locator(first)).to_have_text(page.locator(first).all_inner_texts())
    again.close()


@pytest.mark.parametrize("kinds", [["dragover", "drop"], ["paste"]])
def test_a_photo_is_asked_with_when_it_is_dropped_or_pasted(
    wide: Page, address: str, photos: Path, kinds: list[str]
) -> None:
    wide.goto(address)
    settled(wide)
    wide.evaluate(HAND_OVER, [list(b"no photo"), "text/plain", kinds])
    expect(wide.locator(".failure")).to_contain_text("not a photo")
    wide.evaluate(HAND_OVER, [list((photos / "cat" / "cat-1.jpg").read_bytes()), "image/jpeg", kinds])
    expect(wide.locator(".hit .file").first).to_have_text("cat-1.jpg")
    expect(wide.locator(".failure")).to_have_count(0)


def test_where_a_dimension_comes_from_is_shown_when_it_is_pointed_at(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?q=cat/cat-0.jpg")
    settled(wide)
    for chip in (wide.locator(".panel .bars .chip").first, wide.locator(".hit .chip").first):
        chip.focus()
        expect(wide.locator(".panel .map")).to_be_visible()
        expect(wide.locator(".panel figcaption")).to_contain_text(chip.locator(".name").inner_text())
        wide.locator("#expression").focus()
        expect(wide.locator(".panel .map")).to_be_hidden()


def test_words_show_what_they_ask_for_and_a_condition_is_taken_back(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?q=%22cat%22 !dim:3&only=0")
    settled(wide)
    expect(wide.locator(".panel h2").first).to_have_text("What is asked for")
    expect(wide.locator(".panel .bars .exemplars img").first).to_be_visible()
    wide.locator(".chip.without[data-dimension='3']").first.click()
    expect(wide.locator("#expression")).to_have_value('"cat"')
    settled(wide)
    wide.locator(".facet.more[data-dimension='0']").click()
    expect(wide).not_to_have_url(re.compile("only="))


def test_a_mistake_is_told_with_its_place_and_the_page_goes_on(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?q=%22cat%22")
    expect(wide.locator(".panel .bars")).to_be_visible()
    wide.fill("#expression", "dim:3 +")
    wide.keyboard.press("Enter")
    expect(wide.locator(".failure")).to_contain_text("character 8")
    expect(wide.locator(".panel .bars")).to_have_count(0)
    expect(wide.locator(".panel")).to_contain_text("this search was refused")
    accessible(wide)
    wide.fill("#expression", "dim:3")
    wide.keyboard.press("Enter")
    expect(wide.locator(".failure")).to_have_count(0)
    expect(wide.locator(".hit").first).to_be_visible()


def test_bare_words_are_words(wide: Page, address: str) -> None:
    wide.goto(address)
    settled(wide)
    wide.fill("#expression", "cat")
    wide.keyboard.press("Enter")
    expect(wide.locator("#expression")).to_have_value('"cat"')
    expect(wide.locator(".hit[data-place='0'] .file").first).to_contain_text("cat-")
    expect(wide.locator(".line")).to_contain_text("random photos")


def test_arrows_walk_over_the_photos_and_enter_asks_with_one(wide: Page, address: str) -> None:
    wide.goto(address)
    settled(wide)
    wide.locator(".tile .picture").first.focus()
    wide.keyboard.press("ArrowRight")
    wide.keyboard.press("ArrowDown")
    name = wide.evaluate("document.activeElement.title")
    assert name
    wide.keyboard.press("Enter")
    expect(wide.locator(".panel .file")).to_have_text(name)
