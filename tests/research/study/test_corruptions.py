"""Corruptions change images more the stronger they are, and nothing else about them."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_training.data import open_data
from research.study.robustness import CORRUPTIONS, STRENGTHS, corrupt

PIXELS = open_data("digits", split="test").array[:40]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(CORRUPTIONS))
def test_each_keeps_the_form_and_grows_with_its_strength(name: str) -> None:
    distances = []
    for strength in STRENGTHS[name]:
        changed = corrupt(name, PIXELS, strength)
        assert changed.shape == PIXELS.shape
        assert changed.dtype == np.uint8
        np.testing.assert_array_equal(changed, corrupt(name, PIXELS, strength), "the same each time")
        distances.append(float(np.abs(changed.astype(int) - PIXELS).mean()))
    assert len(distances) == 5
    assert min(distances) > 0
    assert name == "sketch" or distances[-1] > distances[0], "the lines of a sketch grow harder, not more"


def test_a_style_without_strength_changes_nothing() -> None:
    assert np.abs(corrupt("stylised", PIXELS, 0.0).astype(int) - PIXELS).max() <= 1
    np.testing.assert_array_equal(corrupt("contrast", PIXELS, 1.0), PIXELS)


def test_a_full_style_takes_over_the_others_colours() -> None:
    changed = corrupt("stylised", PIXELS, 1.0).astype(float)
    order = np.roll(np.random.default_rng(0).permutation(len(PIXELS)), 1)
    means = PIXELS[order].mean(axis=(1, 2))
    assert np.corrcoef(changed.mean(axis=(1, 2)).ravel(), means.ravel())[0, 1] > 0.9
