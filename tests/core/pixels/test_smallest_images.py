"""The least and narrowest images, and those at each fast path's threshold, by the fast path and by the plain one."""

from __future__ import annotations

import io
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from nonneg_core.pixels.decode import decode, opaque_srgb
from nonneg_core.pixels.view import View, fast_resize, has_simd, resize_pillow

SIDES = st.sampled_from([1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 500, 4097])
Fit = Literal["cover", "squash", "contain"]


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    bands = len(mode)
    values = np.random.default_rng(width * 7919 + height).integers(96, 160, (height, width, bands), np.uint8)
    return Image.fromarray(values.squeeze(-1) if bands == 1 else values, mode)


@pytest.mark.skipif(not has_simd(), reason="no resizer with SIMD instructions is installed")
@settings(deadline=None, max_examples=150)
@given(SIDES, SIDES, st.sampled_from([16, 33, 64]), st.sampled_from(["cover", "squash", "contain"]))
def test_the_fast_resize_is_the_plain_one_but_for_rounding(width: int, height: int, size: int, fit: Fit) -> None:
    image, view = noise(width, height), View(size=size, fit=fit)
    fast, plain = view.apply(image, fast_resize()).astype(int), view.apply(image, resize_pillow).astype(int)
    assert fast.shape == (size, size, 3)
    inner = np.abs(fast - plain)[2:-2, 2:-2]  # what lies outside the crop has no part in its outermost pixels
    assert np.quantile(inner, 0.98) <= 2
    assert inner.mean() <= 0.5
    if fit != "contain" and min(width, height) < size:  # enlarged somewhere: by Pillow, whichever way
        np.testing.assert_array_equal(fast, plain)


@pytest.mark.skipif(not has_simd(), reason="no resizer with SIMD instructions is installed")
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_fast_resize_hands_over_at_its_threshold(more: int) -> None:
    image, view = noise(64, 64 + more), View(size=16)
    fast, plain = view.apply(image, fast_resize(64 * 64)).astype(int), view.apply(image, resize_pillow).astype(int)
    assert np.abs(fast - plain).max() <= 1
    if more > 0:
        np.testing.assert_array_equal(fast, plain)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(SIDES, SIDES, st.sampled_from(["L", "RGBA"]), st.sampled_from([-1, 0, 1]))
def test_colours_made_in_strips_are_those_made_at_once(width: int, height: int, mode: str, more: int) -> None:
    image = noise(width, height, mode)
    whole = opaque_srgb(image, (9, 99, 200), strip=width * height)
    parts = opaque_srgb(image, (9, 99, 200), strip=max(1, width * height // 2 + more))
    np.testing.assert_array_equal(np.asarray(parts), np.asarray(whole))


@settings(deadline=None, max_examples=60)
@given(SIDES, SIDES, st.sampled_from([1, 2, 8, 64]))
def test_a_jpeg_decoded_smaller_keeps_its_sides_and_its_picture(width: int, height: int, at_least: int) -> None:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).save(buffer, "JPEG", quality=95)
    exact, fast = decode(buffer.getvalue()), decode(buffer.getvalue(), at_least=at_least)
    assert min(fast.size) >= min(at_least, *exact.size)
    ratio = min(width // at_least, height // at_least)
    scale = next((scale for scale in (8, 4, 2) if ratio >= scale), 1)
    assert fast.size == (-(-width // scale), -(-height // scale))
    across, down = width // scale, height // scale  # blocks that lie wholly within
    blocks = np.asarray(exact, float)[: down * scale, : across * scale, 0].reshape(down, scale, across, scale)
    assert np.abs(np.asarray(fast, float)[:down, :across, 0] - blocks.mean(axis=(1, 3))).mean() <= 6
