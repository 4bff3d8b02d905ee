"""InfoNCE against the definition written out in loops."""

from __future__ import annotations

import math

import pytest
import torch

from nonneg_training.losses import infonce, loss_of_equal_vectors


def slowly(z1: torch.Tensor, z2: torch.Tensor, temperature: float) -> float:
    z = [v / v.norm() for v in [*z1, *z2]]
    total = 0.0
    for i, anchor in enumerate(z):
        positive = (i + len(z1)) % len(z)
        others = [math.exp(float(anchor @ other) / temperature) for j, other in enumerate(z) if j != i]
        total -= math.log(math.exp(float(anchor @ z[positive]) / temperature) / sum(others))
    return total / len(z)


@pytest.mark.parametrize("temperature", [0.1, 0.2, 1.0])
def test_it_is_the_definition(temperature: float) -> None:
    g = torch.Generator().manual_seed(0)
    z1, z2 = (torch.randn(7, 5, generator=g, dtype=torch.float32) for _ in range(2))
    assert float(infonce(z1, z2, temperature)) == pytest.approx(slowly(z1, z2, temperature), rel=1e-5)


def test_equal_vectors_cost_what_collapse_costs() -> None:
    z = torch.ones(16, 4)
    assert float(infonce(z, z, 0.2)) == pytest.approx(loss_of_equal_vectors(16), rel=1e-6)


def test_zero_vectors_have_finite_loss_and_gradient() -> None:
    z1 = torch.zeros(4, 8, requires_grad=True)
    infonce(z1, torch.rand(4, 8), 0.2).backward()
    assert z1.grad is not None
    assert torch.isfinite(z1.grad).all()
