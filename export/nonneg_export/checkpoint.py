"""A training run as a draft of a bundle."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from nonneg_core.pixels.view import Pixels, View
from nonneg_export.assemble import About, Draft
from nonneg_export.canonical import canonical
from nonneg_export.columns import activate
from nonneg_export.convert import to_onnx
from nonneg_export.projector import with_projector
from nonneg_runtime.manifest import Provenance
from nonneg_training.checkpoint import load_encoder, run_settings
from nonneg_training.data.folder import Folder
from nonneg_training.encoder import Encoder
from nonneg_training.onnx_backbone import is_foreign
from nonneg_training.onnx_backbone.recipe import features_graph
from nonneg_training.settings import Settings


def draft(run: Path, about: About, *, relu: bool = False) -> Draft:
    """The encoder of a run folder, as ONNX, with torch's answers to compare it with."""
    encoder = load_encoder(run)
    settings = run_settings(run)

    def answer(pixels: Pixels) -> NDArray[np.float32]:
        with torch.inference_mode():
            rows: NDArray[np.float32] = encoder(torch.from_numpy(pixels)).numpy()
        return np.maximum(rows, 0) if relu else rows

    model = _graph(encoder, settings)
    return Draft(
        model=activate(model) if relu else model,
        view=encoder.view,
        name=about.name,
        version=about.version,
        activation=f"relu({encoder.activation})" if relu else encoder.activation,
        provenance=_provenance(settings, about),
        description=f"{_backbone(settings)}, {settings.method}, {settings.loop.epochs} epochs",
        nested=bool(settings.loss.lengths),
        reference=answer,
        evaluation=_seen_in_training(encoder.view),
    )


def _seen_in_training(view: View) -> Callable[[Path], Pixels]:
    """What the evaluation during training sees of a photo, by training's own reader."""

    def look(path: Path) -> Pixels:
        with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
            shutil.copyfile(path, Path(place, path.name))
            pixels: Pixels = Folder(Path(place)).pixels([0], view)[0]
        return pixels

    return look


def _graph(encoder: Encoder, settings: Settings) -> ModelProto:
    if not is_foreign(settings.model.backbone):
        return to_onnx(encoder, encoder.view.size)
    features = features_graph(Path(settings.model.backbone), settings.onnx, encoder.view.size)
    return canonical(with_projector(features, encoder))


def _backbone(settings: Settings) -> str:
    return Path(settings.model.backbone).name if is_foreign(settings.model.backbone) else settings.model.backbone


def _provenance(settings: Settings, about: About) -> Provenance:
    start = settings.model.pretrained or (_backbone(settings) if is_foreign(settings.model.backbone) else None)
    return Provenance(
        weights=f"trained by nonneg ({settings.method}, {_backbone(settings)}"
        + (f", from {start})" if start else ", from scratch)"),
        weights_license=about.weights_license,
        data=Path(settings.data.source).name,
        data_license=about.data_license,
    )
