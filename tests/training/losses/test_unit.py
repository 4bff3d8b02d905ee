"""A vector of zeros, which `rep_relu` gives a gradient, moves the weights no more than others do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nonneg_training.encoder.encoder_module import rep_relu
from nonneg_training.losses import (
    clip,
    clip_length,
    divergence,
    infonce,
    nested_loss,
    prefix_similarities,
    spectral,
    squared_difference,
    supervised_contrastive,
    unit,
)
from nonneg_training.methods.head_method import sparsity

HALF, D = 8, 16
TEACHER = F.normalize(torch.randn(2 * HALF, 5, generator=torch.Generator().manual_seed(1)), dim=1)
COSINES = TEACHER @ TEACHER.T
LABELS = torch.arange(HALF).repeat(2)
LENGTHS = (2, D)
Loss = Callable[[Tensor], Tensor]
LOSSES: dict[str, Loss] = {
    "infonce": lambda z: infonce(z[:HALF], z[HALF:], 0.2),
    "nested": lambda z: nested_loss(lambda a, b: infonce(a, b, 0.2), LENGTHS, z[:HALF], z[HALF:]),
    "clip": lambda z: clip(z[:HALF], z[HALF:], torch.tensor(5.0)),
    "supervised": lambda z: supervised_contrastive(prefix_similarities(z, LENGTHS)[1], LABELS, 0.2),
    "squared": lambda z: squared_difference(prefix_similarities(z, LENGTHS)[0], COSINES),
    "divergence": lambda z: divergence(prefix_similarities(z, LENGTHS)[1], COSINES, 0.2),
    "sparsity": sparsity,
    "spectral": lambda z: spectral(clip_length(z[:HALF], 1.0), clip_length(z[HALF:], 1.0)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_of_a_row_that_is_all_below_zero_is_of_the_size_of_others(name: str) -> None:
    raw = torch.randn(2 * HALF, D, generator=torch.Generator().manual_seed(0))
    raw[3] = -raw[3].abs()
    raw.requires_grad_()
    LOSSES[name](rep_relu(raw)).backward()
    assert raw.grad is not None
    sizes = raw.grad.norm(dim=1)
    assert torch.isfinite(sizes).all()
    assert sizes[3] < 1000 * sizes.median()


def test_ordinary_vectors_are_divided_by_their_length() -> None:
    z = torch.rand(20, D) * torch.logspace(-1, 3, 20)[:, None]
    torch.testing.assert_close(unit(z), z / z.norm(dim=1, keepdim=True), atol=1e-6, rtol=0)
    assert unit(torch.zeros(1, D)).abs().sum() == 0


def test_rep_relu_trains_with_adamw_as_relu_does_where_some_vectors_are_zeros() -> None:
    ours, relus = trained(rep_relu), trained(F.relu)
    assert ours < relus + 0.4


def trained(activation: Callable[[Tensor], Tensor]) -> float:
    """Train a small encoder some of whose vectors begin as zeros; its last loss."""
    g = torch.Generator().manual_seed(0)
    kinds = torch.randn(40, 32, generator=g)
    layers = [torch.randn(32, 64, generator=g) / 6, torch.randn(64, 32, generator=g) / 14, torch.full((32,), -0.6)]
    weights = [layer.requires_grad_() for layer in layers]
    optimiser = torch.optim.AdamW(weights, 1e-3)
    for _ in range(150):
        x = kinds[torch.randint(0, 40, (32,), generator=g)].repeat(2, 1)
        hidden = ((x + 0.3 * torch.randn(x.shape, generator=g)) @ weights[0]).relu()
        z = activation(hidden @ weights[1] + weights[2])
        loss = infonce(z[:32], z[32:], 0.2)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return float(loss.detach())
