"""The optimiser of a run with its learning rate: AdamW, SGD or LARS, the schedule, and autocast with a loss scale."""

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from nonneg_training.setup.run_settings import Optimiser


class LARS(torch.optim.Optimizer):
    """Momentum SGD with a trust ratio; weights of one dimension (biases, norms) get neither ratio nor decay.

    clip: the ratio is divided by the rate and is at most one, as solo-learn and NCL's authors do it.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        eta: float = 1e-3,
        clip: bool = False,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "eta": eta, "clip": clip}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # a step needs no closure here
        """Move every weight that has a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        if weight.ndim > 1:
            ratio = trust_ratio(weight, gradient, group["eta"], group["weight_decay"])
            if group["clip"]:
                ratio = (ratio / group["lr"]).clamp(max=1)
            gradient = gradient.add(weight, alpha=group["weight_decay"]).mul(ratio)
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        velocity = state["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
        weight.add_(velocity, alpha=-group["lr"])


def trust_ratio(weight: Tensor, gradient: Tensor, eta: float, decay: float = 0.0) -> Tensor:
    """Return eta |w| / (|g| + decay |w|); one where either is zero: a fresh or untouched weight still moves plainly."""
    w, g = weight.norm(), gradient.norm()
    return torch.where((w > 0) & (g > 0), eta * w / (g + decay * w), torch.ones_like(w))


# The optimiser of a run: which weights it leaves undecayed, and its moments as tensors of a checkpoint.


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
        return LARS(groups, settings.lr, momentum=settings.momentum, eta=settings.eta, clip=True)
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


def restore_moments(optimiser: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `moments` returned."""
    whole = optimiser.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    optimiser.load_state_dict({**whole, "state": state})


# The learning rate: a straight rise, then half a cosine down to zero.


def scheduled_rate(step: int, steps: int, peak: float, warmup: float) -> float:
    """Return the rate of step 0 <= step < steps; the first `warmup` share of them rises."""
    rising = int(steps * warmup)
    if step < rising:
        return peak * (step + 1) / rising
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


# Autocast: what runs in bf16 or fp16, and the loss scale that fp16 needs.


class MixedPrecision:
    """fp32 does nothing; bf16 needs no scale; fp16 scales the loss so that small gradients survive."""

    def __init__(self, name: Literal["fp32", "bf16", "fp16"], device: torch.device) -> None:
        self._dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
        self._device, self._enabled = device.type, name != "fp32"
        self._scaler = torch.amp.GradScaler(device.type, enabled=name == "fp16")

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device, self._dtype, enabled=self._enabled)

    def backward(self, loss: Tensor) -> None:
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def step(self, optimiser: Optimizer) -> None:
        self._scaler.step(optimiser)
        self._scaler.update()

    def state(self) -> dict[str, Tensor]:
        """Return what an exact resume needs."""
        return {name: torch.tensor(float(value)) for name, value in self._scaler.state_dict().items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        if state:
            current = self._scaler.state_dict()
            self._scaler.load_state_dict({name: type(current[name])(float(state[name])) for name in current})
