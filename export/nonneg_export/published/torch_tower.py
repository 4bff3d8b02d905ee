"""A torch module that takes float images, made a tower: pixels scaled inside, exported to ONNX."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto
from torch import Tensor, nn

from nonneg_core.errors import ConfigInvalid, DataInvalid, MissingExtra
from nonneg_core.installing import extra_hint
from nonneg_core.pixels.view import Pixels, View
from nonneg_export.convert import to_onnx
from nonneg_export.published.tower import Reference
from nonneg_training.onnx_backbone.adapting import Pool, Scaling

Answer = Callable[[Any, Tensor], Any]


def package(name: str) -> Any:
    """A package of models; torchvision, which most of them load, has to be made ready before."""
    try:
        import_module("nonneg_training.torchvision_schemas")
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"this model needs {error.name}", fix=extra_hint("wrap")) from None


class Scaled(nn.Module):
    """uint8 (batch, h, w, 3) -> one row of features an image."""

    mean: Tensor
    std: Tensor

    def __init__(self, inner: nn.Module, answer: Answer, scaling: Scaling) -> None:
        """`answer`: calls the module on float images (batch, 3, h, w) and takes what it says."""
        super().__init__()
        self.inner, self.answer, self.factor = inner, answer, scaling.factor
        self.register_buffer("mean", torch.tensor(scaling.mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(scaling.std).view(1, -1, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        x = (pixels.permute(0, 3, 1, 2).float() * self.factor - self.mean) / self.std
        found: Tensor = self.answer(self.inner, x)
        return found


def as_tower(inner: nn.Module, answer: Answer, view: View, scaling: Scaling) -> tuple[ModelProto, Reference]:
    """The module as ONNX, and what torch answers."""
    module = Scaled(inner.float(), answer, scaling).eval()

    def run(pixels: Pixels) -> NDArray[np.float32]:
        with torch.inference_mode():
            rows: NDArray[np.float32] = module(torch.from_numpy(np.ascontiguousarray(pixels))).numpy()
        return rows

    try:
        shape = run(np.zeros((2, view.size, view.size, 3), np.uint8)).shape
    except (RuntimeError, ValueError) as error:
        raise ConfigInvalid(
            f"the model does not take {view.size} x {view.size} pixels ({str(error).splitlines()[0]})",
            fix="say the side that it takes with --size",
            field="size",
            value=view.size,
        ) from error
    if len(shape) != 2 or shape[0] != 2:
        raise DataInvalid(
            f"the model answers {shape} for two images, not a row each", fix="pool it with --pool mean or --pool cls"
        )
    return to_onnx(module, view.size), run


def pooled(tokens: Tensor, pool: Pool | None) -> Tensor:
    """Tokens (batch, tokens, D) or a feature map (batch, D, h, w) as rows (batch, D)."""
    if tokens.ndim == 4:
        return tokens.mean(dim=(2, 3))
    if tokens.ndim == 3 and pool is not None:
        return tokens[:, 0] if pool == "cls" else tokens.mean(dim=1)
    return tokens
