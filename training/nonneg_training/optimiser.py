"""The optimiser of a run: which weights it leaves undecayed, and its moments as tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from nonneg_training.lars import LARS
from nonneg_training.settings import Optimiser


def build_optimiser(module: nn.Module, settings: Optimiser, pace: Callable[[str], float] | None = None) -> Optimizer:
    """Return the optimiser of everything in `module` that learns; biases and norms are not decayed.

    pace: how fast the parameter of a name learns, as a multiple of the rate.
    """
    kinds: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, weight in module.named_parameters():
        if weight.requires_grad:
            kinds.setdefault((weight.ndim <= 1, pace(name) if pace else 1.0), []).append(weight)
    groups: list[dict[str, Any]] = [
        {"params": kinds[exempt, speed], "weight_decay": 0.0 if exempt else settings.weight_decay, "pace": speed}
        for exempt, speed in sorted(kinds)
    ]
    if settings.name == "adamw":
        return AdamW(groups, settings.lr, betas=(settings.momentum, 0.999))
    if settings.name == "lars":
        return LARS(groups, settings.lr, momentum=settings.momentum)
    return SGD(groups, settings.lr, momentum=settings.momentum)


def moments(optimiser: Optimizer) -> dict[str, Tensor]:
    """Return all that the optimiser remembers, by the weight's number and a name."""
    states = optimiser.state_dict()["state"]
    return {
        f"{number}.{name}": tensor
        for number, state in states.items()
        for name, tensor in state.items()
        if isinstance(tensor, Tensor)
    }


def restore_moments(optimiser: Optimizer, kept: dict[str, Tensor]) -> None:
    """Put back what `moments` returned."""
    whole = optimiser.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in kept.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    optimiser.load_state_dict({**whole, "state": state})
