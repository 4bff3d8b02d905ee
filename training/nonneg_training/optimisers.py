"""The optimisers by name, and which weights they leave undecayed."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from nonneg_training.lars import LARS
from nonneg_training.settings import Optimiser


def optimiser(modules: Iterable[nn.Module], settings: Optimiser) -> torch.optim.Optimizer:
    """The optimiser of everything in `modules` that learns; biases and norms are not decayed."""
    learning = [p for module in modules for p in module.parameters() if p.requires_grad]
    decayed = [p for p in learning if p.ndim > 1]
    exempt = [p for p in learning if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": exempt, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if settings.name == "adamw":
        return torch.optim.AdamW(groups, lr=settings.lr, betas=(settings.momentum, 0.999))
    if settings.name == "lars":
        return LARS(groups, lr=settings.lr, momentum=settings.momentum)
    return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)


def gradients(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """The gradients the next step will use."""
    return [p.grad for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
