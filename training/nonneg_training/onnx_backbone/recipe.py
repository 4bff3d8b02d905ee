"""From the settings of an ONNX backbone to the graph that computes its features; the file is known by its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from onnx import ModelProto

from nonneg_core.errors import BundleInvalid, CheckpointInvalid, ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_runtime.external_data import external_files
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor
from nonneg_training.onnx_backbone.onnx_graph import load
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling, side, with_scaling_and_pooling
from nonneg_training.settings import Onnx, RunSettings

USUAL_SIZE = 224


def settle(settings: RunSettings) -> RunSettings:
    """Fill in view, scaling and digest, so that the run needs nothing but the encoder's file."""
    path = Path(settings.model.backbone).absolute()
    found = settings.onnx.model_copy(update={"digest": settings.onnx.digest or digest(path)})
    views = settings.views
    if found.preprocessor is not None:
        view, scaling = read_preprocessor(found.preprocessor)
        _check_size(views.size, view, found.preprocessor)
        seen = {"size": view.size, "fit": view.fit, "centre": view.crop, "interpolation": view.interpolation}
        views = views.model_copy(update=seen)
        numbers = {"factor": scaling.factor, "mean": scaling.mean, "std": scaling.std, "preprocessor": None}
        found = found.model_copy(update=numbers)
    if views.size is None:
        views = views.model_copy(update={"size": side(load(path)) or USUAL_SIZE})
    model = settings.model.model_copy(update={"backbone": str(path)})
    return settings.model_copy(update={"model": model, "views": views, "onnx": found})


def features_graph(path: Path, how: Onnx, size: int) -> ModelProto:
    """Build what a bundle begins with: pixels in, one row of features an image out."""
    if how.digest and how.digest != digest(path):
        raise CheckpointInvalid(
            f"{path} is not the encoder that this head was trained on (its sha256 differs)",
            fix="put that one back, or train again",
            field="model.backbone",
            value=str(path),
        )
    scaling = Scaling(how.factor, how.mean, how.std)
    return with_scaling_and_pooling(load(path), size, scaling, output_name=how.output, pool=how.pool)


def digest(path: Path) -> str:
    """Return sha256 of the file, and of the files of weights beside it that it names."""
    whole = hashlib.sha256()
    try:
        beside = sorted(external_files(path))
        for part in (path, *(path.parent / name for name in beside)):
            with part.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    except BundleInvalid as error:
        raise DataInvalid(f"{path} is not an ONNX model", fix="export it again", value=str(path)) from error
    except OSError as error:
        raise DataInvalid(
            f"{error.filename} cannot be read ({error.strerror})",
            fix="check the path of the ONNX encoder (model.backbone)",
            field="model.backbone",
            value=str(path),
        ) from error
    return whole.hexdigest()


def _check_size(asked: int | None, view: View, path: Path) -> None:
    if asked not in (None, view.size):
        raise ConfigInvalid(
            f"views.size={asked}, but {path} says {view.size}",
            fix="leave views.size out",
            field="views.size",
            value=asked,
        )
