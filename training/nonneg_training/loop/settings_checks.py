"""What cannot be: settings that contradict each other, the data, or the number of processes."""

import numpy as np

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_training.data import Captions, Images, ShardStream
from nonneg_training.encoder.encoder_module import ACTIVATIONS, NON_NEGATIVE, activation_names
from nonneg_training.onnx_backbone import is_onnx_file
from nonneg_training.setup import plugins
from nonneg_training.setup.process_group import ProcessGroup
from nonneg_training.setup.run_settings import RunSettings

CONTROL_METHODS = ("cl", "spectral-cl", "ce")  # what their non-negative counterparts are held against
METHODS = ("cl", "ncl", "spectral-cl", "spectral-ncl", "ce", "nce", "two-tower", "head")
HEAD_LOSSES = ("similarity", "neighbours", "contrastive", "labels", "reconstruction")


def check_names(settings: RunSettings) -> None:
    """Refuse a method or a loss that is not registered."""
    method, loss = settings.method, settings.loss.name
    if method not in METHODS and not plugins.find("method", method):
        raise plugins.unknown("method", "method", method, METHODS)
    if loss is not None and not plugins.find("loss", loss):
        raise plugins.unknown("loss.name", "loss", loss, ())
    if loss is not None and method in METHODS and method not in ("cl", "ncl"):
        raise ConfigInvalid(
            f"loss.name={loss} is for cl and ncl, and {method} has a loss of its own",
            fix="leave it out, or use method = ncl",
            field="loss.name",
            value=loss,
        )


def check_method(settings: RunSettings, images: Images | ShardStream) -> None:
    """Refuse settings that this method alone does not take."""
    method = settings.method
    if method == "two-tower" and not isinstance(images, Captions):
        raise ConfigInvalid(
            "two-tower learns from images with captions",
            fix="give a CSV with the columns image and caption as data.source",
            field="data.source",
            value=settings.data.source,
        )
    own = plugins.find("backbone", settings.model.backbone)
    learnt = settings.model.pretrained or is_onnx_file(settings.model.backbone) or own
    if (method == "head" or settings.model.frozen) and not learnt:
        raise ConfigInvalid(
            "a head, or model.frozen, needs a backbone that has learnt something",
            fix="set model.pretrained (DEFAULT, a torchvision name, or the folder of a run), or give an ONNX encoder",
            field="model.pretrained",
        )
    for field, given in (("loss.bias", settings.loss.bias), ("loss.start", settings.loss.start)):
        if given is not None and method not in ("ce", "nce"):
            raise ConfigInvalid(
                f"{field} is of the classes' weights, which {method} does not have",
                fix="leave it out, or use method = ce or nce",
                field=field,
            )
    if settings.model.frozen and (method in ("head", "two-tower") or isinstance(images, ShardStream)):
        raise ConfigInvalid(
            f"model.frozen is for methods that learn from labelled images or views of images, not for {method} here",
            fix="leave it out (a head's backbone is frozen anyway), or use method = ncl on a folder of images",
            field="model.frozen",
        )
    if settings.model.frozen and not settings.head.views and method not in ("ce", "nce"):
        raise ConfigInvalid(
            f"{method} compares random views, and none are cached",
            fix="set head.views to 2 or more",
            field="head.views",
        )
    _check_head(settings)


