"""The evaluation view: one geometry for training, serving and local use."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from nonneg_core.pixels.view import View

WIDE = Image.new("RGB", (300, 100))
WIDE.paste((255, 0, 0), (0, 0, 100, 100))
WIDE.paste((0, 255, 0), (100, 0, 200, 100))
WIDE.paste((0, 0, 255), (200, 0, 300, 100))


@pytest.mark.parametrize("fit", ["cover", "squash", "contain"])
@pytest.mark.parametrize("size", [(1, 1), (7, 300), (300, 7), (64, 64)])
def test_every_shape_of_image_becomes_the_square(fit, size):
    pixels = View(size=32, fit=fit).apply(Image.new("RGB", size, (9, 8, 7)))
    assert pixels.shape == (32, 32, 3)
    assert pixels.dtype == np.uint8


def test_cover_keeps_the_middle():
    pixels = View(size=50).apply(WIDE)
    assert (pixels[:, 2:-2] == (0, 255, 0)).all()  # the outermost columns blend with what was cut


def test_squash_keeps_everything():
    pixels = View(size=30, fit="squash", interpolation="nearest").apply(WIDE)
    assert pixels[15, 2].tolist() == [255, 0, 0]
    assert pixels[15, 27].tolist() == [0, 0, 255]


def test_contain_pads_with_the_background():
    pixels = View(size=30, fit="contain", background=(1, 2, 3)).apply(WIDE)
    assert pixels[0, 0].tolist() == [1, 2, 3]
    assert pixels[15, 1].tolist() == [255, 0, 0]


def test_the_crop_is_a_share_of_the_short_side():
    image = Image.new("RGB", (256, 256), (255, 255, 255))
    image.paste((0, 0, 0), (16, 16, 240, 240))
    assert View(size=224, crop=224 / 256, interpolation="nearest").apply(image).max() == 0
    assert View(size=224, interpolation="nearest").apply(image).max() == 255


def test_cropping_inside_resize_is_cropping_before_it():
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (120, 200, 3), dtype=np.uint8))
    cropped = image.crop((40, 0, 160, 120)).resize((60, 60), Image.Resampling.BICUBIC)
    difference = np.asarray(cropped).astype(int) - View(size=60).apply(image)
    assert abs(difference[4:-4, 4:-4]).max() <= 1  # at the border the box may look beyond itself


def test_a_view_is_written_and_read_back_the_same():
    view = View(size=224, crop=0.875, interpolation="bilinear", background=(0, 0, 0))
    assert View.model_validate_json(view.model_dump_json()) == view


@pytest.mark.parametrize("bad", [{"size": 0}, {"size": 9000}, {"size": 8, "crop": 0}, {"size": 8, "zoom": 2}])
def test_a_view_that_makes_no_sense_is_refused(bad):
    with pytest.raises(ValidationError):
        View(**bad)
