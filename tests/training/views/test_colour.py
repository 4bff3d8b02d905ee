"""The batched colour changes against torchvision's, one image and one factor at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import nonneg_training.encoder.torchvision_schemas  # noqa: F401
from nonneg_training.views import pipeline as augmentations

functional = pytest.importorskip("torchvision.transforms.v2.functional")


def images() -> torch.Tensor:
    x = torch.rand(6, 3, 9, 9, generator=torch.Generator().manual_seed(3)) * 255
    x[0] = 128.0  # grey: no hue
    x[1, 0] = 255.0
    x[2] = 0.0
    return x


@pytest.mark.parametrize(
    ("ours", "theirs", "factors"),
    [
        (augmentations.brightness, functional.adjust_brightness, [0.2, 0.7, 1.0, 1.3, 1.8, 0.0]),
        (augmentations.contrast, functional.adjust_contrast, [0.2, 0.7, 1.0, 1.3, 1.8, 0.0]),
        (augmentations.saturation, functional.adjust_saturation, [0.2, 0.7, 1.0, 1.3, 1.8, 0.0]),
        (augmentations.hue, functional.adjust_hue, [-0.2, 0.0, 0.1, 0.2, -0.5, 0.5]),
    ],
)
def test_each_image_gets_its_own_factor(
    ours: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    theirs: Callable[[torch.Tensor, float], torch.Tensor],
    factors: list[float],
) -> None:
    x = images()
    together = ours(x.clone(), torch.tensor(factors))
    for image, factor, got in zip(x, factors, together, strict=True):
        torch.testing.assert_close(got, theirs(image / 255, factor) * 255, atol=0.05, rtol=0)


def test_grey_is_torchvisions() -> None:
    x = images()
    torch.testing.assert_close(augmentations.grey(x), functional.rgb_to_grayscale(x), atol=0.05, rtol=0)
