"""The contact sheet in a real browser: what is marked stays, is copied, and is saved."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from studio.page import conftest as harness

pytest.importorskip("playwright", reason="the browser's driver is not installed")
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.slow
browser = harness.browser
FORMULA = '=1+2,"x".png'


@pytest.fixture
def sheet(run, folder, vectors, tmp_path) -> str:
    """Where the sheet is of the folder's photos, of which one has a name that a spreadsheet would compute."""
    (tmp_path / FORMULA).write_bytes((folder / "cat" / "01.png").read_bytes())
    names = [FORMULA if name.endswith("cat/01.png") else name for name in vectors.ids]
    vectors.named(names).save(tmp_path / "photos.npz")
    result = run("curate", tmp_path / "photos.npz", "--html", tmp_path / "sheet.html", "--quiet")
    assert result.exit_code == 0, result.output
    return (tmp_path / "sheet.html").as_uri()


@pytest.fixture
def page(browser: Browser, sheet: str) -> Iterator[Page]:
    for page in harness.opened(browser, 1280):
        page.goto(sheet)
        yield page


def marked(page: Page) -> list[str]:
    return sorted({str(card.get_attribute("data-image")) for card in page.locator("figure.marked").all()})


def saved(page: Page, button: str) -> str:
    with page.expect_download() as found:
        page.get_by_role("button", name=button).click()
    return Path(found.value.path()).read_text(encoding="utf-8")


def forbid_clipboard(page: Page) -> None:
    session = page.context.new_cdp_session(page)
    context = session.send("Target.getTargetInfo")["targetInfo"]["browserContextId"]
    permission = {"name": "clipboard-write", "allowWithoutSanitization": False}
    denied: dict[str, Any] = {"permission": permission, "setting": "denied", "browserContextId": context}
    session.send("Browser.setPermission", denied)


def test_what_is_suggested_or_clicked_is_marked_and_stays_so(page: Page) -> None:
    expect(page.locator("section.shown")).to_have_attribute("data-part", "exact")
    expect(page.get_by_role("button", name="Copy list")).to_be_disabled()
    page.get_by_role("button", name="Mark suggested").click()
    page.locator("nav a[href='#clusters']").click()
    page.locator("section.shown figure:not(.marked) button").first.click()
    names = marked(page)
    assert len(names) == 2
    assert "00-again.png" in {Path(name).name for name in names}
    expect(page.locator("#count")).to_have_text("2 photos marked")
    page.reload()
    expect(page.locator("#count")).to_have_text("2 photos marked")
    assert marked(page) == names


def test_a_part_that_is_not_there_shows_the_first(page: Page, sheet: str) -> None:
    page.goto(f"{sheet}#nowhere")
    expect(page.locator("section.shown")).to_have_attribute("data-part", "exact")
    page.goto(f"{sheet}#subset")
    expect(page.locator("section.shown")).to_have_attribute("data-part", "subset")


def test_the_list_is_copied_or_shown_to_be_copied(page: Page) -> None:
    page.get_by_role("button", name="Mark suggested").click()
    wanted = "".join(f"{name}\n" for name in marked(page))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy list").click()
    expect(page.locator("#said")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == wanted
    forbid_clipboard(page)
    page.get_by_role("button", name="Copy list").click()
    expect(page.locator("#said")).to_have_text("This page may not use the clipboard: press Ctrl+C.")
    expect(page.locator("#list")).to_have_value(wanted)
    assert page.evaluate("getSelection().toString()") == wanted
    page.locator("section.shown figure button").first.click()
    expect(page.locator("#list")).to_be_hidden()


def test_the_list_and_a_table_that_no_spreadsheet_computes_are_saved(page: Page) -> None:
    page.locator("nav a[href='#clusters']").click()
    for name in ("02.png", 'x".png'):
        page.locator(f"section.shown figure[data-image$={json.dumps(name)}] button").click()
    assert saved(page, "Save list").splitlines() == [next(n for n in marked(page) if "02.png" in n), FORMULA]
    head, *rows = csv.reader(saved(page, "Save CSV").splitlines())
    assert head == ["image", "part", "suggested"]
    assert rows[1] == [f"'{FORMULA}", rows[1][1], rows[1][2]]
    assert rows[0][0].endswith("02.png")
