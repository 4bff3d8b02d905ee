"""What stands between the last linear layer and the embedding: the choice that makes it non-negative."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from nonneg_core.errors import ConfigInvalid


def rep_relu(z: Tensor) -> Tensor:
    """Go forward as exactly ReLU, backward as GELU, so that a dimension below zero can still come back."""
    if not z.requires_grad:
        return F.relu(z)
    g = F.gelu(z)
    return F.relu(z).detach() + (g - g.detach())


NON_NEGATIVE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "rep_relu": rep_relu,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "exp": torch.exp,
}
CONTROLS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda z: z,
    "gelu": F.gelu,
    "leaky_relu": F.leaky_relu,
}
ACTIVATIONS = NON_NEGATIVE | CONTROLS


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return the function of that name."""
    if name not in ACTIVATIONS:
        raise ConfigInvalid(
            f"activation={name!r} is unknown",
            fix=f"choose one of {', '.join(ACTIVATIONS)}",
            field="activation",
            value=name,
        )
    return ACTIVATIONS[name]
