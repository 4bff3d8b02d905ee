"""The optimisers by name, and which weights they leave undecayed."""

from __future__ import annotations

import torch
from torch import nn

from nonneg_training.lars import LARS
from nonneg_training.settings import Optimiser


def optimiser(module: nn.Module, settings: Optimiser) -> torch.optim.Optimizer:
    """The optimiser of everything in `module` that learns; biases and norms are not decayed."""
    learning = [p for p in module.parameters() if p.requires_grad]
    decayed = [p for p in learning if p.ndim > 1]
    exempt = [p for p in learning if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": exempt, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if settings.name == "adamw":
        return torch.optim.AdamW(groups, lr=settings.lr, betas=(settings.momentum, 0.999))
    if settings.name == "lars":
        return LARS(groups, lr=settings.lr, momentum=settings.momentum)
    return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)
