"""From settings to an encoder; and the settings with everything filled in that was left to choose."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_client.errors import ConfigInvalid, DataInvalid, MissingExtra
from nonneg_training.activations import CONTROLS, NON_NEGATIVE
from nonneg_training.backbones import Backbone, backbone
from nonneg_training.data import Captions, Images, Stream
from nonneg_training.distributed import World
from nonneg_training.encoder import Encoder
from nonneg_training.settings import FILE_NAME as CONFIG
from nonneg_training.settings import Settings
from nonneg_training.views import evaluation_view

CONTROL_METHODS = ("cl", "spectral-cl", "ce")  # what their non-negative counterparts are held against
HEAD_LOSSES = ("similarity", "neighbours", "contrastive", "labels", "reconstruction")
SMALL = 64  # up to this side a network starts with the 3x3 stem


def resolve(settings: Settings, images: Images | Stream, world: World) -> Settings:
    """The settings of this run on this data: nothing is left to default, so that the run folder stands alone."""
    _check_foreign(settings)
    if is_foreign(settings):
        settings = _onnx("nonneg_training.foreign.recipe").settle(settings)
    model, method = settings.model, settings.method
    name = model.activation or ("identity" if method in CONTROL_METHODS else "relu")
    _check_activation(method, name)
    _check_stream(settings, images) if isinstance(images, Stream) else _check_labels(settings, images)
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
    return Encoder(
        _backbone(settings, size, pretrained=pretrained),
        evaluation_view(settings.views, size),
        dimensions=model.dimensions or None,
        hidden=model.hidden or (),
        activation=model.activation,
        batch_norm=bool(model.batch_norm),
    )


def is_foreign(settings: Settings) -> bool:
    """Whether the backbone is somebody's ONNX file."""
    return settings.model.backbone.endswith(".onnx")


def _backbone(settings: Settings, size: int, *, pretrained: bool) -> Backbone:
    model = settings.model
    if is_foreign(settings):
        found: Backbone = _onnx("nonneg_training.backbones.foreign").Foreign(Path(model.backbone), settings.onnx, size)
        return found
    named = model.pretrained if pretrained and not _is_run(model.pretrained) else None
    return backbone(model.backbone, small=model.stem == "small", pretrained=named, size=size)


def _onnx(module: str) -> Any:
    """A module that needs onnx and onnxruntime, which training does not."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"an ONNX encoder as backbone needs {error.name}", fix='pip install "nonneg[export]"'
        ) from error


def pretrained_run(settings: Settings) -> Path | None:
    """The run folder whose backbone is to be the start, if that is what `model.pretrained` names."""
    name = settings.model.pretrained
    return Path(name) if name and _is_run(name) else None


def _is_run(name: str | None) -> bool:
    return bool(name) and (Path(str(name)) / CONFIG).is_file()


def _check_method(settings: Settings, images: Images | Stream) -> None:
    """What one method alone needs."""
    method, model = settings.method, settings.model
    if method == "two-tower" and not isinstance(images, Captions):
        raise ConfigInvalid(
            "two-tower learns from images with captions",
            fix="give a CSV with the columns image and caption as data.source",
            field="data.source",
            value=settings.data.source,
        )
    if method == "head" and not (model.pretrained or is_foreign(settings)):
        raise ConfigInvalid(
            "a head needs a backbone that has learnt something",
            fix="set model.pretrained (DEFAULT, a torchvision name, or the folder of a run), or give an ONNX encoder",
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


def _check_foreign(settings: Settings) -> None:
    """An ONNX encoder is frozen, and brings its weights."""
    name = settings.model.backbone
    if is_foreign(settings) and settings.method != "head":
        raise ConfigInvalid(
            f"{name} is an ONNX encoder, which cannot learn: method={settings.method} would train it",
            fix="use method=head, which trains a head on its features",
            field="method",
            value=settings.method,
        )
    if is_foreign(settings) and settings.model.pretrained:
        raise ConfigInvalid(
            f"{name} brings its own weights", fix="leave model.pretrained out", field="model.pretrained"
        )


def _check_stream(settings: Settings, stream: Stream) -> None:
    """What needs to choose among images, or to know their labels before they come."""
    if settings.method == "head":
        raise ConfigInvalid(
            "a head caches the features of images it can come back to, which a stream has not",
            fix="copy the shards to a disk or mount them",
            field="data.source",
        )
    if settings.method in ("ce", "nce") and (settings.data.classes or 0) < 2:
        raise ConfigInvalid(
            f"{stream.name} does not tell how many labels it has",
            fix="say it: --set data.classes=1000",
            field="data.classes",
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
