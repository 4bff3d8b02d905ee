"""The same losses and steps as lightly, pytorch-metric-learning, and the authors' framework, solo-learn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_training.encoder.encoder_module import rep_relu
from nonneg_training.loop.optimiser import LARS
from nonneg_training.losses import infonce
from nonneg_training.setup.run_settings import Views
from nonneg_training.views.pipeline import random_boxes

TEMPERATURE = 0.2
peers = pytest.mark.nightly  # they are installed by `pip install lightly pytorch-metric-learning`


def views() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    z1, z2 = (torch.randn(32, 24, generator=g).relu().requires_grad_() for _ in range(2))
    return z1, z2


def assert_alike(loss: Any) -> None:
    """Hold a loss of both views, and its gradient, against ours."""
    z1, z2 = views()
    theirs, ours = loss(z1, z2), infonce(z1, z2, TEMPERATURE)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    for mine, other in zip(torch.autograd.grad(ours, (z1, z2)), torch.autograd.grad(theirs, (z1, z2)), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=0)


def test_infonce_is_the_loss_of_the_authors_framework() -> None:
    """Similarities to all but itself; each image's other view is its only positive (solo-learn, from its formula)."""

    def solo(z1: Tensor, z2: Tensor) -> Tensor:
        z = torch.nn.functional.normalize(torch.cat([z1, z2]), dim=-1)
        sim = torch.exp(z @ z.T / TEMPERATURE)
        number = torch.arange(len(z1)).repeat(2)
        positive = (number[:, None] == number[None]) & ~torch.eye(len(z), dtype=torch.bool)
        negative = number[:, None] != number[None]
        pos = (sim * positive).sum(dim=1)
        return -torch.log(pos / (pos + (sim * negative).sum(dim=1))).mean()

    assert_alike(solo)


def test_rep_relu_is_relu_forward_and_gelu_backward() -> None:
    z = torch.linspace(-3, 3, 601, requires_grad=True)
    y = rep_relu(z)
    torch.testing.assert_close(y, z.relu(), atol=1e-7, rtol=0)
    (slope,) = torch.autograd.grad(y.sum(), z)
    (expected,) = torch.autograd.grad(torch.nn.functional.gelu(z).sum(), z)
    assert torch.equal(slope, expected)


@peers
def test_infonce_is_lightlys() -> None:
    assert_alike(pytest.importorskip("lightly.loss").NTXentLoss(temperature=TEMPERATURE))


@peers
def test_infonce_is_that_of_pytorch_metric_learning() -> None:
    loss = pytest.importorskip("pytorch_metric_learning.losses").NTXentLoss(temperature=TEMPERATURE)
    assert_alike(lambda z1, z2: loss(torch.cat([z1, z2]), torch.arange(len(z1)).repeat(2)))


@peers
def test_lars_is_lightlys() -> None:
    lars = pytest.importorskip("lightly.utils.lars").LARS
    weights = [torch.randn(6, 5, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2)]
    options: dict[str, Any] = {"lr": 0.3, "momentum": 0.9, "weight_decay": 1e-2}
    ours, theirs = LARS(weights[:1], eta=1e-3, **options), lars(weights[1:], trust_coefficient=1e-3, **options)
    for step in range(5):
        for weight, optimiser in zip(weights, (ours, theirs), strict=True):
            weight.grad = torch.randn(6, 5, generator=torch.Generator().manual_seed(step))
            optimiser.step()
    torch.testing.assert_close(weights[0], weights[1], atol=1e-6, rtol=0)


@peers
def test_crops_have_the_quantiles_of_torchvisions_over_ten_thousand_draws() -> None:
    from torchvision.transforms import RandomResizedCrop

    count, side = 10_000, 32
    g = torch.Generator().manual_seed(0)
    height, width = (torch.full((count,), float(side)) for _ in range(2))
    boxes = random_boxes(count, height, width, Views().crop, g)  # top, left, height, width
    torch.manual_seed(1)
    image = torch.zeros(3, side, side)
    drawn = [RandomResizedCrop.get_params(image, list(Views().crop), [3 / 4, 4 / 3]) for _ in range(count)]
    theirs = torch.tensor(drawn, dtype=torch.float32)
    levels = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])
    for name, column in (("area", lambda b: b[:, 2] * b[:, 3] / side**2), ("ratio", lambda b: b[:, 3] / b[:, 2])):
        mine, other = (torch.quantile(column(side_).float(), levels) for side_ in (boxes, theirs))
        torch.testing.assert_close(mine, other, atol=0.04, rtol=0.04, msg=f"{name}: {mine} against {other}")
