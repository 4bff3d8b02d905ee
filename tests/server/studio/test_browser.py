"""The studio in a real browser, at three widths, over a real folder of photos: what a person does with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("playwright", reason="the browser's driver is not installed")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
HOSTILE = '<img src=x onerror="document.title=1">.jpg'
WIDTHS = (360, 1024, 2560)
WIDTH_OF = """image => new Promise(done => image.naturalWidth ? done(image.naturalWidth)
    : image.addEventListener("load", () => done(image.naturalWidth)))"""
PATIENCE = 30_000  # milliseconds
Start = Callable[..., Any]


@contextmanager
def studio_over(folder: Path, cache: Path, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A real `nonneg studio` on a free port: its address and its process."""
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "NONNEG_DRAIN": "0", **environment}
    line = [
        sys.executable,
        "-m",
        "nonneg_cli",
        "studio",
        str(folder),
        "--port",
        "0",
        "--model",
        "photo-fast",
        "--quiet",
    ]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            said = next((text for text in process.stdout if text.startswith("look at")), "")
            assert said, "it did not start"
            yield said.split()[-1].rstrip("/"), process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def folder(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real photos, one of them twice, one with a name that would be markup."""
    root = tmp_path_factory.mktemp("studio") / "holiday"
    shutil.copytree(photos, root)
    first = sorted(root.rglob("*.jpg"))[0]
    shutil.copyfile(first, root / "again.jpg")
    shutil.copyfile(sorted(root.rglob("*.jpg"))[-1], root / HOSTILE)
    return root


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def address(folder: Path, cache: Path) -> Iterator[str]:
    with studio_over(folder, cache) as (found, _):
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(params=WIDTHS)
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    yield from opened(browser, request.param)


@pytest.fixture
def wide(browser: Browser) -> Iterator[Page]:
    yield from opened(browser, 1280)


def opened(browser: Browser, width: int) -> Iterator[Page]:
    """A page on which no script fails and nothing is refused by the policy."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    found = context.new_page()
    found.set_default_timeout(PATIENCE)
    failed: list[str] = []
    found.on("pageerror", lambda error: failed.append(str(error)))
    found.on("console", lambda said: failed.append(said.text) if "Content Security" in said.text else None)
    yield found
    assert failed == []
    context.close()


def settled(page: Page) -> Page:
    """The page when what it asked for is drawn."""
    page.wait_for_selector("main[aria-busy=false]")
    return page


def accessible(page: Page) -> None:
    """Raise for what axe finds, and for a page that is wider than the window."""
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


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

    page.locator("#length").focus()
    bytes_before = int(page.locator(".figures dd").nth(1).inner_text())
    for _ in range(16):
        page.keyboard.press("ArrowLeft")
    expect(page.locator(".figures dd").nth(1)).not_to_have_text(str(bytes_before))
    assert int(page.locator(".figures dd").nth(1).inner_text()) < bytes_before
    expect(page).to_have_url(re.compile("dimensions="))
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


def test_a_dimension_a_pair_and_groups_are_opened(page: Page, address: str) -> None:
    page.goto(f"{address}/?q=coffee/coffee-0.jpg")
    settled(page)
    page.locator(".compare").first.click()
    expect(page.locator("h1")).to_contain_text("Cosine 0.")
    expect(page.locator(".columns section")).to_have_count(3)
    accessible(page)
    page.locator(".columns .to-dimension").first.click()
    expect(page.locator(".dimension h2").last).to_have_text("Strongest here")
    accessible(page)
    page.get_by_role("link", name="Groups").click()
    expect(page.locator(".finding.keep")).not_to_have_count(0)
    accessible(page)
    with page.expect_download() as saved:
        page.get_by_role("button", name=re.compile("suggested for removal")).click()
        page.get_by_role("button", name="Save list").click()
    assert HOSTILE in Path(saved.value.path()).read_text().splitlines()


def test_where_a_dimension_comes_from_is_shown_when_it_is_pointed_at(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?q=cat/cat-0.jpg")
    settled(wide)
    wide.locator(".panel .bars .chip").first.focus()
    expect(wide.locator(".panel .map")).to_be_visible()
    expect(wide.locator(".panel figcaption")).to_contain_text("where")


def test_a_name_is_text_and_nothing_more(wide: Page, address: str) -> None:
    wide.goto(address)
    settled(wide)
    wide.locator(f".picture[title='{HOSTILE}']").click()
    expect(wide.locator("#expression")).to_have_value(re.compile("^photo:"))
    expect(wide.locator(".panel .file")).to_have_text(HOSTILE)
    assert wide.title() == "nonneg studio"
    assert wide.locator("img[src=x]").count() == 0


def test_a_mistake_is_told_with_its_place_and_the_page_goes_on(wide: Page, address: str) -> None:
    wide.goto(address)
    settled(wide)
    wide.fill("#expression", "dim:3 +")
    wide.keyboard.press("Enter")
    expect(wide.locator(".failure")).to_contain_text("character 8")
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


def test_a_foreign_name_of_this_machine_gets_no_photo(address: str) -> None:
    refused = httpx.get(f"{address}/studio/photos", headers={"host": "evil.example"})
    assert refused.status_code == 403


def test_a_server_that_is_gone_or_asks_for_a_key_is_told(browser: Browser, folder: Path, cache: Path) -> None:
    key = "a key for the studio's test"
    with studio_over(folder, cache, NONNEG_API_KEY=key) as (address, process):
        (page,) = [next(pages := opened(browser, 1024))]
        page.goto(address)
        page.fill("#key", "a wrong key, long enough")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("This key is not known here")
        page.fill("#key", key)
        page.keyboard.press("Enter")
        expect(page.locator(".count")).to_contain_text("37 photos")
        shown = page.locator(".tile img").first
        assert shown.evaluate(WIDTH_OF) > 0
        assert key not in page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])"
        )
        process.kill()
        process.wait()
        page.locator(".tile .picture").first.click()
        expect(page.locator(".failure")).to_contain_text("The server does not answer.")
        next(pages, None)
