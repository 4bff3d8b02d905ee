"""Resizing with SIMD instructions, beside Pillow's."""

from __future__ import annotations

import random
import sys
import threading

import numpy as np
import pytest
from PIL import Image

from nonneg_core.pixels.view import View, fast_resize, has_simd, resize_pillow


@pytest.fixture
def swift():
    pytest.importorskip("cykooz_resizer")
    return fast_resize()


def scene(width: int, height: int, seed: int = 0) -> Image.Image:
    """Soft shapes with hard edges and a little noise, as photos have them."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
    pixels = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    pixels[height // 4 : height // 2, width // 4 : width // 2] = (250, 10, 120)
    noisy = pixels + rng.normal(0, 4, pixels.shape)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("fit", ["cover", "squash", "contain"])
@pytest.mark.parametrize("size", [(500, 375), (375, 501), (225, 224), (1000, 750)])
def test_shrunk_pixels_are_pillows_to_within_rounding(swift, interpolation, fit, size):
    view, image = View(size=224, fit=fit, interpolation=interpolation, crop=0.97), scene(*size)
    difference = np.abs(view.apply(image).astype(int) - view.apply(image, swift))
    assert difference.mean() < 0.3
    assert (difference > 1).mean() < 0.01


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (7, 300), (223, 224), (100, 60)])
def test_what_is_enlarged_is_pillows_in_every_pixel(swift, size):
    for fit in ("cover", "squash"):
        view, image = View(size=224, fit=fit), scene(*size)
        np.testing.assert_array_equal(view.apply(image), view.apply(image, swift))


def test_nearest_and_very_large_images_are_pillows_in_every_pixel(swift):
    image = scene(500, 375)
    nearest = View(size=224, interpolation="nearest")
    np.testing.assert_array_equal(nearest.apply(image), nearest.apply(image, swift))
    large = Image.new("RGB", (3000, 1500), (1, 2, 3))
    large.paste((200, 100, 0), (1000, 300, 1700, 900))
    np.testing.assert_array_equal(View(size=224).apply(large), View(size=224).apply(large, swift))


def test_no_size_and_no_crop_is_refused(swift):
    draw, image = random.Random(0), scene(700, 700)
    for _ in range(2000):  # the crop's edges lie anywhere between pixels, and on the image's own
        size = (draw.randint(16, 700), draw.randint(16, 700))
        crop = draw.choice([1.0, 0.875, 0.97, 1 / 3, draw.uniform(0.05, 1)])
        view = View(size=16, fit=draw.choice(["cover", "squash", "contain"]), crop=crop)
        assert view.apply(image.crop((0, 0, *size)), swift).shape == (16, 16, 3), (size, view)


def test_threads_do_not_disturb_each_other(swift):
    view, images = View(size=64), [scene(200 + seed, 150, seed) for seed in range(8)]
    wanted = [view.apply(image, swift) for image in images]
    wrong = []

    def look() -> None:
        turns = [turn % 8 for turn in range(200)]
        wrong.extend(i for i in turns if not np.array_equal(view.apply(images[i], swift), wanted[i]))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_where_it_is_not_built_pillow_does_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cykooz_resizer", None)
    assert not has_simd()
    assert fast_resize() is resize_pillow


def test_pillows_resize_is_pillows_in_every_bit():
    image = scene(500, 375)
    wanted = np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC, box=(62.5, 0, 437.5, 375)))
    np.testing.assert_array_equal(View(size=224).apply(image), wanted)
    np.testing.assert_array_equal(resize_pillow(image, (224, 224), "bicubic", (62.5, 0, 437.5, 375)), wanted)
