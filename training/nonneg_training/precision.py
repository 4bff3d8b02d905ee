"""Autocast: what runs in bf16 or fp16, and the loss scale that fp16 needs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer


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
            kept = self._scaler.state_dict()
            self._scaler.load_state_dict({name: type(kept[name])(float(state[name])) for name in kept})
