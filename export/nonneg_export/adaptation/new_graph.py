"""An encoder's graph with a head behind it, where the bundle has none in a file of its own."""

from __future__ import annotations

from pathlib import Path

from nonneg_core.heads.head import Head
from nonneg_export.graphs.canonical import canonical, save
from nonneg_export.graphs.root_head import detach_head, with_root_head
from nonneg_runtime.bundle import ENCODER, Bundle
from nonneg_runtime.head_file import metadata_of
from nonneg_training.onnx_backbone.onnx_graph import load


def write_encoder(bundle: Bundle, head: Head, place: Path) -> None:
    """Put the encoder with the head on roots of its embedding into `place`, the head's weights beside it."""
    model = canonical(with_root_head(load(bundle.encoder), head))
    detach_head(model, place, metadata_of(head))
    save(model, place / ENCODER)
