"""The optimisers by name, and which weights they leave undecayed."""

from __future__ import annotations

from torch import nn

from nonneg_training.optimisers.adamw import AdamW
from nonneg_training.optimisers.descent import Descent
from nonneg_training.optimisers.lars import LARS
from nonneg_training.optimisers.sgd import SGD
from nonneg_training.settings import Optimiser

__all__ = ["LARS", "SGD", "AdamW", "Descent", "optimiser"]


def optimiser(module: nn.Module, settings: Optimiser) -> Descent:
    """The optimiser of everything in `module` that learns; biases and norms are not decayed."""
    learning = [p for p in module.parameters() if p.requires_grad]
    decayed = [p for p in learning if p.ndim > 1]
    exempt = [p for p in learning if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": exempt, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if settings.name == "adamw":
        return AdamW(groups, settings.lr, betas=(settings.momentum, 0.999))
    if settings.name == "lars":
        return LARS(groups, settings.lr, momentum=settings.momentum)
    return SGD(groups, settings.lr, momentum=settings.momentum)
