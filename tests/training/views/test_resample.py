"""The batched crop and blur against torchvision's, one image at a time."""

from __future__ import annotations

import pytest
import torch

import nonneg_training.encoder.torchvision_schemas  # noqa: F401
from nonneg_training.views import pipeline as augmentations

functional = pytest.importorskip("torchvision.transforms.v2.functional")


def images(side: int, count: int = 6) -> torch.Tensor:
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(1)) * 255


@pytest.mark.parametrize(("side", "size"), [(32, 32), (96, 32), (20, 48)])
def test_crop_and_resize_are_torchvisions(side: int, size: int) -> None:
    g = torch.Generator().manual_seed(2)
    x = images(side)
    full = torch.full((len(x),), float(side))
    boxes = augmentations.random_boxes(len(x), full, full, (0.08, 1.0), g)
    ours = augmentations.crop_resize(x, boxes, size, torch.tensor([False, True] * 3))
    for i, (top, left, height, width) in enumerate(boxes.int().tolist()):
        theirs = functional.resized_crop(x[i], top, left, height, width, [size, size], antialias=True)
        torch.testing.assert_close(ours[i], theirs.flip(2) if i % 2 else theirs, atol=0.02, rtol=0)


def test_boxes_lie_inside_and_cover_the_share_asked_for() -> None:
    height, width = torch.full((2000,), 60.0), torch.full((2000,), 100.0)
    top, left, h, w = augmentations.random_boxes(
        2000, height, width, (0.25, 0.5), torch.Generator().manual_seed(0)
    ).unbind(1)
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + h <= 60).all()
    assert (left + w <= 100).all()
    share = h * w / 6000
    assert 0.23 < float(share.min()) < 0.28
    assert 0.47 < float(share.max()) < 0.53
    assert 0.36 < float(share.mean()) < 0.39


def test_a_picture_too_narrow_for_any_box_is_cut_square() -> None:
    boxes = augmentations.random_boxes(5, torch.full((5,), 2.0), torch.full((5,), 100.0), (0.9, 1.0), torch.Generator())
    assert (boxes[:, 2:] == 2).all()


@pytest.mark.parametrize(("size", "kernel"), [(32, 3), (48, 5), (224, 23)])
def test_the_blur_is_torchvisions(size: int, kernel: int) -> None:
    x = images(size, count=3)
    sigma = torch.tensor([0.1, 0.7, 2.0])
    matrix = augmentations.blur_weights(sigma, size, kernel)
    ours = augmentations.separable(x, matrix, matrix)
    for i in range(3):
        theirs = functional.gaussian_blur(x[i], [kernel, kernel], [float(sigma[i])] * 2)
        torch.testing.assert_close(ours[i], theirs, atol=0.01, rtol=0)
