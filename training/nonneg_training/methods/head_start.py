"""Where a head starts from, as directions of the backbone's centred features, and the teachers that it follows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nonneg_core.arrays import Doubles, Numbers, Rows
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_runtime.heads.analytic_head import EDGES, Basis, fit_basis, teacher_vectors, within
from nonneg_runtime.heads.head import analytic, choose_names, class_directions, first, roots, with_names
from nonneg_runtime.heads.moments import Spread, spread
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.encoder.named_backbones import open_backbone
from nonneg_training.features.feature_cache import CachedFeatures
from nonneg_training.setup.run_settings import HeadSettings, RunSettings
from nonneg_training.views import evaluation_view


def teachers(settings: RunSettings) -> Iterator[EncoderModule]:
    """Yield the pretrained backbones that the settings name, each at the size it was made for."""
    for name in settings.head.teachers:
        network = open_backbone(name, small=False, pretrained="DEFAULT")
        yield EncoderModule(network, evaluation_view(settings.views, network.size), dimensions=None).eval()


def teacher_rows(of: Sequence[CachedFeatures]) -> CachedFeatures:
    """Return vectors of length one for every cached view: (views, n, the backbones' widths together)."""
    views, images, _ = of[0].shape
    rows = [np.asarray(each, dtype=np.float32).reshape(views * images, -1) for each in of]
    return teacher_vectors([roots(each) if each.min() >= 0 else each for each in rows]).reshape(views, images, -1)


# Where a head starts from: its rows as directions of the backbone's centred features.

SAMPLED_ROWS = 20_000  # features that mean and components are computed from


def sample_features(features: CachedFeatures) -> Tensor:
    """Return evenly spread rows of the first view, (n, width)."""
    count = features.shape[1]
    rows = torch.linspace(0, count - 1, min(count, SAMPLED_ROWS)).long().numpy()
    return torch.from_numpy(features[0, rows].copy())


@torch.no_grad()
def start_linear(layer: nn.Linear, x: Tensor, how: str, g: torch.Generator) -> None:
    """Fill `layer` so that it answers directions . (x - mean), scaled to a mean square of about one."""
    mean = x.mean(dim=0)
    rows = _DIRECTIONS[how](x - mean, layer.out_features, g)  # (D, width)
    scale = ((x - mean) @ rows.T).square().mean().sqrt().clamp(min=1e-12)
    layer.weight.copy_(rows / scale)
    layer.bias.copy_(-(layer.weight @ mean))


def every_view(features: CachedFeatures) -> Rows:
    """Return rows of all cached views, evenly spread where they are many, (n, width)."""
    flat = features.reshape(-1, features.shape[2])
    rows = np.linspace(0, len(flat) - 1, min(len(flat), SAMPLED_ROWS)).astype(np.int64)
    return np.asarray(flat[rows], dtype=np.float32)


@dataclass(frozen=True, eq=False)
class HeadStart:
    """What a head was computed from, and where its columns along classes stand."""

    spread: Spread
    classes: Numbers
    places: Numbers


@torch.no_grad()
def start_rotated(encoder: EncoderModule, pooled: Rows, head: HeadSettings, seed: int) -> HeadStart:
    """Fill the encoder's layer with the analytic head of these features; what it was computed from."""
    rows = _rooted(encoder, pooled)
    of = spread(rows)
    edges = within([*(edge for edge in EDGES if edge < head.components), head.components], len(of.mean))
    basis = fit_basis(rows, of, edges=edges, exponent=head.exponent, seed=seed)
    solution, classes, places = analytic(basis, rows, encoder.dimensions), np.zeros(0, np.int64), np.zeros(0, np.int64)
    if head.names:
        named = choose_names(_class_directions(encoder, basis, pooled), head.names)
        front, classes = first(solution, head.trained or 0), named.classes
        solution, places = with_names(front, basis, named.columns(basis), rows, encoder.dimensions)
    encoder.output.weight.copy_(torch.from_numpy(solution.weight.T))
    encoder.output.bias.copy_(torch.from_numpy(solution.bias))
    return HeadStart(of, classes, places)


def _rooted(encoder: EncoderModule, pooled: Rows) -> Rows:
    if not encoder.root:
        return pooled
    if pooled.min() < 0:
        raise DataInvalid(
            f"this backbone's features go below zero (to {pooled.min():.3g}): they have no square roots",
            fix="set model.root = false",
            field="model.root",
        )
    return roots(pooled)


def _class_directions(encoder: EncoderModule, basis: Basis, pooled: Rows) -> Doubles:
    classifier = encoder.backbone.classifier
    if classifier is None or not encoder.root:
        raise ConfigInvalid(
            "head.names needs a backbone that brings its classifier, and model.root",
            fix="use efficientnet-lite0 or -lite2 with model.root = true, or head.names = 0",
            field="head.names",
        )
    return class_directions(basis, classifier, pooled.mean(axis=0))


def random(x: Tensor, dimensions: int, g: torch.Generator) -> Tensor:
    """Return random directions of length one."""
    return F.normalize(torch.randn(dimensions, x.shape[1], generator=g), dim=1)


def centred(x: Tensor, dimensions: int, _: torch.Generator) -> Tensor:
    """Return one dimension a feature, those that vary most first: relu(feature - mean) before any training."""
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
    """Return each principal component and its opposite, strongest first; random directions when they run out."""
    _, _, components = torch.linalg.svd(x, full_matrices=False)
    both = torch.stack([components, -components], dim=1).flatten(0, 1)[:dimensions]
    rest = dimensions - len(both)
    return torch.cat([both, random(x, rest, g)]) if rest else both


def both(x: Tensor, dimensions: int, g: torch.Generator) -> Tensor:
    """Put principal components in front, for short prefixes; behind them every feature, so that nothing is lost."""
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
