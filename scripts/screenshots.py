"""The pictures of the studio in the docs, taken in Chromium of photos that may be passed on.

The photos are samples inside the wheels of scikit-image and scikit-learn, some crops of each; NOTICE has their sources.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parent.parent / "docs"
SAMPLES = {
    "astronaut": ("skimage", "data/astronaut.png"),
    "cat": ("skimage", "data/chelsea.png"),
    "china": ("sklearn", "datasets/images/china.jpg"),
    "coffee": ("skimage", "data/coffee.png"),
    "flower": ("sklearn", "datasets/images/flower.jpg"),
    "galaxies": ("skimage", "data/hubble_deep_field.jpg"),
    "rocket": ("skimage", "data/rocket.jpg"),
}
CROPS = (
    (0, 0, 1, 1),
    (0, 0, 0.75, 0.8),
    (0.2, 0, 1, 0.8),
    (0, 0.2, 0.8, 1),
    (0.25, 0.2, 1, 1),
    (0.15, 0.1, 0.85, 0.85),
)
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
SIDE = 900  # pixels


def main() -> None:
    """Take them all."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium was not found: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        photos = Path(folder) / "samples"
        cut(photos)
        with served(photos, Path(folder) / "cache") as address:
            browser = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme=scheme)
                search(page, address, DOCS / f"studio-{scheme}.jpg")
            browser.close()


def search(page: Page, address: str, out: Path) -> None:
    """Take a search by photo with more of one thing; the pointer is on the first reason, which shows its place."""
    page.goto(f'{address}/?q=cat/cat-0.jpg %2B 0.5*"cat"')
    page.wait_for_selector("main[aria-busy=false]")
    page.locator(".panel .bars li").first.hover()
    page.locator(".panel .map:visible").wait_for()
    page.wait_for_load_state("networkidle")
    picture = out.with_suffix(".png")
    page.screenshot(path=picture)
    Image.open(picture).convert("RGB").save(out, quality=82, optimize=True)
    picture.unlink()


def cut(folder: Path) -> None:
    """Write some crops of every sample."""
    for name, (package, inside) in SAMPLES.items():
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        image = Image.open(Path(spec.origin).parent / inside).convert("RGB")
        (folder / name).mkdir(parents=True)
        for i, (left, top, right, bottom) in enumerate(CROPS):
            width, height = image.size
            crop = image.crop((int(left * width), int(top * height), int(right * width), int(bottom * height)))
            crop.thumbnail((SIDE, SIDE))
            crop.save(folder / name / f"{name}-{i}.jpg", quality=92)


@contextmanager
def served(photos: Path, cache: Path) -> Iterator[str]:
    """Serve a studio over these photos and yield its address."""
    line = [sys.executable, "-m", "nonneg_cli", "studio", str(photos), "--port", "0", "--quiet"]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_CACHE_HOME": str(cache)}
    ) as process:
        try:
            assert process.stdout is not None
            said = next(text for text in process.stdout if text.startswith("look at"))
            yield said.split()[-1].rstrip("/")
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
