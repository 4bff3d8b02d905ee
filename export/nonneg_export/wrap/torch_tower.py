"""A torch module that takes float images or tokens, made a tower and exported to ONNX; pixels are scaled inside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import torch
from onnx import ModelProto
from torch import Tensor, nn

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_core.terminal.installing import needing
from nonneg_export.assembly.text_towers import TextEncoder
from nonneg_export.graphs.convert import in_torch, text_to_onnx, to_onnx
from nonneg_export.wrap.tower import Reference
from nonneg_training.onnx_backbone.scaling_and_pooling import Pool, Scaling

Forward = Callable[[Any, Tensor], Any]


def package(name: str) -> Any:
    """Return a package of models; torchvision, which most of them load, has to be made ready before."""
    with needing("this model", extra="wrap"):
        import_module("nonneg_training.encoder.torchvision_schemas")
        return import_module(name)


class PixelsToFeatures(nn.Module):
    """uint8 (batch, h, w, 3) -> one row of features an image."""

    mean: Tensor
    std: Tensor

    def __init__(self, inner: nn.Module, answer: Forward, scaling: Scaling) -> None:
        """Wrap a module; `answer` calls it on float images (batch, 3, h, w) and takes the features from its answer."""
        super().__init__()
        self.inner, self.answer, self.factor = inner, answer, scaling.factor
        self.register_buffer("mean", torch.tensor(scaling.mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(scaling.std).view(1, -1, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        x = (pixels.permute(0, 3, 1, 2).float() * self.factor - self.mean) / self.std
        embedding: Tensor = self.answer(self.inner, x)
        return embedding


def as_tower(inner: nn.Module, answer: Forward, view: View, scaling: Scaling) -> tuple[ModelProto, Reference]:
    """Return the module as ONNX, and what torch answers."""
    module = PixelsToFeatures(inner.float(), answer, scaling).eval()
    run = in_torch(module)
    with fitting(view.size):
        shape = run(np.zeros((2, view.size, view.size, 3), np.uint8)).shape
    if len(shape) != 2 or shape[0] != 2:
        raise DataInvalid(
            f"the model answers {shape} for two images, not a row each", fix="pool it with --pool mean or --pool cls"
        )
    return to_onnx(module, view.size), run


@contextmanager
def fitting(size: int) -> Iterator[None]:
    """Turn what a model raises on pictures of another side than its own into ConfigInvalid."""
    try:
        yield
    except (RuntimeError, ValueError, AssertionError) as error:  # an assertion: timm's and torchvision's ViT
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigInvalid(
            f"the model does not take {size} x {size} pixels ({reason})",
            fix="say the side that it takes with --size",
            field="size",
            value=size,
        ) from error


class TokensToFeatures(nn.Module):
    """int64 (batch, length) -> one row of features a text."""

    def __init__(self, inner: nn.Module, answer: Forward) -> None:
        """Wrap a module; `answer` calls it on tokens and takes the features from its answer."""
        super().__init__()
        self.inner, self.answer = inner, answer

    def forward(self, tokens: Tensor) -> Tensor:
        embedding: Tensor = self.answer(self.inner, tokens)
        return embedding


def as_text_encoder(inner: nn.Module, answer: Forward, tokenizer: str, length: int, pad: int) -> TextEncoder:
    """Return the text tower of a module as ONNX, with what torch answers; `tokenizer` is the content of its file."""
    module = TokensToFeatures(inner, answer).eval()
    return TextEncoder(text_to_onnx(module, length), tokenizer, length, pad, in_torch(module))


def pooled(tokens: Tensor, pool: Pool | None) -> Tensor:
    """Return tokens (batch, tokens, D) or a feature map (batch, D, h, w) as rows (batch, D)."""
    if tokens.ndim == 4:
        return tokens.mean(dim=(2, 3))
    if tokens.ndim == 3 and pool is not None:
        return tokens[:, 0] if pool == "cls" else tokens.mean(dim=1)
    return tokens
