"""From settings to an encoder; and the settings with everything filled in that was left to choose."""

from __future__ import annotations

from nonneg_client.errors import ConfigInvalid
from nonneg_training.activations import CONTROLS, NON_NEGATIVE
from nonneg_training.backbones import backbone
from nonneg_training.data import Images
from nonneg_training.distributed import World
from nonneg_training.encoder import Encoder
from nonneg_training.settings import Settings
from nonneg_training.views import evaluation_view

CONTROL_METHODS = ("cl", "spectral-cl", "ce")  # what their non-negative counterparts are held against
SMALL = 64  # up to this side a network starts with the 3x3 stem


def resolve(settings: Settings, images: Images, world: World) -> Settings:
    """The settings of this run on this data: nothing is left to default, so that the run folder stands alone."""
    name = settings.model.activation or ("identity" if settings.method in CONTROL_METHODS else "relu")
    _check_activation(settings.method, name)
    _check_batch(settings, len(images), world)
    size = settings.views.size or images.side or backbone(settings.model.backbone, small=False).size
    stem = settings.model.stem
    if stem == "auto":
        stem = "small" if size <= SMALL else "imagenet"
    return settings.model_copy(
        update={
            "views": settings.views.model_copy(update={"size": size}),
            "model": settings.model.model_copy(update={"activation": name, "stem": stem}),
        }
    )


def build_encoder(settings: Settings, *, pretrained: bool = True) -> Encoder:
    """The encoder of resolved settings; without `pretrained` nothing is fetched (its weights are loaded next)."""
    model, size = settings.model, settings.views.size
    assert size is not None
    assert model.activation is not None
    return Encoder(
        backbone(model.backbone, small=model.stem == "small", pretrained=model.pretrained if pretrained else None),
        evaluation_view(settings.views, size),
        dimensions=model.dimensions,
        hidden=model.hidden,
        activation=model.activation,
        batch_norm=model.batch_norm,
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
