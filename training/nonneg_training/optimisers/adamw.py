"""AdamW: steps by the ratio of the gradient's mean to its size, decay apart from both (arXiv 1711.05101)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from nonneg_training.optimisers.descent import Descent, Group, Memory, remembered


class AdamW(Descent):
    """Both averages are corrected for having begun at zero."""

    def __init__(
        self, groups: Iterable[Group], lr: float, *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        super().__init__(groups, lr)
        self.betas, self.eps = betas, eps

    def move(self, weight: Tensor, gradient: Tensor, memory: Memory, group: Group) -> None:
        first, second = self.betas
        count = int(memory.setdefault("step", torch.zeros(())).add_(1))
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        mean = remembered(memory, "exp_avg", weight).lerp_(gradient, 1 - first)
        size = remembered(memory, "exp_avg_sq", weight).mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = (size.sqrt() / (1 - second**count) ** 0.5).add_(self.eps)
        weight.addcdiv_(mean, root, value=-group["lr"] / (1 - first**count))
