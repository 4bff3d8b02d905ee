"""LARS: SGD whose step on each weight matrix is a share of that matrix's length (arXiv 1708.03888)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from nonneg_training.optimisers.descent import Descent, Group, Memory, remembered


class LARS(Descent):
    """Momentum SGD with a trust ratio; weights of one dimension (biases, norms) get neither ratio nor decay."""

    def __init__(self, groups: Iterable[Group], lr: float, *, momentum: float = 0.9, eta: float = 1e-3) -> None:
        super().__init__(groups, lr)
        self.momentum, self.eta = momentum, eta

    def move(self, weight: Tensor, gradient: Tensor, memory: Memory, group: Group) -> None:
        if weight.ndim > 1:
            gradient = gradient.add(weight, alpha=group["weight_decay"])
            gradient = gradient.mul(trust_ratio(weight, gradient, self.eta))
        velocity = remembered(memory, "momentum_buffer", weight).mul_(self.momentum).add_(gradient)
        weight.add_(velocity, alpha=-group["lr"])


def trust_ratio(weight: Tensor, gradient: Tensor, eta: float) -> Tensor:
    """eta |w| / |g|; one where either is zero, so that a fresh or untouched weight still moves plainly."""
    w, g = weight.norm(), gradient.norm()
    return torch.where((w > 0) & (g > 0), eta * w / g, torch.ones_like(w))
