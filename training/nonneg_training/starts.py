"""Where a head starts from: its rows as directions of the backbone's centred features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nonneg_core.errors import ConfigInvalid
from nonneg_training.cache import Features

SAMPLE = 20_000  # features that mean and components are computed from


def sample(features: Features) -> Tensor:
    """Evenly spread rows of the first view, (n, width)."""
    count = features.shape[1]
    rows = torch.linspace(0, count - 1, min(count, SAMPLE)).long().numpy()
    return torch.from_numpy(features[0, rows].copy())


@torch.no_grad()
def start(layer: nn.Linear, x: Tensor, how: str, g: torch.Generator) -> None:
    """Fill `layer` so that it answers directions . (x - mean), scaled to a mean square of about one."""
    mean = x.mean(dim=0)
    rows = _DIRECTIONS[how](x - mean, layer.out_features, g)  # (D, width)
    scale = ((x - mean) @ rows.T).square().mean().sqrt().clamp(min=1e-12)
    layer.weight.copy_(rows / scale)
    layer.bias.copy_(-(layer.weight @ mean))


def random(x: Tensor, dimensions: int, g: torch.Generator) -> Tensor:
    """Random directions of length one."""
    return F.normalize(torch.randn(dimensions, x.shape[1], generator=g), dim=1)


def centred(x: Tensor, dimensions: int, _: torch.Generator) -> Tensor:
    """One dimension a feature, those that vary most first: relu(feature - mean) before any training."""
    width = x.shape[1]
    if dimensions > width:
        raise ConfigInvalid(
            f"head.start=centred has no more than the backbone's {width} features for {dimensions} dimensions",
            fix=f"use model.dimensions={width} or head.start=random",
            field="head.start",
            limit=width,
        )
    order = x.var(dim=0).argsort(descending=True)[:dimensions]
    return torch.eye(width)[order]


def principal(x: Tensor, dimensions: int, g: torch.Generator) -> Tensor:
    """Each principal component and its opposite, strongest first; random directions when they run out."""
    _, _, components = torch.linalg.svd(x, full_matrices=False)
    both = torch.stack([components, -components], dim=1).flatten(0, 1)[:dimensions]
    rest = dimensions - len(both)
    return torch.cat([both, random(x, rest, g)]) if rest else both


def both(x: Tensor, dimensions: int, g: torch.Generator) -> Tensor:
    """Principal components in front, for short prefixes; behind them every feature, so that the whole loses nothing."""
    width = x.shape[1]
    if dimensions <= width:
        raise ConfigInvalid(
            f"head.start=both needs more dimensions than the backbone's {width} features, not {dimensions}",
            fix=f"use model.dimensions={width + width // 5} or head.start=principal",
            field="head.start",
            limit=width,
        )
    return torch.cat([principal(x, dimensions - width, g), centred(x, width, g)])


_DIRECTIONS = {"random": random, "centred": centred, "principal": principal, "both": both}
