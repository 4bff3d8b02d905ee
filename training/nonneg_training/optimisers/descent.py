"""What the optimisers have in common: groups of weights, what is remembered of each, and a step.

torch's own load its compiler for their first step: 80 MB and two seconds, for a few lines of arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

Group = dict[str, Any]  # params, lr, weight_decay
Memory = dict[str, Tensor]


class Descent(ABC):
    """`param_groups` as torch's have them, so that schedules and the loss scaler of fp16 find their way."""

    def __init__(self, groups: Iterable[Group], lr: float) -> None:
        self.param_groups = [
            {"lr": lr, "weight_decay": 0.0, **group, "params": list(group["params"])} for group in groups
        ]
        self.state: dict[Tensor, Memory] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Move every weight that has a gradient."""
        for weight, group in self._weights():
            if weight.grad is not None:
                self.move(weight, weight.grad, self.state.setdefault(weight, {}), group)

    @abstractmethod
    def move(self, weight: Tensor, gradient: Tensor, memory: Memory, group: Group) -> None:
        """One weight, in place."""

    def zero_grad(self) -> None:
        for weight, _ in self._weights():
            weight.grad = None

    def moments(self) -> dict[str, Tensor]:
        """All that is remembered, by the weight's number and a name."""
        rows = enumerate(self.state.get(weight, {}) for weight, _ in self._weights())
        return {f"{number}.{name}": tensor for number, memory in rows for name, tensor in memory.items()}

    def restore(self, moments: dict[str, Tensor]) -> None:
        """Remember again what `moments` told."""
        weights = [weight for weight, _ in self._weights()]
        for key, tensor in moments.items():
            number, _, name = key.partition(".")
            weight = weights[int(number)]
            kept = torch.empty_like(weight) if tensor.shape == weight.shape else torch.empty_like(tensor)
            self.state.setdefault(weight, {})[name] = kept.copy_(tensor)

    def _weights(self) -> Iterator[tuple[Tensor, Group]]:
        return ((weight, group) for group in self.param_groups for weight in group["params"])


def remembered(memory: Memory, name: str, like: Tensor) -> Tensor:
    """What is remembered under this name, at first zeros."""
    if name not in memory:
        memory[name] = torch.zeros_like(like)
    return memory[name]
