"""LARS: SGD whose step on each weight matrix is a share of that matrix's length (arXiv 1708.03888)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class LARS(torch.optim.Optimizer):
    """Momentum SGD with a trust ratio; weights of one dimension (biases, norms) get neither ratio nor decay."""

    def __init__(
        self, params: Iterable[Any], lr: float, *, momentum: float = 0.9, weight_decay: float = 0.0, eta: float = 1e-3
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "eta": eta})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # a step needs no closure here
        """Move every weight that has a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        if weight.ndim > 1:
            gradient = gradient.add(weight, alpha=group["weight_decay"])
            gradient = gradient.mul(trust_ratio(weight, gradient, group["eta"]))
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        velocity = state["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
        weight.add_(velocity, alpha=-group["lr"])


def trust_ratio(weight: Tensor, gradient: Tensor, eta: float) -> Tensor:
    """Return eta |w| / |g|; one where either is zero, so that a fresh or untouched weight still moves plainly."""
    w, g = weight.norm(), gradient.norm()
    return torch.where((w > 0) & (g > 0), eta * w / g, torch.ones_like(w))
