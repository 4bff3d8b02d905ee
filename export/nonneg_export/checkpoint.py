"""A training run as a draft of a bundle."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from onnx import ModelProto

from nonneg_core.heads.spread import Spread
from nonneg_core.pixels.view import Pixels, View
from nonneg_export.about import About
from nonneg_export.assemble import Apart, Draft
from nonneg_export.graphs.canonical import canonical
from nonneg_export.graphs.columns import activate
from nonneg_export.graphs.convert import in_torch, to_onnx
from nonneg_export.graphs.projector import head_of, round_weights, takes, with_projector
from nonneg_export.texts.trained_text import text_of_run
from nonneg_runtime.manifest import Provenance
from nonneg_training.checkpoint import load_encoder, read_checkpoint, run_settings
from nonneg_training.data.folder import ImageFolder
from nonneg_training.encoder import EncoderModule
from nonneg_training.onnx_backbone import is_onnx_file
from nonneg_training.onnx_backbone.recipe import features_graph
from nonneg_training.settings import RunSettings


def draft(run: Path, about: About, *, relu: bool = False) -> Draft:
    """Return the encoder of a run folder, as ONNX, with torch's answers to compare it with."""
    encoder = load_encoder(run)
    settings = run_settings(run)
    head = head_of(encoder) if settings.method == "head" and encoder.norm is None else None
    if head is not None:
        round_weights(encoder)
    model = _graph(encoder, settings, apart=head is not None)
    return Draft(
        model=activate(model) if relu else model,
        view=encoder.view,
        name=about.name,
        version=about.version,
        activation=f"relu({encoder.activation})" if relu else encoder.activation,
        provenance=_provenance(settings, about),
        description=f"{_backbone(settings)}, {settings.method}, {settings.loop.epochs} epochs",
        nested=bool(settings.loss.lengths),
        head=None
        if head is None
        else Apart(head.power, takes(encoder), settings.head.trained or encoder.dimensions, _spread(run)),
        reference=in_torch(encoder, relu=relu),
        evaluation=_seen_in_training(encoder.view),
        text=text_of_run(run, settings.text.length, relu=relu) if settings.method == "two-tower" else None,
    )


def _seen_in_training(view: View) -> Callable[[Path], Pixels]:
    """Return what the evaluation during training sees of a photo, by training's own reader."""

    def look(path: Path) -> Pixels:
        with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
            shutil.copyfile(path, Path(place, path.name))
            pixels: Pixels = ImageFolder(Path(place)).pixels([0], view)[0]
        return pixels

    return look


def _graph(encoder: EncoderModule, settings: RunSettings, *, apart: bool) -> ModelProto:
    """Return the encoder's graph; a head that is kept apart stands behind the backbone's, under names of its own."""
    if is_onnx_file(settings.model.backbone):
        features = features_graph(Path(settings.model.backbone), settings.onnx, encoder.view.size)
    elif apart:
        features = to_onnx(_Features(encoder), encoder.view.size)
    else:
        return to_onnx(encoder, encoder.view.size)
    return canonical(with_projector(features, encoder, stored=np.float16 if apart else np.float32))


class _Features(torch.nn.Module):
    """uint8 (batch, h, w, 3) -> the backbone's features."""

    def __init__(self, encoder: EncoderModule) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.encoder.features(pixels)


def _spread(run: Path) -> Spread | None:
    """Return what the head was computed from, where it was."""
    kept = read_checkpoint(run).tensors
    if "spread_mean" not in kept:
        return None
    return Spread(kept["spread_mean"].numpy(), kept["spread_covariance"].numpy(), int(kept["spread_count"]))


def _backbone(settings: RunSettings) -> str:
    return Path(settings.model.backbone).name if is_onnx_file(settings.model.backbone) else settings.model.backbone


def _provenance(settings: RunSettings, about: About) -> Provenance:
    start = settings.model.pretrained or (_backbone(settings) if is_onnx_file(settings.model.backbone) else None)
    return Provenance(
        weights=f"trained by nonneg ({settings.method}, {_backbone(settings)}"
        + (f", from {start})" if start else ", from scratch)"),
        weights_license=about.weights_license,
        data=Path(settings.data.source).name,
        data_license=about.data_license,
    )
