"""An ONNX image encoder as a tower: scaling put before it, its pooled features as the only output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from nonneg_core.pixels.view import View
from nonneg_export.graphs.canonical import canonical
from nonneg_export.published.families import Pooling
from nonneg_export.published.tower import Tower
from nonneg_training.onnx_backbone.onnx_graph import load
from nonneg_training.onnx_backbone.scaling_and_pooling import Pool, Scaling, with_scaling_and_pooling


@dataclass(frozen=True)
class OnnxInterface:
    """How an ONNX file is fed and what is taken of it."""

    encoder: Path
    view: View
    scaling: Scaling
    input_name: str | None = None
    output_name: str | None = None
    pool: Pool | None = None


def features(how: OnnxInterface) -> ModelProto:
    """Return the encoder with scaling before it and its own features as output."""
    return canonical(
        with_scaling_and_pooling(
            load(how.encoder),
            how.view.size,
            how.scaling,
            input_name=how.input_name,
            output_name=how.output_name,
            pool=how.pool,
        )
    )


def tower(how: OnnxInterface) -> Tower:
    """Return the file as a tower."""
    return Tower(features(how), how.view, weights=how.encoder.name)


def by_family(how: OnnxInterface, family: Pooling) -> OnnxInterface:
    """Return the same with output and pooling of its architecture, where nothing was said."""
    if how.output_name is not None or how.pool is not None:
        return how
    outputs = [value.name for value in load(how.encoder).graph.output]
    named = [name for name in family.outputs if name in outputs]
    tokens = family.pool or ("cls" if not named and "last_hidden_state" in outputs else None)
    return OnnxInterface(how.encoder, how.view, how.scaling, how.input_name, named[0] if named else None, tokens)
