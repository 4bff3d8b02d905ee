"""Pixel checks: each finds what was made so, and none complains of a plain photo."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFilter

from nonneg_core.pixels.pixel_checks import as_text, check_pixels, from_text


def plain(width: int = 400, height: int = 300) -> Image.Image:
    """Blobs with edges and some grain."""
    rng = np.random.default_rng(1)
    blobs = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)).resize((width, height), 0)
    grain = rng.normal(0, 6, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(blobs) + grain, 0, 255).astype(np.uint8))


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("blurred", plain().filter(ImageFilter.GaussianBlur(12))),
        ("dark", plain().point(lambda v: v * 0.1)),
        ("flat", Image.new("RGB", (300, 200), (90, 100, 110))),
        ("tiny", plain(80, 40)),
        ("odd_ratio", plain(800, 150)),
    ],
)
def test_each_check_finds_what_was_made_so(name: str, image: Image.Image) -> None:
    assert name in check_pixels(image).failed()


def test_a_plain_photo_fails_no_check() -> None:
    assert check_pixels(plain()).failed() == []


def test_a_photo_of_one_pixel_is_measured_too() -> None:
    found = check_pixels(Image.new("RGB", (1, 1)))
    assert found.failed() == ["dark", "flat", "tiny"]
    assert found.sharpness == 0


def test_the_photos_own_size_is_told_where_it_was_decoded_smaller() -> None:
    found = check_pixels(plain(), (4000, 3000))
    assert (found.width, found.height) == (4000, 3000)


def test_a_thumbnail_comes_back_from_its_text() -> None:
    checks = check_pixels(plain())
    back = from_text(as_text(checks.thumbnail))
    assert back is not None
    assert back.tobytes() == checks.thumbnail
    assert from_text("AAAA") is None
    assert from_text("not base64 !") is None
