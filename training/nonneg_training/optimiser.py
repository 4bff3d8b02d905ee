"""The optimiser of a run: which weights it leaves undecayed, and its moments as tensors of a checkpoint."""

from __future__ import annotations

from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from nonneg_training.lars import LARS
from nonneg_training.settings import Optimiser


def build_optimiser(module: nn.Module, settings: Optimiser) -> Optimizer:
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


def moments(optimiser: Optimizer) -> dict[str, Tensor]:
    """All that the optimiser remembers, by the weight's number and a name."""
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
