"""What a probe loses on corrupted images: they are seen as the clean ones are."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_core.arrays import Floats
from nonneg_core.pixels.view import Pixels, View
from nonneg_training.data import open_data
from nonneg_training.data.images import subset
from nonneg_training.measure.encoder_outputs import encode_images
from research.study.robustness import CORRUPTIONS, STRENGTHS, corrupt, corrupted


@pytest.mark.parametrize("crop", [1.0, 0.5])
def test_corrupted_images_are_cropped_once_as_clean_ones_are(crop: float) -> None:
    images, view = subset(open_data("digits", split="test"), limit=40), View(size=8, crop=crop)
    shown: list[Pixels] = []

    def run(pixels: Pixels) -> dict[str, Floats]:
        shown.append(pixels)
        rows = pixels.reshape(len(pixels), -1).astype(np.float32)
        return {"z": rows, "features": rows}

    clean = encode_images(run, images, view, seconds=False)
    corrupted(run, images, view, clean)
    cropped = images.pixels(range(40), view)
    expected = [corrupt(name, cropped, strength) for name in CORRUPTIONS for strength in STRENGTHS[name]]
    for seen, changed in zip(shown[1:], expected, strict=True):
        np.testing.assert_array_equal(seen, changed[list(clean.order)])
