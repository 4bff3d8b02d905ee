"""A real `nonneg studio` over a real folder of photos, and pages of a real browser on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
HOSTILE = '<img src=x onerror="document.title=1">.jpg'
WIDTHS = (360, 1024, 2560)
PATIENCE = 30_000  # milliseconds


@contextmanager
def studio_over(folder: Path, cache: Path, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A real `nonneg studio` on a free port: its address and its process."""
    env = {
        **os.environ,
        "XDG_CACHE_HOME": str(cache),
        "XDG_DATA_HOME": str(cache / "data"),
        "NONNEG_DRAIN": "0",
        **environment,
    }
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


@pytest.fixture(scope="session")
def folder(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real photos, one of them twice, one with a name that would be markup."""
    root = tmp_path_factory.mktemp("studio") / "holiday"
    shutil.copytree(photos, root)
    first = sorted(root.rglob("*.jpg"))[0]
    shutil.copyfile(first, root / "again.jpg")
    shutil.copyfile(sorted(root.rglob("*.jpg"))[-1], root / HOSTILE)
    return root


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def address(folder: Path, cache: Path) -> Iterator[str]:
    with studio_over(folder, cache) as (found, _):
        yield found


@pytest.fixture(scope="module")  # while its driver is there no other event loop runs
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.skip("chromium was not found: apt-get install chromium")
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(params=[360, pytest.param(1024, marks=pytest.mark.nightly), 2560])  # what lies between: by night
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
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
