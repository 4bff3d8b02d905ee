"""SGD with momentum."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from nonneg_training.optimisers.descent import Descent, Group, Memory, remembered


class SGD(Descent):
    """v = m v + g + decay w; w = w - lr v."""

    def __init__(self, groups: Iterable[Group], lr: float, *, momentum: float = 0.9) -> None:
        super().__init__(groups, lr)
        self.momentum = momentum

    def move(self, weight: Tensor, gradient: Tensor, memory: Memory, group: Group) -> None:
        velocity = remembered(memory, "momentum_buffer", weight).mul_(self.momentum).add_(gradient)
        if group["weight_decay"]:
            velocity.add_(weight, alpha=group["weight_decay"])
        weight.add_(velocity, alpha=-group["lr"])