def _check_head(settings: RunSettings) -> None:
    """Refuse settings of a head that do not go together."""
    method, model = settings.method, settings.model
    if settings.head.contrastive and not settings.head.views:
        raise ConfigInvalid(
            "head.contrastive compares random views, and none are cached",
            fix="set head.views to 2 or more",
            field="head.views",
        )
    of_one_layer = {
        "head.start": settings.head.start == "rotated",
        "model.root": model.root,
        "model.power": model.power != 1,
    }
    several = bool(model.hidden or model.batch_norm or model.activation not in (None, "relu", "rep_relu"))
    for field, given in of_one_layer.items():
        if given and (several or method != "head"):
            raise ConfigInvalid(
                f"{field} is for a head of one linear layer and a ReLU",
                fix="use method=head, and leave model.hidden, model.batch_norm and model.activation out",
                field=field,
            )
    of_active_dimensions = ("top_k", "sparsity", "reconstruction")
    for name in of_active_dimensions if model.activation == "identity" else ():
        if method == "head" and getattr(settings.head, name):
            raise ConfigInvalid(
                f"head.{name} is about active dimensions, and with activation=identity all are",
                fix=f"leave head.{name} out, or use activation=relu",
                field=f"head.{name}",
            )
    if method == "head" and (settings.head.trained or 0) > model.dimensions:
        raise ConfigInvalid(
            f"head.trained={settings.head.trained} exceeds the head's {model.dimensions} dimensions",
            fix="ask for fewer, or leave it out",
            field="head.trained",
            value=settings.head.trained,
            limit=model.dimensions,
        )
    if method == "head" and not any(getattr(settings.head, name) for name in HEAD_LOSSES):
        raise ConfigInvalid(
            "this head has no loss to learn from", fix="set head.neighbours = 1", field="head.neighbours"
        )


def check_foreign(settings: RunSettings) -> None:
    """Refuse settings that do not go with an ONNX encoder, which is frozen and brings its weights."""
    name = settings.model.backbone
    if is_onnx_file(settings.model.backbone) and settings.method != "head" and not settings.model.frozen:
        raise ConfigInvalid(
            f"{name} is an ONNX encoder, which cannot learn: method={settings.method} would train it",
            fix="use method=head, which trains a head on its features, or model.frozen=true",
            field="method",
            value=settings.method,
        )
    own = settings.model.activation
    if is_onnx_file(name) and own and plugins.find("activation", own):
        raise ConfigInvalid(
            f"model.activation={own} is a plug-in's, which does not go behind an ONNX encoder",
            fix=f"choose one of {', '.join(NON_NEGATIVE)}",
            field="model.activation",
            value=own,
        )
    if is_onnx_file(settings.model.backbone) and settings.model.pretrained:
        raise ConfigInvalid(
            f"{name} brings its own weights", fix="leave model.pretrained out", field="model.pretrained"
        )


def check_stream(settings: RunSettings, stream: ShardStream) -> None:
    """Refuse of a stream what needs to choose among images, or to know their labels before they come."""
    if settings.method == "head":
        raise ConfigInvalid(
            "a head caches the features of images that are read again, which those of a stream are not",
            fix="copy the shards to a disk or mount them",
            field="data.source",
        )
    if settings.method in ("ce", "nce") and (settings.data.classes or 0) < 2:
        raise ConfigInvalid(
            f"{stream.name} does not tell how many labels it has",
            fix="say it: --set data.classes=1000",
            field="data.classes",
        )


def check_labels(settings: RunSettings, images: Images) -> None:
    """Refuse labels where classes do not differ, and pairs where not a class has two images."""
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


def allowed(method: str) -> tuple[str, ...]:
    """List the activations that go with a method: the controls' are signed, others non-negative, two towers' either.

    A head without an activation is the control of one with it; ce with one, of nce.
    """
    non_negative, signed = activation_names(signed=False), activation_names(signed=True)
    if method in ("two-tower", "ce") or plugins.find("method", method):
        return (*non_negative, *signed)
    if method == "head":
        return (*non_negative, "identity")
    return signed if method in CONTROL_METHODS else non_negative


def check_activation(method: str, name: str) -> None:
    """Refuse an activation that is not there, or that contradicts the method."""
    if name not in ACTIVATIONS and not plugins.find("activation", name):
        raise plugins.unknown("model.activation", "activation", name, ACTIVATIONS)
    if name not in allowed(method):
        raise ConfigInvalid(
            f"method={method} does not go with activation={name}",
            fix=f"choose one of {', '.join(allowed(method))}",
            field="model.activation",
            value=name,
        )


def check_batch(settings: RunSettings, images: int, world: ProcessGroup) -> None:
    """Refuse a batch that the images or the processes cannot fill."""
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
            fix=f"pass --batch {max(images // settings.loop.accumulate, 1)} or less, or give more images",
            field="loop.batch",
            value=step,
            limit=images,
        )
