"""From settings to an encoder; and the settings with everything filled in that was left to choose."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nonneg_client.errors import ConfigInvalid, DataInvalid
from nonneg_training.activations import CONTROLS, NON_NEGATIVE
from nonneg_training.backbones import backbone
from nonneg_training.data import Captions, Images
from nonneg_training.distributed import World
from nonneg_training.encoder import Encoder
from nonneg_training.settings import FILE_NAME as CONFIG
from nonneg_training.settings import Settings
from nonneg_training.views import evaluation_view

CONTROL_METHODS = ("cl", "spectral-cl", "ce")  # what their non-negative counterparts are held against
HEAD_LOSSES = ("similarity", "neighbours", "contrastive", "labels", "reconstruction")
SMALL = 64  # up to this side a network starts with the 3x3 stem


def resolve(settings: Settings, images: Images, world: World) -> Settings:
    """The settings of this run on this data: nothing is left to default, so that the run folder stands alone."""
    model, method = settings.model, settings.method
    name = model.activation or ("identity" if method in CONTROL_METHODS else "relu")
    _check_activation(method, name)
    _check_labels(settings, images)
    _check_batch(settings, len(images), world)
    _check_method(settings, images)
    size = settings.views.size or images.side or backbone(model.backbone, small=False).size
    chosen = {
        "activation": name,
        "stem": ("small" if size <= SMALL else "imagenet") if model.stem == "auto" else model.stem,
        "hidden": (() if method == "head" else (256,)) if model.hidden is None else model.hidden,
        "batch_norm": name in NON_NEGATIVE and method != "head" if model.batch_norm is None else model.batch_norm,
    }
    views = settings.views.model_copy(update={"size": size})
    return settings.model_copy(update={"views": views, "model": model.model_copy(update=chosen)})


def build_encoder(settings: Settings, *, pretrained: bool = True) -> Encoder:
    """The encoder of resolved settings; without `pretrained` nothing is fetched (its weights are loaded next)."""
    model, size = settings.model, settings.views.size
    assert size is not None
    assert model.activation is not None
    named = model.pretrained if pretrained and not _is_run(model.pretrained) else None
    return Encoder(
        backbone(model.backbone, small=model.stem == "small", pretrained=named, size=size),
        evaluation_view(settings.views, size),
        dimensions=model.dimensions or None,
        hidden=model.hidden or (),
        activation=model.activation,
        batch_norm=bool(model.batch_norm),
    )


def pretrained_run(settings: Settings) -> Path | None:
    """The run folder whose backbone is to be the start, if that is what `model.pretrained` names."""
    name = settings.model.pretrained
    return Path(name) if name and _is_run(name) else None


def _is_run(name: str | None) -> bool:
    return bool(name) and (Path(str(name)) / CONFIG).is_file()


def _check_method(settings: Settings, images: Images) -> None:
    """What one method alone needs."""
    method, model = settings.method, settings.model
    if method == "two-tower" and not isinstance(images, Captions):
        raise ConfigInvalid(
            "two-tower learns from images with captions",
            fix="give a CSV with the columns image and caption as data.source",
            field="data.source",
            value=settings.data.source,
        )
    if method == "head" and not model.pretrained:
        raise ConfigInvalid(
            "a head needs a backbone that has learnt something",
            fix="set model.pretrained (DEFAULT, a torchvision name, or the folder of a run)",
            field="model.pretrained",
        )
    if settings.head.contrastive and not settings.head.views:
        raise ConfigInvalid(
            "head.contrastive compares random views, and none are cached",
            fix="set head.views to 2 or more",
            field="head.views",
        )
    if method == "head" and not any(getattr(settings.head, name) for name in HEAD_LOSSES):
        raise ConfigInvalid(
            "this head has no loss to learn from", fix="set head.neighbours = 1", field="head.neighbours"
        )


def _check_labels(settings: Settings, images: Images) -> None:
    """Labels are good for something only where classes differ, and pairs only where a class has two images."""
    sizes = np.bincount(images.labels)
    if settings.method in ("ce", "nce") and (sizes > 0).sum() < 2:
        raise DataInvalid(
            f"{images.name} has one class, {images.classes[0]}: there is nothing to tell apart",
            fix="give a folder with a folder of images for each class, or use method = ncl",
            value=images.name,
        )
    if settings.method == "head" and settings.head.labels and not (sizes > 1).any():
        raise DataInvalid(
            f"{images.name} has one image of each class: no image has a positive",
            fix="add images, or set head.labels = 0",
            field="head.labels",
            value=images.name,
        )


def _check_activation(method: str, name: str) -> None:
    allowed = CONTROLS if method in CONTROL_METHODS else NON_NEGATIVE
    if name not in allowed:
        raise ConfigInvalid(
            f"method={method} does not go with activation={name}",
            fix=f"choose one of {', '.join(allowed)}",
            field="model.activation",
            value=name,
        )


def _check_batch(settings: Settings, images: int, world: World) -> None:
    batch = settings.loop.batch
    step = batch * settings.loop.accumulate
    if batch % world.size:
        raise ConfigInvalid(
            f"loop.batch={batch} cannot be shared by {world.size} processes",
            fix=f"use a multiple of {world.size}",
            field="loop.batch",
            value=batch,
        )
    if batch < 2 * world.size:
        raise ConfigInvalid(
            f"loop.batch={batch} leaves an image nothing to differ from",
            fix=f"use at least {2 * world.size}",
            field="loop.batch",
            value=batch,
        )
    if step > images:
        raise ConfigInvalid(
            f"{step} images a step (loop.batch x loop.accumulate) exceed the {images} images",
            fix=f"use at most {images}",
            field="loop.batch",
            value=step,
            limit=images,
        )
