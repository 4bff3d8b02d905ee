"""A torch module that takes float images or tokens, made a tower and exported to ONNX; pixels are scaled inside."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
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
from nonneg_export.share.hub_repository import HubRepository
from nonneg_export.wrap.tower import Pooling, Reference, TowerOverrides
from nonneg_training.onnx_backbone.scaling_and_pooling import Pool, Scaling

Forward = Callable[[Any, Tensor], Any]


def package(name: str) -> Any:
    """Return a package of models; torchvision, which most of them load, has to be made ready before."""
    with needing("this model", extra="wrap"):
        import_module("nonneg_training.encoder.torchvision_schemas")
        return import_module(name)


def fetch_weights(repository: HubRepository, name: str, *, fix: str) -> Path:
    """Return the file of weights; refused where the repository has none as safetensors."""
    if name not in repository.files:
        raise DataInvalid(
            f"{repository} has no {name}: reading a pickle runs what its author wrote", fix=fix, field="model"
        )
    return repository.fetch(name)


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


# What is taken of a model of transformers: found by asking it once, stated, and the same in what is exported.

ANSWER = "image_embeds"  # what a library is said to answer that answers a tensor
MASKED = "vit_mae"  # it leaves patches out at random


@dataclass(frozen=True)
class ImageAnswer:
    """Calls a model on float images (batch, 3, h, w) and returns one row an image."""

    output: str
    pool: Pool | None
    axes: int  # of that output
    features: bool  # the model has two towers, and is asked for its image features
    projected: bool

    def __call__(self, model: Any, x: Tensor) -> Tensor:
        """Return the rows."""
        return pooled(_outputs(model, x, features=self.features)[self.output], self.pool)

    def __str__(self) -> str:
        if self.axes == 2:
            return f"the projected {self.output}" if self.projected else self.output
        if self.axes == 4:
            return f"the mean of the map {self.output}"
        part = {"cls": "the class token", "mean": "the mean of the tokens", None: "all tokens"}[self.pool]
        return f"{part} of {self.output}"


def choose(model: nn.Module, usual: Pooling, overrides: TowerOverrides, size: int) -> ImageAnswer:
    """Return what is taken of this model: what was asked for, else what is usual in its family."""
    explicit = overrides.pool is not None or overrides.output is not None
    pool = overrides.pool if explicit else usual.pool
    features = hasattr(model, "get_image_features") and pool is None
    with fitting(size), torch.no_grad():
        tensors = _outputs(model, torch.zeros(2, 3, size, size), features=features)
    names = (overrides.output or "last_hidden_state",) if explicit else (*usual.outputs, "last_hidden_state")
    name = next((name for name in names if name in tensors), None)
    if name is None:
        raise ConfigInvalid(
            f"the model has no output {names[0]!r}",
            fix=f"choose one of {', '.join(tensors)} with --output",
            field="output",
            value=names[0],
        )
    if not explicit and name not in usual.outputs:
        pool = usual.of_tokens
    axes = tensors[name].ndim
    _check_pool(name, axes, pool)
    if axes == 4 and tensors[name].shape[2:] == (1, 1):
        axes = 2  # a map of one place is a row
    projected = features and hasattr(model, "visual_projection") and name != "last_hidden_state"
    return ImageAnswer(name, pool, axes, features, projected)


def _check_pool(name: str, axes: int, pool: Pool | None) -> None:
    """Refuse a pooling that this output has no use for."""
    if pool is None or axes == 3 or (axes == 4 and pool == "mean"):
        return
    raise ConfigInvalid(
        f"output {name!r} is {'one row an image already' if axes == 2 else 'a map without a class token'}",
        fix="leave --pool out" if axes == 2 else "pool it with --pool mean",
        field="pool",
        value=pool,
    )


def check_weights(model: nn.Module, answer: ImageAnswer, missing: Iterable[str], size: int) -> None:
    """Refuse an answer that weights take part in which the repository does not have: they are random."""
    parameters = {name: value for name, value in model.named_parameters() if name in set(missing)}
    if not parameters:
        return
    with fitting(size):
        rows = answer(model, torch.zeros(1, 3, size, size))
    slopes = torch.autograd.grad(rows.sum(), list(parameters.values()), allow_unused=True)
    used = [name for name, slope in zip(parameters, slopes, strict=True) if slope is not None]
    if used:
        raise DataInvalid(
            f"its weights lack {', '.join(used[:3])}, which {answer} is made with",
            fix="take the tokens: --pool cls or --pool mean",
            field="output",
            value=answer.output,
        )


def _outputs(model: Any, x: Tensor, *, features: bool) -> dict[str, Tensor]:
    """Return the tensors that a model answers, by name."""
    if features:
        output = model.get_image_features(pixel_values=x)
    else:
        inner = getattr(model, "vision_model", model)  # the image tower of a model with two
        output = inner(pixel_values=x, **_in_order(inner, x))
    if isinstance(output, Tensor):
        return {ANSWER: output}
    return {name: value for name, value in output.items() if isinstance(value, Tensor)}


def _in_order(model: Any, x: Tensor) -> dict[str, Tensor]:
    """Return what keeps a masked autoencoder from shuffling patches: their order in place of random numbers."""
    if model.config.model_type != MASKED:
        return {}
    order = torch.arange(model.embeddings.patch_embeddings.num_patches, dtype=torch.float32)
    return {"noise": order.expand(x.shape[0], -1)}


def unmasked(model: nn.Module) -> nn.Module:
    """Make a masked autoencoder, if it is one, see all patches."""
    config: Any = model.config
    if config.model_type == MASKED:
        config.mask_ratio = 0.0
    return model
